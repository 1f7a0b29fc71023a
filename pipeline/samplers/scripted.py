"""A deterministic sampler with known true values: for tests and load tests.

It solves the problems of `pipeline.demo` without a model. Each line of arithmetic is
written right with probability `step_accuracy` and otherwise off by one; what was written
before is carried on, so the true MC value of a prefix is known: 0 after a wrong line,
else `step_accuracy ** lines_left`. Latency and faults are set by the test.
"""

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.demo.problems import DemoProblem
from pipeline.demo.student import Line, reference_lines, solution_text
from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion, SamplingRequest


@dataclass(slots=True)
class ScriptedSampler:
    """Completes prompts in the plain template whose question is among `problems`.

    `problems` maps question to problem. With `fail_after` the sampler raises EngineError
    from that request on. `num_requests` and `num_samples` count what was asked of it.
    """

    problems: Mapping[str, DemoProblem]
    step_accuracy: float = 0.8
    latency_seconds: float = 0.0
    fail_after: int | None = None
    num_requests: int = field(default=0, init=False)
    num_samples: int = field(default=0, init=False)

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        """`num_samples` completions, each a function of the prompt and its seed only."""
        self.num_requests += 1
        if self.fail_after is not None and self.num_requests > self.fail_after:
            raise EngineError(f"the scripted engine fails after {self.fail_after} requests")
        await asyncio.sleep(self.latency_seconds)
        self.num_samples += request.num_samples
        return [
            self._complete(request.prompt, request.seed + child, request.sampling.stop)
            for child in range(request.num_samples)
        ]

    def _complete(self, prompt: str, seed: int, stop: tuple[str, ...]) -> Completion:
        question, _, written = prompt.removeprefix("Question: ").partition("\nAnswer:")
        problem = self.problems.get(question)
        if problem is None:
            raise EngineError(f"the scripted engine does not know the question {question[:80]!r}")
        lines = _written_lines(written)
        lines_left = reference_lines(problem)[len(lines) :]
        is_wrong = lines != reference_lines(problem)[: len(lines)]
        rng = random.Random(f"{prompt}/{seed}")
        for line in lines_left:
            is_wrong = is_wrong or rng.random() >= self.step_accuracy
            lines = (*lines, Line(line.owner, line.expression, line.value + is_wrong))
        text = solution_text(lines, problem.thing)[len(written) :]
        stops = [(text.find(one), one) for one in stop if one in text]
        if not stops:
            return Completion(text, FinishReason.STOP, len(text.split()))
        at, found = min(stops)  # a stop string costs a token, as it does in engines
        num_tokens = len(text[:at].split()) + 1
        return Completion(text[:at], FinishReason.STOP, num_tokens, stopped_at=found)


_LINE = re.compile(r"(\w+) has ([\d*/+-]+)=(-?\d+) ")


def _written_lines(written: str) -> tuple[Line, ...]:
    return tuple(
        Line(owner, expression, int(value)) for owner, expression, value in _LINE.findall(written)
    )
