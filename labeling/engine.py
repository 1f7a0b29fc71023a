"""The loop: ask the policy, sample, grade, write, tell, for many problems at once.

One stream of requests across all problems keeps the engine busy: a problem's next draws
never wait for another problem's. Finished rollouts are handed to `write` at once; what is
already stored is not drawn again. The loop knows nothing of policies, files or engines.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grading.verdict import Grade
from labeling.allocate import AllocationConfig, ask
from labeling.prompts import Prompt, PromptEncoder
from labeling.steps import StepConfig
from labeling.tree import Node, PrefixTree, build_tree
from pipeline.config import SamplingConfig
from pipeline.records import FinishReason, Prefix, Problem, Rollout
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest, stable_seed

MAX_ACTIVE_PROBLEMS = 64
"""Problems worked on at once: enough requests in flight to fill an engine's batch."""

Grader = Callable[[str, str, bool], Awaitable[Grade]]
"""(gold answer, the solution's whole text, cut off at max_tokens) → grade."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What is written into every rollout beside its own text."""

    completer: str
    sampling_digest: str
    grader_version: str


@dataclass(frozen=True, slots=True)
class LabelingTools:
    """The outside things that the loop works with.

    `write` keeps finished rollouts; `now` gives the time in UTC, ISO 8601.
    `on_done` hears of every problem that is finished.
    """

    sampler: Sampler
    encoder: PromptEncoder
    grade: Grader
    write: Callable[[Sequence[Rollout]], None]
    now: Callable[[], str]
    on_done: Callable[[Problem], None]


async def roll_out(
    problems: Iterable[Problem],
    stored: Mapping[str, Sequence[Rollout]],
    *,
    tools: LabelingTools,
    identity: Identity,
    sampling: SamplingConfig,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions_only: bool = False,
) -> None:
    """Draw what is missing for each problem until the policy asks for nothing more.

    `stored` has the rollouts so far of this sampling digest, by problem id. With
    `solutions_only` only root rollouts are drawn. Raises EngineError when the engine is
    beyond recovery; everything finished before has been handed to `write`.
    """
    loop = _Loop(tools, identity, sampling, steps, allocation, solutions_only)
    waiting = iter(problems)

    async def work() -> None:
        for problem in waiting:
            await loop.problem(problem, stored.get(problem.problem_id, ()))

    workers = [asyncio.create_task(work()) for _ in range(MAX_ACTIVE_PROBLEMS)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def is_missing(
    problem: Problem,
    stored: Sequence[Rollout],
    *,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions_only: bool = False,
) -> bool:
    """Whether `roll_out` would draw anything for this problem."""
    num_solutions = allocation.solutions_per_problem
    tree = build_tree(problem, stored, method=steps.method, num_solutions=num_solutions)
    if tree.root.next_index < num_solutions:
        return True
    return not solutions_only and bool(ask(tree, allocation))


@dataclass(frozen=True, slots=True)
class _Loop:
    tools: LabelingTools
    identity: Identity
    sampling: SamplingConfig
    steps: StepConfig
    allocation: AllocationConfig
    solutions_only: bool

    async def problem(self, problem: Problem, stored: Sequence[Rollout]) -> None:
        num_solutions = self.allocation.solutions_per_problem
        tree = build_tree(problem, stored, method=self.steps.method, num_solutions=num_solutions)
        while tree.root.next_index < num_solutions:
            num_missing = num_solutions - tree.root.next_index
            prompt = self.tools.encoder.root(problem)
            for rollout in await self._draw(problem, tree.root, prompt, num_missing):
                tree.tell_solution(rollout)
        if not self.solutions_only:
            await self._prefixes(tree)
        self.tools.on_done(problem)

    async def _prefixes(self, tree: PrefixTree) -> None:
        prompts: dict[str, Prompt] = {}
        for solution in tree.solutions:
            encoded = self.tools.encoder.prefixes(tree.problem, solution.steps)
            prompts = {**encoded, **prompts}  # a shared prefix keeps its first solution's
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                for wanted in ask(tree, self.allocation):
                    node = tree.nodes[wanted.prefix_id]
                    node.num_pending = wanted.num_samples
                    draw = self._draw_node(tree, node, prompts[wanted.prefix_id])
                    under_way.add(asyncio.create_task(draw))
                if not under_way:
                    return
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _draw_node(self, tree: PrefixTree, node: Node, prompt: Prompt) -> None:
        for rollout in await self._draw(tree.problem, node, prompt, node.num_pending):
            tree.tell(rollout)
        node.num_pending = 0

    async def _draw(
        self, problem: Problem, node: Node, prompt: Prompt, num_samples: int
    ) -> list[Rollout]:
        """At most `num_samples` rollouts: those that close the lowest gap of the node."""
        base_seed = stable_seed(node.prefix.prefix_id, self.identity.sampling_digest)
        first_index = node.next_index
        num_samples = node.num_drawable(num_samples)
        completions = await self.tools.sampler.sample(
            SamplingRequest(
                prompt=prompt.text,
                prompt_ids=prompt.ids,
                num_samples=num_samples,
                seed=base_seed + first_index,
                sampling=self.sampling,
            )
        )
        rollouts = await asyncio.gather(
            *(
                self._rollout(problem, node.prefix, completion, first_index + i, base_seed)
                for i, completion in enumerate(completions)
            )
        )
        self.tools.write(rollouts)
        return list(rollouts)

    async def _rollout(
        self, problem: Problem, prefix: Prefix, completion: Completion, index: int, base_seed: int
    ) -> Rollout:
        is_cut_off = completion.finish_reason is FinishReason.LENGTH
        text = _storable(completion.text)
        grade = await self.tools.grade(problem.gold_answer, prefix.text + text, is_cut_off)
        return Rollout(
            problem_id=problem.problem_id,
            prefix_id=prefix.prefix_id,
            rollout_index=index,
            text=text,
            final_answer=grade.answer,
            verdict=grade.verdict,
            verdict_reason=grade.reason,
            finish_reason=completion.finish_reason,
            num_tokens=completion.num_tokens,
            completer=self.identity.completer,
            sampling_digest=self.identity.sampling_digest,
            grader_version=self.identity.grader_version,
            seed=base_seed + index,
            created_at=self.tools.now(),
        )


def _storable(text: str) -> str:
    """`text` with lone surrogates replaced: they have no UTF-8 form.

    A prefix must have one name before and after it was stored.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
