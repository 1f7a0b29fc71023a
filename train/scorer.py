"""Score steps with a PRM: the trained counterpart of `search.scoring`'s double.

A scorer is a way to encode and a way to score what is encoded: a model in this process
(`train.model`, `train.foreign`) or on a server (`train.served`). Which a command means is decided
by `train.open_scorer`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pipeline.samplers.interrupts import interrupts_deferred
from train.config import DEFAULT_THRESHOLD, Objective
from train.encode import EncodedSteps, StepEncoder, encode_steps, fill

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

ScoreEncoded = Callable[[Sequence[EncodedSteps]], list[tuple[float, ...]]]
"""The scores in [0, 1] of each solution's steps that were not lost."""

BATCH_TOKENS = 8192
"""Tokens, padding included, of one forward pass."""


@dataclass(frozen=True, slots=True)
class PrmFacts:
    """What a folder of ours says of its PRM beside the weights."""

    template: str
    max_length: int
    objective: Objective
    aggregation: str
    threshold: float

    @classmethod
    def of(cls, extras: dict[str, Any]) -> Self:
        """From the `stepmark` entry of `config.json`."""
        return cls(
            template=extras["template"],
            max_length=extras["max_length"],
            objective=Objective(extras.get("objective", Objective.PRM)),
            aggregation=extras.get("aggregation", "min"),
            threshold=extras.get("threshold", DEFAULT_THRESHOLD),
        )

    def encoder(self, tokenizer: Any) -> StepEncoder:
        """The encoding of training."""
        return partial(_encode, tokenizer, self.template, self.max_length)


class PrmScorer:
    """Implements `search.scoring.StepScorer`. Not safe to call from two threads at once.

    An ORM scores the prefix that ends with a step as if it were a whole solution; the last
    step's score is the solution's, so its `aggregation` is `last`. `aggregation` (a name of
    `search.scoring.Aggregation`) and `threshold`, from which on a step counts as good, are
    the model's own defaults.

    A step that ends beyond the model's length was never seen by it and scores 0, so that
    a solution too long to be judged ranks last; `num_lost_steps` counts those so far.
    """

    def __init__(
        self,
        encode: StepEncoder,
        score_encoded: ScoreEncoded,
        *,
        max_length: int,
        objective: Objective = Objective.PRM,
        aggregation: str = "min",
        threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        """`encode` loses what ends beyond `max_length` tokens, which is only told here."""
        self._encode = encode
        self._score_encoded = score_encoded
        self._max_length = max_length
        self.objective = objective
        self.aggregation = aggregation
        self.threshold = threshold
        self.num_lost_steps = 0

    @classmethod
    def of(cls, facts: PrmFacts, tokenizer: Any, score_encoded: ScoreEncoded) -> Self:
        """A scorer with a PRM of ours."""
        return cls(
            facts.encoder(tokenizer),
            score_encoded,
            max_length=facts.max_length,
            objective=facts.objective,
            aggregation=facts.aggregation,
            threshold=facts.threshold,
        )

    @classmethod
    def load(
        cls, path: Path, *, device: "torch.device | None" = None, batch_tokens: int = BATCH_TOKENS
    ) -> Self:
        """The PRM in a folder that `train_prm` wrote; on CUDA where there is a device.

        `batch_tokens` bounds the tokens, padding included, of one forward pass. Raises
        DataError for a folder that is no PRM of ours.
        """
        with interrupts_deferred():
            from train.model import default_device, load_prm, score_encoded
        model, tokenizer = load_prm(path, device=device or default_device())
        return cls.of(
            PrmFacts.of(model.config.stepmark),
            tokenizer,
            partial(score_encoded, model, batch_tokens=batch_tokens),
        )

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[float, ...]]:
        """The scores of each (question, steps), in order: one a step, each in [0, 1].

        Items of similar length run together. Raises DataError for a step of white space.
        """
        solutions = [self._encode(question, steps) for question, steps in items]
        num_lost = sum(solution.num_lost_steps for solution in solutions)
        if num_lost:
            self.num_lost_steps += num_lost
            logger.warning("%d steps end beyond %d tokens and score 0", num_lost, self._max_length)
        return [
            (*kept, *[0.0] * solution.num_lost_steps)
            for kept, solution in zip(self._score_encoded(solutions), solutions, strict=True)
        ]


def _encode(
    tokenizer: Any, template: str, max_length: int, question: str, steps: Sequence[str]
) -> EncodedSteps:
    prompt = fill(tokenizer, template, question)
    return encode_steps(tokenizer, prompt, steps, max_length=max_length)
