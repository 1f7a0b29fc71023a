"""`stepmark verify`: each kind of damage is found, named, and harms nothing that was committed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flows.run_config import RunConfig, check_config
from flows.stages import begin_run, generate, prepare_problems
from flows.verify import verify
from pipeline.errors import ConfigError, DataError, DatasetLockedError
from storage.dataset import labels_path
from storage.files import file_hash, write_parquet
from storage.journal import Journal, compact, read_rollouts
from storage.lock import dataset_lock
from storage.problem_table import read_problems, write_problems
from storage.schema import PROBLEMS, ROLLOUTS, VERSION_KEY, read_table

PART, LABELS = "rollouts/part-000001.parquet", "snapshots/000001/train-00000-of-00001.parquet"


def config(limit: int = 8) -> RunConfig:
    return check_config(
        {
            "problems": {"limit": limit},
            "engine": {"kind": "scripted"},
            "steps": {"method": "newline"},
        },
        origin="test",
    )


def run(out: Path, limit: int = 8) -> None:
    generate(config(limit), out, on_progress=lambda _: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two runs, with the rollouts in one part."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run(out)
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "out", symlinks=True))


def the_part(out: Path) -> Path:
    (part,) = (out / "rollouts").glob("part-*.parquet")
    return part


def the_labels(out: Path) -> Path:
    (file,) = labels_path(out).glob("*.parquet")
    return file


def found(out: Path, *, full: bool = True) -> dict[str, str]:
    """What is found, by file."""
    return {one.file: one.what for one in verify(out, full=full).findings}


def test_a_whole_dataset_has_no_findings_and_is_not_changed(out: Path) -> None:
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for full in (False, True):
        checked = verify(out, full=full)
        assert checked.findings == ()
        assert checked.not_compared == ""
        assert checked.num_labels_compared == checked.figures["labelled solutions"] == 32
        assert checked.figures["rollouts"] == len(read_rollouts(out))
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x10
    file.write_bytes(content)


def foreign(file: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), file)


def future(file: Path) -> None:
    pq.write_table(pq.read_table(file).replace_schema_metadata({VERSION_KEY: b"99"}), file)


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncate, "bytes, the manifest says"),
    "flipped byte": (flip, "its content is not that of the manifest's hash"),
    "foreign": (foreign, "has schema version none"),
    "future": (future, "has schema version 99"),
    "missing": (Path.unlink, "the manifest names it, but it is not there"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_part_is_found_and_sampled_anew(out: Path, whole: Path, damage: str) -> None:
    part, labels = the_part(out), file_hash(the_labels(whole))
    harm, message = DAMAGE[damage]
    harm(part)
    whats = [one.what for one in verify(out).findings if one.file == f"rollouts/{part.name}"]
    assert any(message in what for what in whats), whats
    assert verify(out).not_compared
    if damage != "missing":
        with pytest.raises(DataError, match=f"{part.name} (cannot be read|has schema version)"):
            run(out)
        assert file_hash(the_labels(out)) == labels  # what was committed is as it was
        part.unlink()  # as the message says
    run(out)
    assert file_hash(the_labels(out)) == labels
    assert found(out) == {}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_labels_are_found_and_made_again(out: Path, damage: str) -> None:
    file = the_labels(out)
    name, before = file.relative_to(out).as_posix(), file_hash(file)
    harm, message = DAMAGE[damage]
    harm(file)
    whats = [one.what for one in verify(out).findings if one.file == name]
    assert any(message in what for what in whats), whats
    run(out)  # samples nothing
    assert file_hash(the_labels(out)) == before
    left = found(out)
    assert set(left) <= {name}  # the damaged snapshot is an earlier one now
    assert the_labels(out).relative_to(out).as_posix() not in left


def rewritten(out: Path, **columns: Callable[[pa.Table], pa.Array]) -> None:
    """Change columns of the journal's part, and have the manifest say that it is so."""
    part = the_part(out)
    table = read_table(part, ROLLOUTS)
    for name, make in columns.items():
        at = ROLLOUTS.get_field_index(name)
        table = table.set_column(at, ROLLOUTS.field(at), make(table))
    write_parquet(part, table)
    manifest = json.loads((out / "manifest.json").read_text())
    entry = manifest["files"][f"rollouts/{part.name}"]
    entry.update(sha256=file_hash(part), bytes=part.stat().st_size)
    (out / "manifest.json").write_text(json.dumps(manifest))


def test_rows_that_cannot_be_are_found(out: Path) -> None:
    name = f"rollouts/{the_part(out).name}"
    rewritten(out, verdict=lambda table: pa.array(["right"] * len(table)))
    assert found(out)[name] == "verdict 'right' is none of correct, incorrect, undecided"
    rewritten(
        out,
        verdict=lambda table: pa.array(["correct"] * len(table)),
        num_tokens=lambda table: pa.array([-1] * len(table), pa.int32()),
    )
    assert found(out)[name] == "num_tokens -1 is below 0"
    rewritten(out, num_tokens=lambda table: pa.nulls(len(table), pa.int32()))
    assert found(out)[name] == "a row without num_tokens"


def test_labels_that_do_not_follow_from_the_rollouts_are_found(out: Path) -> None:
    other = {"correct": "incorrect", "incorrect": "correct", "undecided": "undecided"}
    rewritten(
        out,
        verdict=lambda table: pa.array([other[one] for one in table.column("verdict").to_pylist()]),
    )
    for full in (False, True):
        message = found(out, full=full)[LABELS]
        assert "do not follow from its rollouts: num_correct of solution" in message
    run(out)
    assert found(out) == {}


