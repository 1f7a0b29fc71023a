"""A Prefect plugin: `prefect deployment run generate-labels`, checked before it is submitted.

Stock Prefect wants FLOW/DEPLOYMENT. Inside the checkout, whose pyproject.toml switches
plugins on (`[tool.prefect.plugins]`), this plugin looks at the command line of
`prefect deployment run`, and of that command only:
- a bare NAME is replaced by FLOW/NAME where the server has exactly one deployment of that
  name; with none or several the command ends with a message. FLOW/DEPLOYMENT and --id stay
  as they are;
- the parameters of our flows are checked (`flows.flow_parameters`): a config file that is
  missing, an unknown key or a bad value ends the command, and no run is made.

Prefect calls the hook while it is imported, before it reads `sys.argv`. The command line is
read by Prefect's own parser. Not covered: `prefect --profile X deployment run NAME` (the
profile is not in force yet; set PREFECT_PROFILE instead), and parameters from stdin.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.plugins import register_hook

if TYPE_CHECKING:
    from prefect.client.schemas.responses import DeploymentResponse
    from prefect.plugins import HookContext

_COMMANDS = (["deployment", "run"], ["deployments", "run"])


class RefusedError(Exception):
    """The run must not be submitted; the message says why."""


@dataclass(frozen=True, slots=True)
class DeploymentRun:
    """A `prefect deployment run` as it was typed.

    `name_index` is the name's place among the tokens after `run`. `parameters` is None
    where they cannot be known here.
    """

    name: str | None
    name_index: int | None
    deployment_id: str | None
    parameters: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment on the server; `parameters` are its defaults."""

    flow_name: str
    name: str
    parameters: Mapping[str, Any]


@register_hook
async def setup_environment(*, ctx: "HookContext") -> None:
    """Prefect's hook. Changes nothing but the name in `sys.argv`."""
    if not _is_prefect(sys.argv[0], sys.orig_argv) or sys.argv[1:3] not in _COMMANDS:
        return
    run = read_command(sys.argv[3:])
    if run is None:
        return
    try:
        deployed = resolve(run, await _deployments(run, ctx.api_url))
        if deployed is not None:
            check(run, deployed)
    except RefusedError as refused:
        sys.stderr.write(f"stepmark: {refused}\n")
        raise SystemExit(1) from refused
    if deployed is not None and run.name_index is not None and is_bare(run):
        sys.argv[3 + run.name_index] = f"{deployed.flow_name}/{deployed.name}"


def read_command(tokens: Sequence[str]) -> DeploymentRun | None:
    """Read what follows `prefect deployment run`. None where Prefect itself will refuse it,
    or only shows its help.
    """
    arguments = _parse(tokens)
    if arguments is None:
        return None
    name: str | None = arguments.get("name")
    return DeploymentRun(
        name=name,
        name_index=_name_index(tokens, name),
        deployment_id=arguments.get("deployment_id"),
        parameters=_typed_parameters(arguments.get("params"), arguments.get("multiparams")),
    )


def is_bare(run: DeploymentRun) -> bool:
    """Whether the run names a deployment without its flow."""
    return run.name is not None and "/" not in run.name


def resolve(run: DeploymentRun, found: Sequence[Deployed]) -> Deployed | None:
    """The deployment meant, of those `found` for what was typed.

    None leaves the command to Prefect. Raises RefusedError for a bare name that means none
    or several.
    """
    if is_bare(run) and not found:
        raise RefusedError(
            f"the server has no deployment named {run.name!r}; `prefect deployment ls` lists "
            "them, `prefect deploy --all` makes those of prefect.yaml"
        )
    if is_bare(run) and len(found) > 1:
        names = ", ".join(sorted(f"{one.flow_name}/{one.name}" for one in found))
        raise RefusedError(f"{run.name!r} means several deployments; give one of {names}")
    return found[0] if len(found) == 1 else None


def check(run: DeploymentRun, deployed: Deployed) -> None:
    """Check the parameters that the run would have. Raises RefusedError."""
    from flows.flow_parameters import check_parameters
    from pipeline.errors import ConfigError

    if run.parameters is None:
        return
    try:
        check_parameters(deployed.flow_name, {**deployed.parameters, **run.parameters})
    except ConfigError as error:
        raise RefusedError(f"not submitted: {error}") from error


def _is_prefect(program: str, original: Sequence[str]) -> bool:
    # `python -m prefect` has not replaced the "-m" yet when the package is imported
    return Path(program).name == "prefect" or (
        program == "-m" and "prefect" in original[original.index("-m") :][:2]
    )


def _parse(tokens: Sequence[str]) -> dict[str, Any] | None:
    from cyclopts import CycloptsError
    from prefect.cli.deployment import deployment_app

    try:
        command, bound, _ = deployment_app.parse_args(
            ["run", *tokens], exit_on_error=False, print_error=False
        )
    except CycloptsError:
        return None
    return dict(bound.arguments) if command.__name__ == "run" else None


def _name_index(tokens: Sequence[str], name: str | None) -> int | None:
    """The same word can also be an option's value: look which token the parser calls name."""
    for index, token in enumerate(tokens):
        if name is not None and token == name:
            marked = [*tokens[:index], f"{name}/", *tokens[index + 1 :]]
            if (_parse(marked) or {}).get("name") == f"{name}/":
                return index
    return None


def _typed_parameters(params: list[str] | None, multiparams: str | None) -> dict[str, Any] | None:
    from prefect.cli._utilities import load_json_key_values

    if multiparams == "-":
        return None
    try:
        together = json.loads(multiparams) if multiparams else {}
        return {**together, **load_json_key_values(params or [], "parameter")}
    except (ValueError, TypeError):
        return None


async def _deployments(run: DeploymentRun, api_url: str | None) -> list[Deployed]:
    """Those that the typed name or id means. Raises RefusedError where a bare name needs a
    server and there is none; the other forms are then left to Prefect.
    """
    import httpx
    from prefect.exceptions import PrefectException

    if api_url is None:
        if is_bare(run):
            raise RefusedError(
                f"PREFECT_API_URL is not set, so nobody knows a deployment {run.name!r}; after "
                "`prefect server start`: export PREFECT_API_URL=http://127.0.0.1:4200/api"
            )
        return []
    try:
        return await _ask_server(run)
    except (httpx.HTTPError, PrefectException, RuntimeError, ValueError) as error:
        if is_bare(run):
            raise RefusedError(
                f"the Prefect server at {api_url} does not answer ({error}); start it with "
                "`prefect server start`, or correct PREFECT_API_URL"
            ) from error
        return []


async def _ask_server(run: DeploymentRun) -> list[Deployed]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    async with get_client() as client:
        found: list[DeploymentResponse]
        if run.deployment_id is not None:
            found = [await client.read_deployment(run.deployment_id)]
        elif run.name is not None and is_bare(run):
            named = DeploymentFilter(name=DeploymentFilterName(any_=[run.name]))
            found = await client.read_deployments(deployment_filter=named)
        elif run.name is not None:
            found = [await client.read_deployment_by_name(run.name)]
        else:
            return []
        return [
            Deployed(
                (await client.read_flow(one.flow_id)).name, one.name, dict(one.parameters or {})
            )
            for one in found
        ]
