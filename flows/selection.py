"""Which problems of a dataset folder the present run is about: its `selection.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, DataError
from pipeline.records import Problem
from storage.dataset import refuse_model
from storage.decontamination import Decontamination
from storage.files import write_json
from storage.problem_table import read_problems
from storage.problems import Rejection

_KEYS = {"split", "problem_ids"}


class Purpose(StrEnum):
    """What a dataset folder is for; the two do not share one."""

    LABELS = "labels"
    CANDIDATES = "candidates"
    IMPORTED = "imported labels"
    """Foreign labels (`flows.imported`), which no run adds to."""


def write_selection(
    out: Path,
    problems: Sequence[Problem],
    *,
    purpose: Purpose,
    split: str,
    rejections: Sequence[Rejection],
    decontamination: Decontamination | None = None,
) -> None:
    """Keep the ids in their order, the rows that were no usable problems, and what of them
    the test sets hold, with the ids that the source gave.
    """
    write_json(
        out / "selection.json",
        {
            "purpose": purpose,
            "split": split,
            "problem_ids": [problem.problem_id for problem in problems],
            "rejected_rows": [asdict(rejection) for rejection in rejections],
            "decontamination": asdict(decontamination) if decontamination else None,
        },
    )


def check_purpose(out: Path, purpose: Purpose) -> None:
    """Raise ConfigError where the folder serves another purpose, or holds a model."""
    if not (out / "selection.json").exists():
        refuse_model(out)
        return
    found = _selection(out).get("purpose")
    if found != purpose:
        raise ConfigError(f"{out} holds {found}, not {purpose}; give another folder")


def selected_problems(out: Path) -> list[Problem]:
    """The problems of the present selection, in its order and of its split."""
    selection = _selection(out)
    stored = {problem.problem_id: problem for problem in read_problems(out)}
    unknown = [one for one in selection["problem_ids"] if one not in stored]
    if unknown:
        raise DataError(
            f"{out / 'selection.json'} names the problem {unknown[0]!r}, which is not stored in "
            f"{out / 'problems'}; delete selection.json and run again"
        )
    return [
        replace(stored[problem_id], split=selection["split"])
        for problem_id in selection["problem_ids"]
    ]


def selected_ids(out: Path) -> list[str]:
    """The ids of the present selection; none where nothing was selected yet."""
    return list(_selection(out)["problem_ids"]) if (out / "selection.json").exists() else []


def rejected_rows(out: Path) -> list[dict[str, object]]:
    """The rejected rows of the present selection: `row` and `reason` each."""
    return list(_selection(out)["rejected_rows"])


def decontamination_of(out: Path) -> dict[str, Any] | None:
    """`num_test_rows` by file and what was `found`, or None where it was not looked for."""
    return _selection(out).get("decontamination")


def contamination_counts(out: Path) -> dict[str, int]:
    """For the manifest's counts; empty where no test set was given."""
    checked = decontamination_of(out)
    return {} if checked is None else {"contaminated_problems": len(checked["found"])}


def _selection(out: Path) -> dict[str, Any]:
    file = out / "selection.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{file} cannot be read ({error}); run `stepmark generate` again"
        ) from error
    if not isinstance(content, dict) or not content.keys() >= _KEYS:
        raise DataError(f"{file} is no selection of problems; delete it and run again")
    return content
