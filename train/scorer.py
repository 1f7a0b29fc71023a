"""Score steps with a trained PRM: the trained counterpart of `search.scoring`'s double.

The text is encoded as in training, with the template that the model's folder holds.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from train.config import Objective
from train.encode import encode_steps, fill
from train.model import DEFAULT_THRESHOLD, default_device, load_prm, score_encoded

logger = logging.getLogger(__name__)


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
        model: Any,
        tokenizer: Any,
        *,
        template: str,
        max_length: int,
        batch_tokens: int,
        objective: Objective = Objective.PRM,
        aggregation: str = "min",
        threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._template = template
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self.objective = objective
        self.aggregation = aggregation
        self.threshold = threshold
        self.num_lost_steps = 0

    @classmethod
    def load(
        cls, path: Path, *, device: torch.device | None = None, batch_tokens: int = 8192
    ) -> "PrmScorer":
        """The PRM in a folder that `train_prm` wrote; on CUDA where there is a device.

        `batch_tokens` bounds the tokens, padding included, of one forward pass. Raises
        DataError for a folder that is no PRM of ours.
        """
        model, tokenizer = load_prm(path, device=device or default_device())
        extras = model.config.stepmark
        return cls(
            model,
            tokenizer,
            template=extras["template"],
            max_length=extras["max_length"],
            batch_tokens=batch_tokens,
            objective=Objective(extras.get("objective", Objective.PRM)),
            aggregation=extras.get("aggregation", "min"),
            threshold=extras.get("threshold", DEFAULT_THRESHOLD),
        )

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[float, ...]]:
        """The scores of each (question, steps), in order: one a step, each in [0, 1].

        Items of similar length run together. Raises DataError for a step of white space.
        """
        solutions = [
            encode_steps(
                self._tokenizer,
                fill(self._tokenizer, self._template, question),
                steps,
                max_length=self._max_length,
            )
            for question, steps in items
        ]
        num_lost = sum(solution.num_lost_steps for solution in solutions)
        if num_lost:
            self.num_lost_steps += num_lost
            logger.warning("%d steps end beyond %d tokens and score 0", num_lost, self._max_length)
        scores = score_encoded(self._model, solutions, batch_tokens=self._batch_tokens)
        return [
            (*kept, *[0.0] * solution.num_lost_steps)
            for kept, solution in zip(scores, solutions, strict=True)
        ]