def test_rollouts_without_a_problem_and_doubled_ones_are_found(out: Path) -> None:
    (problems,) = (out / "problems").iterdir()
    table = read_table(problems, PROBLEMS)
    lost = table.column("problem_id")[0].as_py()
    write_parquet(problems, table.slice(1))
    names = found(out)
    assert (
        "its content" in names["problems/part-000000.parquet"]
        or "bytes" in names["problems/part-000000.parquet"]
    )
    assert names[f"rollouts/{the_part(out).name}"] == (
        f"1 of its problems are not stored, the first is {lost!r}"
    )
    write_parquet(problems, table)
    rows = read_rollouts(out)[:3]
    with Journal(out) as journal:
        journal.append(rows)
    checked = verify(out)
    assert (checked.findings, checked.figures["rollouts stored twice"]) == ((), 3)
    assert "a later run has added rollouts" in checked.not_compared
    rewritten_part = max((out / "rollouts").iterdir())
    changed = pc.utf8_upper(read_table(rewritten_part, ROLLOUTS).column("final_answer"))
    again = read_table(rewritten_part, ROLLOUTS)
    at = ROLLOUTS.get_field_index("text")
    write_parquet(rewritten_part, again.set_column(at, ROLLOUTS.field(at), changed))
    assert "3 rollouts are stored twice with other texts" in found(out)["rollouts"]


def test_a_merged_part_stands_for_those_that_the_manifest_names(out: Path) -> None:
    rows = read_rollouts(out)
    with Journal(out) as journal:
        journal.append(rows[:1])
    compact(out)
    assert the_part(out).name not in json.loads((out / "manifest.json").read_text())["files"]
    checked = verify(out)
    assert checked.findings == ()
    assert "a later run" in checked.not_compared


def test_what_lies_about_is_found(out: Path) -> None:
    (out / "rollouts" / ".part-000009.parquet.4711.tmp").write_bytes(b"half")
    (out / "rollouts" / "part-7.parquet.bak").write_bytes(b"")
    (out / "snapshots" / ".next").mkdir()
    (out / "snapshots" / "000001" / "dev-00000-of-00001.parquet").write_bytes(b"PAR1")
    (out / "cost.json").write_text("{")
    names = found(out)
    assert names["rollouts/.part-000009.parquet.4711.tmp"] == "a run that did not end left it"
    assert names["snapshots/.next"] == "a run that did not end left it"
    assert names["rollouts/part-7.parquet.bak"] == "it is no part, so nothing reads it"
    assert "cost.json" in names
    assert "snapshots/000001/dev-00000-of-00001.parquet" in names


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it is no JSON"),
        ("[]", "it is no manifest"),
        ('{"schema_version": 99}', "it has schema version 99, this stepmark reads version 1"),
    ],
)
def test_a_manifest_that_cannot_be_is_found(out: Path, content: str, message: str) -> None:
    (out / "manifest.json").write_text(content)
    assert message in found(out)["manifest.json"]


def test_a_dataset_in_use_and_no_dataset_are_refused(out: Path, tmp_path: Path) -> None:
    with dataset_lock(out), pytest.raises(DatasetLockedError, match="is in use by process"):
        verify(out)
    with pytest.raises(ConfigError, match="is no dataset folder"):
        verify(tmp_path / "other")


def test_the_command_prints_each_finding_and_ends_with_1(out: Path, tmp_path: Path) -> None:
    flip(the_part(out))
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "flows.cli", "verify", str(out), "--json", str(report)]
    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", *command[3:]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"rollouts/{the_part(out).name}: its content is not" in done.stdout
    assert "move it away and run `stepmark generate` again" in done.stdout
    assert done.stderr.startswith(f"stepmark: {out}: ")
    assert json.loads(report.read_text())["findings"][0]["file"] == f"rollouts/{the_part(out).name}"


def test_a_run_that_was_killed_after_regrading_is_no_damage(out: Path) -> None:
    """The regrade's part replaces the manifest's, as a merged one does, but with other rows."""
    gsm8k = check_config(
        {**config().model_dump(mode="json"), "grading": {"profile": "gsm8k"}}, origin="test"
    )
    with dataset_lock(out):
        prepare_problems(gsm8k, out)
        assert begin_run(gsm8k, out).num_regraded
    checked = verify(out, full=True)
    assert checked.findings == ()
    assert "is not finished" in checked.not_compared
    generate(gsm8k, out, on_progress=lambda _: None)
    checked = verify(out, full=True)
    assert (checked.findings, checked.not_compared) == ((), "")


def test_a_run_that_was_killed_after_its_problems_were_stored_is_no_damage(
    out: Path, tmp_path: Path
) -> None:
    with dataset_lock(out):
        write_problems(out, [replace(read_problems(out)[0], gold_answer="99999")])
    checked = verify(out, full=True)
    assert checked.findings == ()
    assert "a later run has added problems" in checked.not_compared


def test_a_lost_pointer_is_found(out: Path) -> None:
    content = json.loads((out / "manifest.json").read_text())
    del content["files"]
    (out / "manifest.json").write_text(json.dumps(content))
    assert "it lists no files" in found(out)["manifest.json"]
    (out / "manifest.json").unlink()
    assert "it is missing, though there are snapshots" in found(out)["manifest.json"]
    run(out)
    assert verify(out, full=True).findings == ()
