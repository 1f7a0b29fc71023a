"""The dataset folder: journal, lock, compaction, snapshot, and damaged or foreign files."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grading.verdict import Verdict
from pipeline.errors import DataError, DatasetLockedError
from pipeline.records import FinishReason, Problem, Rollout
from storage.dataset import read_manifest, write_manifest
from storage.files import file_hash, write_json, write_whole
from storage.journal import Journal, read_rollouts
from storage.lock import dataset_lock
from storage.problem_table import write_problems
from storage.schema import ROLLOUTS, SCHEMA_VERSION, VERSION_KEY

PROBLEM = Problem("p", "Q?", "1", "test", "train")


def rollout(index: int, text: str = " a\n#### 1") -> Rollout:
    return Rollout(
        "p", "prefix", index, text, "1", Verdict.CORRECT, "text", FinishReason.STOP, 5, "c", "d",
        "g", 2**62 + index, "2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def append(path: Path, *rollouts: Rollout) -> None:
    with Journal(path) as journal:
        journal.append(rollouts)


def test_temporary_files_are_not_read_and_are_removed_under_the_lock(tmp_path: Path) -> None:
    append(tmp_path, rollout(0))
    left = tmp_path / "rollouts" / ".part-000001.parquet.4711.tmp"
    left.write_bytes(b"half")
    assert read_rollouts(tmp_path) == [rollout(0)]
    append(tmp_path, rollout(1))
    with dataset_lock(tmp_path):
        assert not left.exists()
    assert len(read_rollouts(tmp_path)) == 2


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_json(file, {"a": 1})

    def broken(temporary: Path) -> None:
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(file, broken)
    assert json.loads(file.read_text()) == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/sub/x\.json cannot be written \(Not a directory"):
        write_json(tmp_path / "file" / "sub" / "x.json", {})
    with (
        pytest.raises(DataError, match="file cannot be used as a dataset folder: File exists"),
        dataset_lock(tmp_path / "file"),
    ):
        pass


AS_NOBODY = """
import os, sys
from pathlib import Path
from pipeline.errors import DataError
from storage.lock import dataset_lock
from storage.journal import Journal
from storage.files import write_json
if os.getuid() == 0:
    os.setuid(65534)
folder = Path(sys.argv[1])
for attempt in (lambda: dataset_lock(folder).__enter__(), lambda: write_json(folder / "x", {})):
    try:
        attempt()
    except DataError as error:
        print(error)
"""


def test_a_read_only_folder_gives_a_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for part in (folder, *folder.parents):
        if part.is_relative_to("/tmp") and part != Path("/tmp"):
            part.chmod(0o755)
    folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(folder)], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == (
        f"{folder} cannot be used as a dataset folder: Permission denied; give --out a folder "
        "that you may write to"
    )
    assert second.startswith(f"{folder}/x cannot be written (Permission denied)")


HOLD = """
import sys
from pathlib import Path
from storage.lock import dataset_lock
with dataset_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_never_hold_one_dataset(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(DatasetLockedError, match=f"is in use by process {holder.pid} on "),
            dataset_lock(tmp_path),
        ):
            pass
    finally:
        holder.kill()  # the lock goes with the process, however it ends
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    with dataset_lock(tmp_path):
        pass


@pytest.mark.parametrize("damage", ["truncated", "foreign", "columns", "version", "no version"])
def test_a_bad_file_is_named(tmp_path: Path, damage: str) -> None:
    append(tmp_path, rollout(0))
    (part,) = (tmp_path / "rollouts").iterdir()
    table = pq.read_table(part)
    match damage:
        case "truncated":
            part.write_bytes(part.read_bytes()[:-100])
        case "foreign":
            part.write_text("PAR1 not at all")
        case "columns":
            pq.write_table(table.drop_columns(["seed"]), part)
        case "version":
            pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"99"}), part)
        case _:
            pq.write_table(table.replace_schema_metadata({}), part)
    message = {
        "truncated": "it is damaged or foreign",
        "foreign": "it is damaged or foreign",
        "columns": "has other columns than stepmark's",
        "version": f"has schema version 99, this stepmark reads version {SCHEMA_VERSION}",
        "no version": "has schema version none",
    }
    with pytest.raises(DataError, match=f"part-000000.parquet .*{message[damage]}"):
        read_rollouts(tmp_path)


def test_the_manifest_lists_every_file_with_its_hash(tmp_path: Path) -> None:
    append(tmp_path, rollout(0))
    write_problems(tmp_path, [PROBLEM])
    write_manifest(tmp_path, {"counts": {"problems": 1}})
    manifest = read_manifest(tmp_path)
    assert manifest["schema_version"] == SCHEMA_VERSION
    assert manifest["files"] == {
        name: {
            "sha256": file_hash(tmp_path / name),
            "bytes": (tmp_path / name).stat().st_size,
        }
        for name in ("problems/part-000000.parquet", "rollouts/part-000000.parquet")
    }
    assert read_manifest(tmp_path / "none") == {}
    (tmp_path / "manifest.json").write_text("[1")
    with pytest.raises(DataError, match=r"manifest\.json cannot be read"):
        read_manifest(tmp_path)


def test_schemas_have_no_hidden_types() -> None:
    assert ROLLOUTS.field("seed").type == pa.int64()
