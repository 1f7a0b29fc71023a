"""Pairs of steps as token ids, and which of them a training by Step-DPO learns from."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import DataError


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """What the model reads (`prompt_ids`) and the two steps that it may go on with.

    `question` only says which pairs are kept apart together. `row` is its row in the file.
    """

    row: int
    question: str
    prompt_ids: tuple[int, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Of the longer one of the two sequences."""
        return len(self.prompt_ids) + max(len(self.chosen_ids), len(self.rejected_ids))


@dataclass(frozen=True, slots=True)
class PairSplit:
    """All pairs: trained on, kept apart for validation, and longer than the model reads."""

    train: tuple[EncodedPair, ...]
    validation: tuple[EncodedPair, ...]
    too_long: tuple[EncodedPair, ...]


def split_pairs(
    pairs: Sequence[EncodedPair], *, max_length: int, validation_share: float
) -> PairSplit:
    """Drop what is longer than `max_length` tokens and keep some questions apart, by a hash of
    their text: at least one where there is a share, and not all.

    Raises DataError where nothing is left to train on.
    """
    fitting = [pair for pair in pairs if pair.num_tokens <= max_length]
    hashes = {pair.question: _hash(pair.question) for pair in fitting}
    if not hashes:
        raise DataError(
            f"all {len(pairs)} pairs are longer than max_length = {max_length} tokens; raise "
            "dpo.max_length, or export pairs of shorter solutions"
        )
    ordered = sorted(hashes, key=lambda question: hashes[question])
    held_out = set(ordered[: _num_held_out(list(hashes.values()), validation_share)])
    return PairSplit(
        train=tuple(pair for pair in fitting if pair.question not in held_out),
        validation=tuple(pair for pair in fitting if pair.question in held_out),
        too_long=tuple(pair for pair in pairs if pair.num_tokens > max_length),
    )


def _num_held_out(hashes: Sequence[float], share: float) -> int:
    if share == 0:
        return 0
    if len(hashes) < 2:
        raise DataError(
            f"dpo.validation_share = {share}, but all pairs are of one question; set it to 0 or "
            "label more problems"
        )
    return min(max(sum(one < share for one in hashes), 1), len(hashes) - 1)


def _hash(question: str) -> float:
    """Spread evenly over [0, 1)."""
    digest = hashlib.sha256(question.strip().encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4]) / 2**32
