"""Batches of solutions: padded, a row each, or packed, one after the other in one row.

In a packed row the position ids begin at 0 with every solution, and `train.packed_attention`
keeps the solutions apart. `require_packable` compares a model's outputs in both forms.

Shapes: B rows, T tokens, N steps of all solutions, one solution after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from pipeline.errors import ConfigError
from train.config import StepWeight
from train.encode import EncodedSteps
from train.encoded_labels import EncodedSolution, EncodedTable
from train.loss import IGNORED, step_logits, step_weights
from train.packed_attention import PACKED

PACKED_TOLERANCE = 1e-3
"""Between a logit in a packed row and alone, on any hardware; attention that leaks from one
solution into the next makes differences of another order."""


class StepPlaces(NamedTuple):
    """Where in the rows of a batch the last tokens of N steps are."""

    rows_N: Tensor
    columns_N: Tensor


def pad(solutions: Sequence[EncodedSteps]) -> tuple[dict[str, Tensor], StepPlaces]:
    """A row for each solution, padded on the right: ids and attention mask [B, T].

    The padding is id 0: it is masked, so it need not be a pad token.
    """
    longest = max(len(solution.input_ids) for solution in solutions)
    ids_BT = torch.zeros(len(solutions), longest, dtype=torch.long)
    mask_BT = torch.zeros_like(ids_BT)
    for row, solution in enumerate(solutions):
        ids_BT[row, : len(solution.input_ids)] = torch.tensor(solution.input_ids)
        mask_BT[row, : len(solution.input_ids)] = 1
    places = _places([(row, 0) for row in range(len(solutions))], solutions)
    return {"input_ids": ids_BT, "attention_mask": mask_BT}, places


def pack(solutions: Sequence[EncodedSteps]) -> tuple[dict[str, Any], StepPlaces]:
    """All in one row, one after the other: ids and position ids [1, T], and their lengths."""
    lengths = tuple(len(solution.input_ids) for solution in solutions)
    ids = [token_id for solution in solutions for token_id in solution.input_ids]
    offsets = [(0, start) for start in accumulate(lengths[:-1], initial=0)]
    inputs = {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
        "solution_lengths": lengths,
    }
    return inputs, _places(offsets, solutions)


class Collator:
    """From solutions to a batch of the trainer: what the model takes, places, and labels.

    All of the latter are [N]; `labels` are the soft ones, with IGNORED for none. Weights are
    divided by `mean_weight`.
    """

    def __init__(
        self,
        *,
        packing: bool,
        weight: StepWeight,
        mean_weight: float = 1.0,
    ) -> None:
        self._lay_out = pack if packing else pad
        self._weight = weight
        self._mean_weight = mean_weight

    def __call__(self, solutions: Sequence[EncodedSolution]) -> dict[str, Any]:
        """The batch, on the CPU."""
        inputs, places = self._lay_out([solution.encoded for solution in solutions])
        soft_N = _joined([[_or(t) for t in solution.targets] for solution in solutions])
        graded_N = _joined([solution.num_graded for solution in solutions])
        # an ignored step's weight is never read, but must be no division by 0
        weights_N = step_weights(graded_N.clamp(min=1), soft_N.clamp(min=0), self._weight)
        return {
            **inputs,
            **places._asdict(),
            "labels": soft_N,
            "hard_N": _joined([solution.hard_labels for solution in solutions]),
            "correct_N": _joined([solution.num_correct for solution in solutions]),
            "graded_N": graded_N,
            "weights_N": weights_N / self._mean_weight,
        }


class SolutionSampler(Sampler[int]):
    """The order of the solutions in an epoch: at random, or with alike lengths together.

    Depends on the seed and the epoch alone, so that a resumed training goes on in it.
    """

    def __init__(
        self, lengths: Sequence[int], *, group_size: int | None, seed: int, epoch: Callable[[], int]
    ) -> None:
        self._lengths = lengths
        self._group_size = group_size
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed * 10_007 + self._epoch())
        if self._group_size is None:
            return iter(torch.randperm(len(self._lengths), generator=generator).tolist())
        return iter(
            get_length_grouped_indices(self._lengths, self._group_size, generator=generator)
        )


@torch.inference_mode()
def require_packable(model: Any, solutions: EncodedTable, *, name: str) -> None:
    """Have the model take packed rows; raise ConfigError where it cannot.

    It cannot where it sees more or less of a packed solution than of one alone. Tried on the
    shortest, the median and the longest: windows and positions that only matter to long ones
    are among what may differ.
    """
    order = solutions.lengths.argsort(kind="stable").tolist()
    chosen = [solutions[index].encoded for index in (order[0], order[len(order) // 2], order[-1])]
    model.eval()
    alone_N = torch.cat([_logits(model, *pad([solution])) for solution in chosen])
    try:
        model.set_attn_implementation(PACKED)
        packed_N = _logits(model, *pack(chosen))
    except (TypeError, ValueError, RuntimeError) as error:  # keywords it knows nothing of
        raise _not_packable(name, str(error)) from error
    scale = max(1.0, float(alone_N.abs().max()))
    difference = float((packed_N - alone_N).abs().max()) / scale
    tolerance = PACKED_TOLERANCE if model.dtype is torch.float32 else 50 * PACKED_TOLERANCE
    if difference > tolerance:  # not of NaN: such weights have an error of their own
        raise _not_packable(name, f"an output differs by {difference:.2g} from the one alone")


def _logits(model: Any, inputs: dict[str, Any], places: StepPlaces) -> Tensor:
    moved = {
        key: value.to(model.device) if isinstance(value, Tensor) else value
        for key, value in inputs.items()
    }
    return step_logits(model(**moved).logits, *places).cpu()


def _not_packable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"train.packing = true, but {name!r} cannot be packed: {reason}; its attention does not "
        "keep the solutions of a row apart. Set train.packing = false"
    )


def _places(offsets: Sequence[tuple[int, int]], solutions: Sequence[EncodedSteps]) -> StepPlaces:
    rows: list[int] = []
    columns: list[int] = []
    for (row, start), solution in zip(offsets, solutions, strict=True):
        rows += [row] * len(solution.step_positions)
        columns += [start + position for position in solution.step_positions]
    return StepPlaces(torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long))


def _joined(values: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor([value for row in values for value in row], dtype=torch.float32)


def _or(target: float | None) -> float:
    return IGNORED if target is None else target
