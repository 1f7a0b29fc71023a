"""What a check of a dataset found: files that are not as they should be, and what to do."""

from dataclasses import dataclass
from pathlib import Path

RESTORE = (
    "restore it from a copy, or move it away and run `stepmark generate` again: what it held is "
    "sampled anew"
)
REMAKE = "run `stepmark generate` again: labels are made anew from the rollouts, without sampling"
REMOVE = "it is an earlier snapshot: move its folder away"
NEXT_RUN = "nothing to do: the next run removes it"
LEFT_OVER = "a run that did not end left it"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be. `file` is relative to the dataset."""

    file: str
    what: str
    advice: str


class Findings:
    """The findings so far, and the files that were looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: set[Path] = set()
        self.damaged: set[Path] = set()
        self.found: list[Finding] = []

    def add(self, file: Path, what: str, advice: str) -> None:
        """Note that `file`, which is in the dataset, is not as it should be."""
        self.found.append(Finding(file.relative_to(self.path).as_posix(), what, advice))
        self.damaged.add(file)
