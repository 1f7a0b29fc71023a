"""Step-DPO rows read back (`xinlai/Math-Step-DPO-10K`; arXiv 2406.18629), for training a policy.

Needed are `prompt`, `initial_reason_steps`, `chosen` and `rejected`; of `full_chosen` and
`full_rejected`, where they are there, it is read how a solution goes on after its step. Pairs
of TRL's form (`prompt, chosen, rejected`) are refused: their prompts no longer tell the
question from the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigError, DataError
from storage.formats.foreign import Row
from storage.formats.rows import numbered_rows

_NEEDED = ("prompt", "initial_reason_steps", "chosen", "rejected")
_MAY_BE_EMPTY = "initial_reason_steps"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class PairSide:
    """A step and the solution's text after it: "" ends there, None is not known."""

    step: str
    rest: str | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two steps after the same steps of the same question. `row` is 1-based."""

    row: int
    question: str
    shared: str
    chosen: PairSide
    rejected: PairSide


def read_pairs(path: Path) -> Iterator[PairRow]:
    """The pairs of a .jsonl, .jsonl.gz or .parquet file, in its order.

    Raises ConfigError for a file that is not there or of another kind, and DataError, which
    names the row, for one that is no pair; also where there is no row at all.
    """
    number = 0
    for number, row in numbered_rows(path, on_bytes=lambda _: None):
        reason = row if isinstance(row, str) else _fault(row)
        if reason is not None:
            raise DataError(
                f"{path}, row {number}: {reason}; correct or remove the row, or write the file "
                "anew with `stepmark export DATASET step-dpo`"
            )
        assert not isinstance(row, str)
        yield _pair(number, row)
    if number == 0:
        raise DataError(f"{path} holds no pair; check that it is the right file")


def refuse_filled(pair: PairRow, path: Path, *, before: str, after: str) -> None:
    """Raise ConfigError where the question already stands in the prompt's own template."""
    text = pair.question
    is_filled = text.startswith(before) and text.endswith(after) and bool(before.strip())
    if is_filled and len(text) > len(before) + len(after):
        raise ConfigError(
            f"{path}, row {pair.row}: the prompt {_shown(text)} already has the template around "
            "the question, which would be put around it twice; export without --template"
        )


def _fault(row: Row) -> str | None:
    """What is wrong with a row; None where it is a pair."""
    missing = [name for name in _NEEDED if name not in row]
    if missing:
        found = ", ".join(map(str, list(row)[:8])) or "none"
        return (
            f"there is no column {missing[0]} (found: {_cut(found)}); these are no Step-DPO pairs"
        )
    for name in (*_NEEDED, "full_chosen", "full_rejected"):
        value = row.get(name, "")
        if not isinstance(value, str):
            return f"{name} is {_shown(value)}, not a text"
        if name in _NEEDED and name != _MAY_BE_EMPTY and not value.strip():
            return f"{name} is {_shown(value)}: it needs content"
    if row["chosen"] == row["rejected"]:
        return f"chosen and rejected are the same step, {_shown(row['chosen'])}"
    for name in ("chosen", "rejected"):
        if not str(row.get(f"full_{name}") or row[name]).startswith(str(row[name])):
            return f"full_{name} does not begin with {name}, {_shown(row[name])}"
    return None


def _pair(number: int, row: Row) -> PairRow:
    return PairRow(
        row=number,
        question=str(row["prompt"]),
        shared=str(row[_MAY_BE_EMPTY]),
        chosen=_side(row, "chosen"),
        rejected=_side(row, "rejected"),
    )


def _side(row: Row, name: str) -> PairSide:
    step, full = str(row[name]), str(row.get(f"full_{name}") or "")
    return PairSide(step, full[len(step) :] if full else None)


def _shown(value: object) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    # repr and column names may hold format characters, which a terminal would obey
    clean = "".join(one if one.isprintable() else "�" for one in text[:_SHOWN])
    return clean if len(text) <= _SHOWN else clean + "…"
