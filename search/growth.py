"""Grow a search tree: draw next steps or whole solutions, score them, count the tokens.

A step is one request with the separators as stop strings: the text up to the separator is
the step, the separator is put back, and the next prompt holds both, so that a tokenizer
which writes `.` and the line break as one token finds its own text again. A step of white
space alone is continued. A completion that ended at another stop string or at the end token
ends its solution.

Seeds come from the question, the tree and the text so far: the same search draws the same
samples, in whatever order and company its requests run.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.config import SamplingConfig
from pipeline.records import FinishReason
from pipeline.samplers.sampler import (
    Completion,
    Sampler,
    SamplingRequest,
    SamplingStage,
    stable_seed,
)
from search.budget import TokenBudget
from search.config import SearchConfig
from search.scoring import Aggregation, StepScorer, aggregate
from search.tree import Node, NodeState

MAX_BLANK_STEPS = 4
"""Steps of white space in a row, after which a solution is cut off."""


@dataclass(frozen=True, slots=True)
class SearchTools:
    """What a search works with; `prompt`, `split` and `answer` are plain functions.

    `prompt` gives the prompt, as text and token ids, that continues a text written so far;
    `split` cuts a text into steps; `answer` takes a solution's text and whether it was cut
    off, and returns its final answer or "". `answer_key` tells equal answers. `score_lock`
    keeps searches that share a scorer from calling it at once.
    """

    sampler: Sampler
    scorer: StepScorer
    prompt: Callable[[str], tuple[str, tuple[int, ...]]]
    split: Callable[[str], tuple[str, ...]]
    answer: Callable[[str, bool], str]
    score_lock: asyncio.Lock
    answer_key: Callable[[str], str] = str.strip


class Growth:
    """One question's trees and budget. `ended` has every node that is not open, as drawn."""

    def __init__(
        self,
        question: str,
        tools: SearchTools,
        *,
        config: SearchConfig,
        sampling: SamplingConfig,
        aggregation: Aggregation,
        seed: int,
    ) -> None:
        self._question = question
        self._tools = tools
        self._config = config
        self._sampling = sampling
        self._step_sampling = sampling.model_copy(
            update={
                "stop": (*sampling.stop, *config.separators),
                "max_tokens": min(sampling.max_tokens, config.max_step_tokens),
            }
        )
        self._aggregation = aggregation
        self._seed = seed
        self.budget = TokenBudget(config.tokens)
        self.roots: list[Node] = []
        self.ended: list[Node] = []

    def plant(self) -> Node:
        """A new, independent tree; its root."""
        root = Node("", tree_index=len(self.roots))
        self.roots.append(root)
        return root

    async def expand(self, node: Node, num_samples: int) -> list[Node]:
        """`expand_all` of one node."""
        (children,) = await self.expand_all([(node, num_samples)])
        return children

    async def expand_all(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Node]]:
        """Draw next steps from each open node; its distinct new children, in order drawn.

        A step drawn before is not new: its child counts another draw.
        """
        drawn = await asyncio.gather(*[self._next_steps(node, n) for node, n in wanted])
        return await self._join([node for node, _ in wanted], drawn)

    async def complete(self, node: Node, num_samples: int) -> list[Node]:
        """Draw whole solutions from an open node; its distinct new children."""
        completions = await self._sample(node, num_samples, self._sampling, node.text)
        drawn = [self._ended(node, one) for one in completions]
        (children,) = await self._join([node], [drawn])
        return children

    def solutions(self) -> list[Node]:
        """The nodes that the model ended, as often as they were drawn."""
        finished = [node for node in self.ended if node.state is NodeState.FINISHED]
        return [node for node in finished for _ in range(node.num_draws)]

    async def _next_steps(self, node: Node, num_samples: int) -> list[Node]:
        completions = await self._sample(node, num_samples, self._step_sampling, node.text)
        return list(
            await asyncio.gather(
                *[self._step(node, place, one) for place, one in enumerate(completions)]
            )
        )

    async def _step(self, node: Node, place: int, completion: Completion) -> Node:
        """The child that a completion leads to; blank steps are continued."""
        text, num_tokens = node.text, node.num_tokens
        for num_blank in range(MAX_BLANK_STEPS):
            text, num_tokens = text + completion.text, num_tokens + completion.num_tokens
            if completion.stopped_at not in self._config.separators:
                return self._child(node, text, num_tokens, _state(completion))
            text += completion.stopped_at
            if text[len(node.text) :].strip():
                return self._child(node, text, num_tokens, NodeState.OPEN)
            if self.budget.is_spent:
                break
            key = f"{text}\x1f{place}\x1f{num_blank}"
            (completion,) = await self._sample(node, 1, self._step_sampling, text, seed_key=key)
        return self._child(node, text, num_tokens, NodeState.CUT_OFF)

    def _ended(self, node: Node, completion: Completion) -> Node:
        return self._child(
            node,
            node.text + completion.text,
            node.num_tokens + completion.num_tokens,
            _state(completion),
        )

    def _child(self, node: Node, text: str, num_tokens: int, state: NodeState) -> Node:
        depth = node.depth + 1
        is_long = depth >= self._config.max_steps or num_tokens >= self._sampling.max_tokens
        if state is NodeState.OPEN and is_long:
            state = NodeState.CUT_OFF
        child = Node(text, node, state, depth, num_tokens, tree_index=node.tree_index)
        child.steps = self._tools.split(text.rstrip())
        if state is not NodeState.OPEN:
            child.answer = self._tools.answer(text, state is NodeState.CUT_OFF).strip()
        return child

    async def _sample(
        self,
        node: Node,
        num_samples: int,
        sampling: SamplingConfig,
        text: str,
        *,
        seed_key: str | None = None,
    ) -> list[Completion]:
        prompt, prompt_ids = self._tools.prompt(text)
        base = stable_seed("search", self._seed, self._question, node.tree_index, seed_key or text)
        first = 0 if seed_key else node.num_drawn
        node.num_drawn += 0 if seed_key else num_samples
        completions = await self._tools.sampler.sample(
            SamplingRequest(
                prompt=prompt,
                prompt_ids=prompt_ids,
                num_samples=num_samples,
                seed=base + first,
                sampling=sampling,
                affinity=self._question,
                stage=SamplingStage.PREFIXES if text else SamplingStage.SOLUTIONS,
            )
        )
        self.budget.spend(completions)
        return completions

    async def _join(
        self, nodes: Sequence[Node], drawn: Sequence[Sequence[Node]]
    ) -> list[list[Node]]:
        """Put drawn children under their parents, equal ones once; score the new ones."""
        found = [_joined(node, children) for node, children in zip(nodes, drawn, strict=True)]
        new = [child for children in found for child in children]
        items = [(self._question, child.steps) for child in new]
        if items:
            async with self._tools.score_lock:
                scores = await asyncio.to_thread(self._tools.scorer.score, items)
            for child, step_scores in zip(new, scores, strict=True):
                child.step_scores = step_scores
                child.value = aggregate(step_scores, self._config.guide)
                child.score = aggregate(step_scores, self._aggregation)
        self.ended += [child for child in new if child.state is not NodeState.OPEN]
        return found


def _state(completion: Completion) -> NodeState:
    is_ended = completion.finish_reason is FinishReason.STOP
    return NodeState.FINISHED if is_ended else NodeState.CUT_OFF


def _joined(node: Node, drawn: Sequence[Node]) -> list[Node]:
    known = {(child.text, child.state): child for child in node.children}
    new: list[Node] = []
    for child in drawn:
        same = known.setdefault((child.text, child.state), child)
        if same is child:
            node.children.append(child)
            new.append(child)
        else:
            same.num_draws += 1
    return new
