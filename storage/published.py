"""`published.json`: what of a dataset was published where, as far as this folder knows.

    {"repos": {"org/name": {"commit", "tag", "snapshot", "private", "published_at",
                            "labels": {file: sha256}, "settings",
                            "files": {name: {"sha256", "bytes"}}}}}

`labels` are the snapshot's own label files: a folder made anew counts its snapshots from 1 again.

The Hub is the truth; this serves the drift gate, the dry run, and keeping the snapshot that
was published from being pruned.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pipeline.errors import DataError
from storage.files import write_json

PUBLISHED = "published.json"

Record = dict[str, Any]


def read_published(path: Path) -> dict[str, Record]:
    """The record of each repo. Raises DataError for a damaged file."""
    file = path / PUBLISHED
    if not file.exists():
        return {}
    try:
        repos = _records(json.loads(file.read_text(encoding="utf-8"))["repos"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{file} cannot be read ({error!r}); delete it: the next publish is then compared "
            "with none before"
        ) from error
    return repos


def note_published(path: Path, repo: str, record: Mapping[str, object]) -> None:
    """Put down what `repo` holds now; the records of other repos stay."""
    repos = {**read_published(path), repo: dict(record)}
    write_json(path / PUBLISHED, {"repos": repos})


def published_snapshots(path: Path) -> set[str]:
    """The ids of the snapshots last published, one a repo."""
    return {str(record["snapshot"]) for record in read_published(path).values()}


def _records(repos: object) -> dict[str, Record]:
    if not isinstance(repos, dict):
        raise TypeError("repos is no table")
    records = cast("dict[str, Any]", repos)
    for repo, record in records.items():
        if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
            raise TypeError(f"{repo} has no record of its files")
        if not isinstance(record.get("snapshot"), str):
            raise TypeError(f"{repo} names no snapshot")
    return records
