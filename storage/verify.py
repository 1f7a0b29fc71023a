"""Whether a dataset's files are what the manifests say, and whole: hashes, schemas, rows.

What a dataset holds is looked at without being changed. Nothing is raised for a damaged file:
it is a finding, with the file and what to do. Not covered: whether the labels follow from the
rollouts (`flows.verify`), which needs the rules that made them.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pipeline.errors import DataError
from storage.dataset import (
    FOLDERS,
    MANIFEST,
    SNAPSHOT_MANIFEST,
    SNAPSHOTS,
    is_snapshot_id,
    label_files,
)
from storage.files import file_hash
from storage.findings import LEFT_OVER, NEXT_RUN, REMAKE, REMOVE, RESTORE, Finding, Findings
from storage.journal import all_parts, is_rewrite, replaced_by
from storage.schema import SCHEMA_VERSION
from storage.snapshots import list_snapshots
from storage.verify_rows import JournalRows, check_journal, check_labels, check_problems

_SMALL_FILES = {
    "config.json": "run `stepmark generate --config FILE` again",
    "selection.json": "run `stepmark generate --config FILE` again",
    "cost.json": "delete it, and costs are counted from zero",
}


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What `verify_files` found, and how much it has looked at.

    `is_journal_of_manifest`: the journal holds just what it held when the manifest was written;
    else a later run has begun and not finished, or a part is missing.
    """

    findings: tuple[Finding, ...]
    num_files: int
    num_problems: int
    journal: JournalRows
    num_labeled_solutions: int
    snapshots: tuple[str, ...]
    manifest: Mapping[str, Any]
    is_journal_of_manifest: bool


def verify_files(path: Path) -> FileCheck:
    """Check the manifests, every file that they name, and every row that is stored."""
    findings = Findings(path)
    merges = _merges(path)
    replaced = {name for names in merges.values() for name in names}
    manifest = _manifest(findings, path / MANIFEST)
    if not (path / MANIFEST).exists() and list_snapshots(path):
        findings.add(path / MANIFEST, "it is missing, though there are snapshots", REMAKE)
    elif manifest.get("schema_version") == SCHEMA_VERSION and "files" not in manifest:
        findings.add(path / MANIFEST, "it lists no files", REMAKE)
    _check_listed(findings, manifest, path, replaced)
    problem_ids = check_problems(findings)
    journal = check_journal(findings, problem_ids, replaced=replaced)
    snapshots = _check_snapshots(findings, manifest)
    folders = [path / SNAPSHOTS / one for one in snapshots] or [path / "labels"]
    num_labeled = [check_labels(findings, folder, problem_ids) for folder in folders]
    _check_small_files(findings)
    _check_left_overs(findings)
    return FileCheck(
        findings=tuple(findings.found),
        num_files=len(findings.files),
        num_problems=len(problem_ids),
        journal=journal,
        num_labeled_solutions=num_labeled[-1],
        snapshots=tuple(snapshots),
        manifest=manifest,
        is_journal_of_manifest=_is_journal_of(manifest, path, merges, replaced),
    )


def _manifest(findings: Findings, file: Path) -> dict[str, Any]:
    """The content; empty where there is none, or none that can be read."""
    if not file.exists():
        return {}
    findings.files.add(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        findings.add(file, f"it is no JSON ({error})", f"delete it and {REMAKE}")
        return {}
    if not isinstance(content, dict) or not isinstance(content.get("files", {}), dict):
        findings.add(file, "it is no manifest", f"delete it and {REMAKE}")
        return {}
    if content.get("schema_version") != SCHEMA_VERSION:
        findings.add(
            file,
            f"it has schema version {content.get('schema_version')!r}, this stepmark reads "
            f"version {SCHEMA_VERSION}",
            "use the stepmark that wrote it",
        )
    return cast("dict[str, Any]", content)


def _check_listed(
    findings: Findings, manifest: Mapping[str, Any], root: Path, replaced: set[str]
) -> None:
    """Compare the files that the manifest in `root` names by size and hash."""
    for name, entry in _listed(manifest).items():
        file = root / name
        advice = REMOVE if root != findings.path else _advice(name)
        if not file.exists():
            if file.name not in replaced or not name.startswith("rollouts/"):
                findings.add(file, "the manifest names it, but it is not there", advice)
        elif file not in findings.files:
            findings.files.add(file)
            what = _other_content(file, entry)
            if what:
                findings.add(file, what, advice)


def _other_content(file: Path, entry: object) -> str:
    """How the file is not what the manifest's entry says; empty where it is."""
    expected = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    size = file.stat().st_size
    if size != expected.get("bytes"):
        return f"it has {size} bytes, the manifest says {expected.get('bytes')}"
    if file_hash(file) != expected.get("sha256"):
        return "its content is not that of the manifest's hash"
    return ""


def _check_snapshots(findings: Findings, manifest: Mapping[str, Any]) -> list[str]:
    """The finished snapshots, each compared with its own manifest; the current one is last."""
    folder = findings.path / SNAPSHOTS
    there = sorted((one.name for one in folder.glob("[0-9]*") if is_snapshot_id(one.name)), key=int)
    current = manifest.get("snapshot")
    if current is not None and current not in there:
        what = "the manifest names it, but it is not there"
        findings.add(folder / str(current), what, REMAKE)
    there.sort(key=lambda name: name == current)
    for name in there:
        advice = REMAKE if name == current else REMOVE
        own = _manifest(findings, folder / name / SNAPSHOT_MANIFEST)
        if not own:
            findings.add(folder / name, "it has no manifest that can be read", advice)
        _check_listed(findings, own, folder / name, set())
        for file in label_files(folder / name):
            if own and file.name not in _listed(own):
                findings.add(file, "the snapshot's manifest does not name it", "move it away")
    return there


def _check_small_files(findings: Findings) -> None:
    for name, advice in _SMALL_FILES.items():
        file = findings.path / name
        if file.exists():
            findings.files.add(file)
            try:
                json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                findings.add(file, f"it is no JSON ({error})", advice)


def _check_left_overs(findings: Findings) -> None:
    snapshots = findings.path / SNAPSHOTS
    folders = [findings.path, *(findings.path / name for name in FOLDERS), snapshots]
    left = [file for folder in folders for file in sorted(folder.glob(".*.tmp"))]
    for file in [*left, *sorted(snapshots.glob(".next")), *sorted(snapshots.glob(".removed-*"))]:
        findings.add(file, LEFT_OVER, NEXT_RUN)


def _is_journal_of(
    manifest: Mapping[str, Any], path: Path, merges: Mapping[str, set[str]], replaced: set[str]
) -> bool:
    listed = {Path(name).name for name in _listed(manifest) if name.startswith("rollouts/")}
    there = {part.name for part in all_parts(path)}
    only_merged = {
        name
        for name, merged in merges.items()
        if merged <= listed and not is_rewrite(path / "rollouts" / name)
    }
    return listed <= there | replaced and there <= listed | only_merged | replaced


def _merges(path: Path) -> dict[str, set[str]]:
    """The names of the parts that each merged part replaces; damaged ones claim nothing."""
    found: dict[str, set[str]] = {}
    for part in all_parts(path):
        with contextlib.suppress(DataError):
            found[part.name] = replaced_by(part)
    return {name: merged for name, merged in found.items() if merged}


def _listed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", manifest.get("files", {}))


def _advice(name: str) -> str:
    return REMAKE if name.startswith(SNAPSHOTS) else RESTORE
