"""Snapshots: whole or not there, kept beside each other, and killed at every change."""

import json
import logging
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError, DataError
from pipeline.records import LabeledSolution
from storage.dataset import (
    labels_path,
    read_labels,
    read_manifest,
    stored_labels,
    write_manifest,
)
from storage.files import file_hash
from storage.snapshots import (
    list_snapshots,
    publish_snapshot,
    snapshot_path,
    stage_labels,
    write_snapshot,
)
from tests.snapshot_writer import solutions, table_of, tables

ROOT = Path(__file__).resolve().parents[1]


def by_id(rows: list[LabeledSolution]) -> list[LabeledSolution]:
    return sorted(rows, key=lambda row: row.solution_id)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def publish(path: Path, label_set: int, *, keep: int = 7, **manifest: object) -> dict[str, object]:
    return write_snapshot(path, tables(label_set), dict(manifest), keep=keep)


def test_a_snapshot_is_files_a_manifest_a_pointer_and_a_link(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "part-000000.parquet").write_bytes(b"x")
    written = publish(tmp_path, 1, completer="c")
    folder = tmp_path / "snapshots" / "000001"
    split_files = ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]
    assert names(folder) == ["_manifest.json", *split_files]
    own = read_manifest(folder)
    hashes = {
        name: {"sha256": file_hash(folder / name), "bytes": (folder / name).stat().st_size}
        for name in split_files
    }
    assert (own["files"], own["snapshot"], own["completer"]) == (hashes, "000001", "c")
    assert read_manifest(tmp_path) == written
    files = written["files"]
    assert isinstance(files, dict)
    assert {name: files[f"snapshots/000001/{name}"] for name in split_files} == hashes
    assert "rollouts/part-000000.parquet" in files
    assert (tmp_path / "labels").readlink() == Path("snapshots/000001")
    assert by_id(read_labels(tmp_path)) == solutions(1)
    assert pq.ParquetFile(folder / split_files[1]).num_row_groups == 2


def test_only_other_labels_make_another_snapshot(tmp_path: Path) -> None:
    publish(tmp_path, 1, finished_at="1", cost=5, grader_version="v1")
    same = publish(tmp_path, 1, finished_at="2", cost=6, grader_version="v1")
    assert (same["snapshot"], same["cost"], read_manifest(tmp_path)["cost"]) == ("000001", 6, 6)
    assert read_manifest(tmp_path / "snapshots" / "000001")["cost"] == 5
    assert publish(tmp_path, 1, grader_version="v2")["snapshot"] == "000002"
    assert publish(tmp_path, 2, grader_version="v2")["snapshot"] == "000003"
    assert publish(tmp_path, 1, grader_version="v2")["snapshot"] == "000004"
    assert names(tmp_path / "snapshots/000004") == names(tmp_path / "snapshots/000003")
    assert names(tmp_path / "snapshots") == list_snapshots(tmp_path)


def test_the_newest_are_kept_and_found_by_id(tmp_path: Path) -> None:
    for label_set in (1, 2, 1, 2):
        publish(tmp_path, label_set, keep=2)
    assert list_snapshots(tmp_path) == ["000003", "000004"]
    assert snapshot_path(tmp_path, "3") == tmp_path / "snapshots" / "000003"
    for wrong in ("1", "../000003", "³", ""):
        with pytest.raises(ConfigError, match="there are 000003, 000004"):
            snapshot_path(tmp_path, wrong)
    with pytest.raises(ConfigError, match="there is none"):
        snapshot_path(tmp_path / "none", "1")
    publish(tmp_path, 1, keep=0)
    assert list_snapshots(tmp_path) == ["000005"]


def test_staged_labels_are_not_seen_and_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no labels yet; run `stepmark generate`"):
        publish_snapshot(tmp_path, {}, keep=1)
    stage_labels(tmp_path, tables(1))
    with pytest.raises(DataError, match=r"has no labels; run `stepmark generate --config FILE"):
        read_labels(tmp_path)
    publish_snapshot(tmp_path, {}, keep=1)

    def failing() -> Iterator[tuple[str, object]]:
        yield tables(2)[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage_labels(tmp_path, failing())  # type: ignore[arg-type]
    assert names(tmp_path / "snapshots") == ["000001"]
    assert publish_snapshot(tmp_path, {"again": 1}, keep=1)["snapshot"] == "000001"
    assert by_id(read_labels(tmp_path)) == solutions(1)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("a file")
    with pytest.raises(DataError, match=r"snapshots/\.next cannot be written"):
        stage_labels(tmp_path, tables(1))


def test_the_labels_of_an_earlier_stepmark_become_snapshot_0(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    labels = tmp_path / "labels"
    labels.mkdir()
    pq.write_table(table_of(solutions(1)), labels / "train-00000-of-00001.parquet")
    write_manifest(tmp_path, {"config_digest": "old"})
    assert read_labels(tmp_path) == solutions(1)
    with caplog.at_level(logging.WARNING):
        assert publish(tmp_path, 2)["snapshot"] == "000001"
    assert "was made by an earlier stepmark" in caplog.text
    assert list_snapshots(tmp_path) == ["000000", "000001"]
    adopted = tmp_path / "snapshots" / "000000"
    assert read_manifest(adopted)["config_digest"] == "old"
    assert pq.read_table(adopted / "train-00000-of-00001.parquet").num_rows == 41
    assert labels.is_symlink()
    assert by_id(read_labels(tmp_path)) == solutions(2)


def test_a_folder_in_the_links_place_stays_and_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(tmp_path, 1)
    (tmp_path / "labels").unlink()
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "mine").touch()
    publish(tmp_path, 2)
    assert "is no link" in caplog.text
    assert names(tmp_path / "labels") == ["mine"]
    assert by_id(read_labels(tmp_path)) == solutions(2)


@pytest.mark.parametrize("snapshot", ["../other", "1", 1, ["000001"], "000001/..", "٠٠٠٠٠١"])
def test_a_manifest_names_no_other_folder(tmp_path: Path, snapshot: object) -> None:
    publish(tmp_path, 1)
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps({"snapshot": snapshot}))
    with pytest.raises(DataError, match=r"manifest\.json: snapshot = .* is no snapshot's name"):
        read_labels(tmp_path)


