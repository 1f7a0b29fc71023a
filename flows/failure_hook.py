"""What to do after a refresh that failed or crashed: on the run's page and in its log.

Prefect calls the hook in the flow's own process after a failure, and in the worker's after a
crash, by the names of the parameters. There the exception is known only by the state's words.
"""

from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.logging.loggers import flow_run_logger

from flows.artifacts import publish_text_of_run
from pipeline.errors import (
    ConfigError,
    DataError,
    DatasetLockedError,
    EngineError,
    GateError,
    HubError,
)

KEY = "what-to-do"

_ADVICE: Mapping[type[Exception], str] = {
    GateError: (
        "The labels are finished and current; they were not published. Read the artifacts `gates` "
        "and `report`. Where the labels are right as they are, change [publish.gates] in {config}, "
        "or publish them once with `stepmark publish {out} --config {config} --force`. Until then "
        "every night ends like this one."
    ),
    HubError: (
        "The labels are finished and current; the Hub did not take them. The next night tries "
        "again. To try now: `stepmark publish {out} --config {config}`."
    ),
    ConfigError: "Nothing was sampled. Correct {config} or the run's parameters, and run it again.",
    DatasetLockedError: (
        "Another run is at work on {out}: nothing was touched. Wait for its end; if there is none, "
        "the message says who holds the folder."
    ),
    EngineError: (
        "The engine died for good. What was sampled before is stored, and the next run goes on "
        "from there. Look at the engine's log in {out}/engine and at [engine] in {config}."
    ),
    DataError: "A file is missing or damaged: `stepmark verify {out}` names all there are.",
}
_OTHERWISE = (
    "What was finished is stored. Run it again, and it goes on from there: `prefect deployment run "
    "refresh-labels -p config={config} -p out={out}`. If it fails again, look at the run's log."
)


def say_what_to_do(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """For `on_failure` and `on_crashed`: the artifact `what-to-do`, and a line of log."""
    advice = advice_for(_cause(state), flow_run.parameters)
    flow_run_logger(flow_run, flow).error("%s", advice)
    publish_text_of_run(KEY, f"{advice}\n\n{_quoted(state.message or '')}", flow_run.id)


def advice_for(cause: object, parameters: Mapping[str, object]) -> str:
    """What to do about `cause`; for a crash, or a fault of ours, to run it again."""
    text = next((said for kind, said in _ADVICE.items() if isinstance(cause, kind)), _OTHERWISE)
    return text.format(config=parameters.get("config"), out=parameters.get("out"))


def _cause(state: State[Any]) -> object:
    """The exception, which Prefect may wrap in a record of a result; None in a worker."""
    return getattr(state.data, "result", state.data)


def _quoted(message: str) -> str:
    """As code, in which nothing is a link or a picture."""
    return "\n".join(f"    {line}" for line in message.splitlines())
