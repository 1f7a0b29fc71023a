"""The loop: ask the policy, sample, grade, write, tell, for many problems at once.

One stream of requests across all problems keeps the engine busy: a problem's next draws
never wait for another problem's. A problem's own draws go from its shallow prefixes to its
deep ones, so that passes are counted before their deficit is sampled and prefix caches hit.
Finished rollouts are handed to `write` at once; what is already stored is not drawn again.
The loop knows nothing of policies, files or engines.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grading.verdict import Grade
from labeling.allocate import Allocator, Ask
from labeling.budget import Budget
from labeling.policies.config import AllocationConfig, AllocationPolicy
from labeling.policies.uncertain_first import wide, widest
from labeling.prompts import Prompt, PromptEncoder
from labeling.steps import StepConfig
from labeling.tree import Node, PrefixTree
from labeling.turns import Turns
from labeling.work import Work, closed_tree, num_solutions_missing, work_tree
from pipeline.config import SamplingConfig
from pipeline.records import FinishReason, Problem, Rollout
from pipeline.samplers.sampler import (
    Completion,
    Sampler,
    SamplingRequest,
    SamplingStage,
    stable_seed,
)

MAX_SAMPLES_IN_FLIGHT = 576
"""Of an engine that decodes 192 at once; two more such batches wait their turn."""
NODES_A_ROUND = 256
"""Prefixes that a round of `uncertain-first` or of a refresh tops up."""

_Result = TypeVar("_Result")

Grader = Callable[[str, Sequence[tuple[str, bool]]], Awaitable[Sequence[Grade]]]
"""(gold answer, [(a solution's whole text, cut off at max_tokens), …]) → a grade each."""


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
    work: Iterable[Work],
    *,
    tools: LabelingTools,
    identity: Identity,
    sampling: SamplingConfig,
    steps: StepConfig,
    allocation: AllocationConfig,
    solutions_only: bool = False,
    budget: Budget | None = None,
    max_samples: int = MAX_SAMPLES_IN_FLIGHT,
) -> Budget:
    """Draw what is missing for each problem until nothing more is wanted or the budget is met.

    `work` is read as it is needed. With `solutions_only` only root rollouts are drawn. At
    most `max_samples` are in flight; that bounds by how much a budget is overshot.
    Returns what was spent, of `budget` where it began before. Raises EngineError when the
    engine is beyond recovery; everything finished before has been handed to `write`.
    """
    budget = budget or Budget(allocation.budget)
    budget.begin()
    turns = Turns(max_samples)
    loop = _Loop(tools, identity, sampling, steps, allocation, budget, turns)
    keeps_trees = allocation.policy is AllocationPolicy.UNCERTAIN_FIRST and not solutions_only
    trees: list[PrefixTree] = []

    async def work_on(item: Work) -> None:
        tree = await loop.problem(item, solutions_only=solutions_only)
        if keeps_trees:
            trees.append(tree)

    await _as_there_is_room(work, work_on, turns)
    if keeps_trees:
        await loop.spend_on_the_widest(trees)
    return budget


async def top_up(
    work: Iterable[Work],
    *,
    tools: LabelingTools,
    identity: Identity,
    sampling: SamplingConfig,
    steps: StepConfig,
    allocation: AllocationConfig,
    max_rollouts: int,
    budget: Budget,
    max_samples: int = MAX_SAMPLES_IN_FLIGHT,
) -> None:
    """Draw more for the widest intervals of `work` that `roll_out` is done with.

    Until `budget` is met, or each is as narrow as `allocation.max_interval_width` or has
    `max_rollouts`. Problems without a wide interval are read and forgotten. The labels of
    the others are those of `label_problem` with `counts_all`.
    """
    budget.begin()
    loop = _Loop(tools, identity, sampling, steps, allocation, budget, Turns(max_samples))
    trees = (closed_tree(item, steps, allocation) for item in work)
    await loop.spend_on_the_widest(
        [
            tree
            for tree in trees
            if any(wide(tree.nodes.values(), allocation, max_rollouts=max_rollouts))
        ],
        max_rollouts=max_rollouts,
    )


async def _as_there_is_room(
    work: Iterable[Work], work_on: Callable[[Work], Coroutine[None, None, None]], turns: Turns
) -> None:
    """Begin one after the other whenever the engine could take more; no more than it can
    take samples, so that what waits to be graded stays bounded. When one fails, all end.
    """
    changed = asyncio.Event()
    turns.on_room = changed.set
    under_way: set[asyncio.Task[None]] = set()
    failed: list[asyncio.Task[None]] = []

    def end(task: asyncio.Task[None]) -> None:
        under_way.discard(task)
        if task.cancelled() or task.exception() is not None:
            failed.append(task)
        changed.set()

    async def wait_while(is_so: Callable[[], bool]) -> None:
        while is_so() and not failed:
            changed.clear()
            await changed.wait()
        for task in failed:
            task.result()

    try:
        for item in work:
            task = asyncio.create_task(work_on(item))
            under_way.add(task)
            task.add_done_callback(end)
            await asyncio.sleep(0)  # it asks for its first turn
            await wait_while(lambda: len(under_way) >= turns.max_samples or not turns.has_room)
        await wait_while(lambda: bool(under_way))
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _all_or_none(coroutines: Iterable[Awaitable[None]]) -> None:
    """Run them together; when one fails, end the others before the error goes on."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Loop:
    tools: LabelingTools
    identity: Identity
    sampling: SamplingConfig
    steps: StepConfig
    allocation: AllocationConfig
    budget: Budget
    turns: Turns

    async def problem(self, work: Work, *, solutions_only: bool) -> PrefixTree:
        problem, tree = work.problem, work_tree(work, self.steps, self.allocation)
        while (num_missing := num_solutions_missing(work, tree, self.allocation)) > 0:
            prompt = self.tools.encoder.root(problem)
            drawn = await self._draw(problem, tree.root, prompt, num_missing)
            for rollout in drawn:
                tree.tell_solution(rollout)
            if not drawn:
                return tree
        if not solutions_only:
            reuse_solutions = work.solutions is None
            allocator = Allocator(tree, self.allocation, reuse_solutions=reuse_solutions)
            await self._prefixes(tree, allocator)
            if self.allocation.policy is AllocationPolicy.UNCERTAIN_FIRST:
                allocator.close()  # what an earlier run drew beyond the first rollouts
        if not self.budget.is_spent:
            self.tools.on_done(problem)
        return tree

    async def _prefixes(self, tree: PrefixTree, allocator: Allocator) -> None:
        prompts = self._prompts(tree)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                asks = [] if self.budget.is_spent else allocator.ask()
                under_way.update(self._start(tree, one, prompts) for one in asks)
                if not under_way:
                    return
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                _raise_one(done)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def spend_on_the_widest(
        self, trees: Sequence[PrefixTree], *, max_rollouts: int | None = None
    ) -> None:
        """Rounds over all problems until the budget is met or no interval is too wide."""
        tree_of = {prefix_id: tree for tree in trees for prefix_id in tree.nodes}
        nodes = [node for tree in trees for node in tree.nodes.values()]
        while not self.budget.is_spent:
            chosen = widest(
                nodes, self.allocation, num_nodes=NODES_A_ROUND, max_rollouts=max_rollouts
            )
            if not chosen:
                return
            prompts = {tree: self._prompts(tree) for tree in {
                tree_of[node.prefix.prefix_id] for node in chosen
            }}  # fmt: skip
            await _all_or_none(
                self._top_up(tree_of[node.prefix.prefix_id], node, prompts, max_rollouts)
                for node in chosen
            )

    async def _top_up(
        self,
        tree: PrefixTree,
        node: Node,
        prompts: dict[PrefixTree, dict[str, Prompt]],
        max_rollouts: int | None,
    ) -> None:
        num_counted = node.num_counted
        prompt = prompts[tree][node.prefix.prefix_id]
        wanted = self.allocation.increment
        if max_rollouts is not None:  # a parent's passes may have filled it meanwhile
            wanted = max(0, min(wanted, max_rollouts - node.tally.total))
        for rollout in await self._draw(tree.problem, node, prompt, wanted):
            tree.tell(rollout)
        node.count_next(node.num_waiting())
        if self.allocation.reuse:
            tree.hand_down(node, since=num_counted)

    def _prompts(self, tree: PrefixTree) -> dict[str, Prompt]:
        prompts: dict[str, Prompt] = {}
        for solution in tree.solutions:
            encoded = self.tools.encoder.prefixes(tree.problem, solution.steps)
            prompts = {**encoded, **prompts}  # a shared prefix keeps its first solution's
        return prompts

    def _start(
        self, tree: PrefixTree, wanted: Ask, prompts: dict[str, Prompt]
    ) -> asyncio.Task[None]:
        node = tree.nodes[wanted.prefix_id]
        node.num_pending = wanted.num_samples
        return asyncio.create_task(self._draw_node(tree, node, prompts[wanted.prefix_id]))

    async def _draw_node(self, tree: PrefixTree, node: Node, prompt: Prompt) -> None:
        for rollout in await self._draw(tree.problem, node, prompt, node.num_pending):
            tree.tell(rollout)
        node.num_pending = 0

    async def _draw(
        self, problem: Problem, node: Node, prompt: Prompt, num_samples: int
    ) -> list[Rollout]:
        """At most `num_samples` rollouts: those that close the lowest gap of the node."""
        num_samples = node.num_drawable(num_samples)
        async with self.turns.turn(num_samples):
            num_samples = self.budget.reserve(num_samples)  # as it is when the turn has come
            if num_samples == 0:
                return []
            base_seed = stable_seed(node.prefix.prefix_id, self.identity.sampling_digest)
            first_index = node.next_index
            request = SamplingRequest(
                prompt=prompt.text,
                prompt_ids=prompt.ids,
                num_samples=num_samples,
                seed=base_seed + first_index,
                sampling=self.sampling,
                affinity=problem.problem_id,
                stage=(
                    SamplingStage.PREFIXES if node.prefix.num_steps else SamplingStage.SOLUTIONS
                ),
            )
            completions = await self.tools.sampler.sample(request)
            self.budget.spend(sum(completion.num_tokens for completion in completions))
        return await _finished(
            self._grade_and_write(problem, node, completions, first_index, base_seed)
        )

    async def _grade_and_write(
        self,
        problem: Problem,
        node: Node,
        completions: Sequence[Completion],
        first_index: int,
        base_seed: int,
    ) -> list[Rollout]:
        prefix_id, prefix_text = node.prefix.prefix_id, node.prefix.text
        texts = [_storable(completion.text) for completion in completions]
        grades = await self.tools.grade(
            problem.gold_answer,
            [
                (prefix_text + text, completion.finish_reason is FinishReason.LENGTH)
                for text, completion in zip(texts, completions, strict=True)
            ],
        )
        now = self.tools.now()
        rollouts = [
            Rollout(
                problem_id=problem.problem_id,
                prefix_id=prefix_id,
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
                created_at=now,
            )
            for index, (text, completion, grade) in enumerate(
                zip(texts, completions, grades, strict=True), start=first_index
            )
        ]
        self.tools.write(rollouts)
        return rollouts


def _raise_one(tasks: Iterable[asyncio.Task[None]]) -> None:
    """The first error among finished tasks, if any; all of them are looked at."""
    errors = [error for task in tasks if (error := task.exception()) is not None]
    if errors:
        raise errors[0]


async def _finished(work: Coroutine[None, None, _Result]) -> _Result:
    """The result of work that goes on to its end where the caller is cancelled: what an
    engine has drawn is graded and kept whatever befalls the others.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _storable(text: str) -> str:
    """`text` with lone surrogates replaced: they have no UTF-8 form.

    A prefix must have one name before and after it was stored.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