def test_a_lost_snapshot_or_manifest_is_named_and_made_again(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    (tmp_path / "snapshots" / "000001").rename(tmp_path / "moved")
    with pytest.raises(DataError, match=r"000001 is missing, though .*manifest\.json names it"):
        read_labels(tmp_path)
    assert publish(tmp_path, 2)["snapshot"] == "000002"
    (tmp_path / "manifest.json").unlink()
    assert publish(tmp_path, 2)["snapshot"] == "000002"
    assert by_id(read_labels(tmp_path)) == solutions(2)


class Writer:
    """The process that publishes and is killed on order."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def order(self, label_set: int, kind: str, number: float) -> tuple[int, bool]:
        """The changes that were begun, and whether the child was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{label_set} {kind} {number}\n")
        self._process.stdin.flush()
        num_changes, is_killed, status = self._process.stdout.readline().split()
        assert is_killed == "1" or status == "0"
        return int(num_changes), is_killed == "1"


@contextmanager
def writer(folder: Path, *, keep: int) -> Iterator[Writer]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.snapshot_writer", str(folder), str(keep)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Writer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def check_old_or_new(folder: Path) -> int:
    """Everything that has a number is whole; returns the set of labels that a reader sees."""
    for snapshot in list_snapshots(folder):
        own = folder / "snapshots" / snapshot
        files = read_manifest(own)["files"]
        assert isinstance(files, dict)
        assert files.keys() == {file.name for file in own.iterdir()} - {"_manifest.json"}
        for name, listed in files.items():
            assert listed["sha256"] == file_hash(own / name)
    manifest = read_manifest(folder)
    assert manifest["snapshot"] == labels_path(folder).name
    files = manifest["files"]
    assert isinstance(files, dict)
    for name, listed in files.items():
        assert listed["sha256"] == file_hash(folder / name)
    counts = manifest["counts"]
    assert isinstance(counts, dict)
    assert by_id(read_labels(folder)) == solutions(counts["set"])
    return counts["set"]


def check_cleared(folder: Path, label_set: int, *, keep: int) -> None:
    """The next run has left nothing of the killed one."""
    assert check_old_or_new(folder) == label_set
    found = list_snapshots(folder)
    assert names(folder / "snapshots") == found
    assert len(found) <= keep
    assert (folder / "labels").readlink() == Path(f"snapshots/{found[-1]}")


def test_killed_at_each_change_of_the_file_system(tmp_path: Path) -> None:
    keep, seen = 2, set()
    for label_set in (1, 2):
        publish(tmp_path, label_set, keep=keep, counts={"set": label_set})
    with writer(tmp_path, keep=keep) as process:
        num_changes, _ = process.order(1, "event", 0)
        assert num_changes >= 20
        now = 1
        for number in range(1, num_changes + 1):
            new = 3 - now
            assert process.order(new, "event", number) == (number, True)
            found = check_old_or_new(tmp_path)
            seen.add((found == new, *names(tmp_path / "snapshots")[:1]))
            assert process.order(new, "event", 0)[1] is False
            check_cleared(tmp_path, new, keep=keep)
            now = new
    hidden = {(is_new, name.partition("-")[0]) for is_new, name in seen if name.startswith(".")}
    assert {(False, ".next"), (True, ".removed")} <= hidden


def test_killed_at_random_instants(tmp_path: Path) -> None:
    rng, keep, num_kills, now = random.Random(5), 2, 0, 2
    for label_set in (1, 2):
        publish(tmp_path, label_set, keep=keep, counts={"set": label_set})
    with writer(tmp_path, keep=keep) as process:
        start = time.monotonic()
        process.order(1, "event", 0)
        process.order(2, "event", 0)
        seconds = (time.monotonic() - start) / 2
        while num_kills < 12:
            is_killed = process.order(3 - now, "after", rng.uniform(0, seconds / 2))[1]
            now = check_old_or_new(tmp_path)
            num_kills += is_killed
            seconds *= 1 if is_killed else 0.8  # this machine has become faster
        process.order(3 - now, "event", 0)
    check_cleared(tmp_path, 3 - now, keep=keep)


def test_a_reader_keeps_the_labels_that_it_began_with(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    reading = stored_labels(tmp_path)
    begun = [next(reading)]
    publish(tmp_path, 2)
    assert by_id([*begun, *reading]) == solutions(1)
    assert by_id(list(stored_labels(tmp_path))) == solutions(2)
