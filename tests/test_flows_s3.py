"""A dataset in an object store: the same labels as in a folder, killed, locked, damaged.

Against moto's S3 server, with the real clients.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from s3fs import S3FileSystem

from flows.run_config import RunConfig, check_config
from flows.stages import generate
from flows.verify import verify
from pipeline.errors import ConfigError, DataError, DatasetLockedError
from storage.dataset import dataset_path, labels_path, read_labels, read_manifest
from storage.journal import Journal, read_rollouts
from storage.lock import LOCK_FILE, dataset_lock, lock_holder
from storage.lock_holder import STALE_SECONDS, LockHolder, this_process
from storage.remote import is_remote, local_path, local_state
from storage.remote_lock import _LockObject
from storage.snapshots import list_snapshots
from tests.lock_takers import taking
from tests.s3_server import s3_server

NUMBERS = itertools.count()


def config(limit: int = 4) -> RunConfig:
    return check_config(
        {
            "problems": {"limit": limit},
            "engine": {"kind": "scripted"},
            "steps": {"method": "newline"},
        },
        origin="test",
    )


def run(out: Path, limit: int = 4) -> dict[str, object]:
    return generate(config(limit), out, on_progress=lambda _: None)


def label_bytes(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in labels_path(out).glob("*.parquet")}


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with s3_server("bucket"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def address() -> str:
    return f"s3://bucket/team/set-{next(NUMBERS)}"


@pytest.fixture
def out(address: str) -> Path:
    return dataset_path(address)


@pytest.mark.parametrize(
    "store",
    ["s3://bucket/same", pytest.param("memory://same/set", marks=pytest.mark.slow)],
)
def test_a_remote_dataset_is_the_local_one_byte_for_byte(tmp_path: Path, store: str) -> None:
    local, remote = tmp_path / "local", dataset_path(store)
    run(local)
    manifest = run(remote)
    assert label_bytes(remote) == label_bytes(local)
    assert {one.key for one in read_rollouts(remote)} == {one.key for one in read_rollouts(local)}
    assert read_labels(remote) == read_labels(local)
    assert read_manifest(remote)["snapshot"] == "000001"
    assert manifest["counts"] == read_manifest(local)["counts"]
    again = run(remote)
    assert again["snapshot"] == "000001"  # nothing new, nothing sampled
    checked = verify(remote, full=True)
    assert (checked.findings, checked.not_compared, checked.num_labels_compared) == ((), "", 16)
    run(remote, limit=6)
    assert list_snapshots(remote) == ["000001", "000002"]
    assert verify(remote, full=True).findings == ()
    assert not list((local_state(remote) / "snapshots").glob(".*"))


GENERATE = """
import sys
from flows.run_config import check_config
from flows.stages import generate
from storage.dataset import dataset_path
content = {
    "problems": {"limit": 150}, "engine": {"kind": "scripted"}, "steps": {"method": "newline"}
}
generate(check_config(content, origin="test"), dataset_path(sys.argv[1]), on_progress=print)
"""


@pytest.mark.slow
def test_a_run_killed_in_between_is_continued_to_the_same_labels(
    tmp_path: Path, address: str, out: Path
) -> None:
    killed = subprocess.Popen([sys.executable, "-c", GENERATE, address], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list((out / "rollouts").glob("part-*")) and time.monotonic() < until:
        time.sleep(0.05)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert read_manifest(out) == {}
    num_stored = len(read_rollouts(out))
    holder = lock_holder(out)
    assert holder is not None
    assert holder.pid == killed.pid
    run(out, limit=150)  # takes the lock over at once: the process is not there any more
    run(tmp_path / "local", limit=150)
    assert label_bytes(out) == label_bytes(tmp_path / "local")
    assert 0 < num_stored <= len(read_rollouts(out))
    assert verify(out).findings == ()


def elsewhere(seconds_ago: float) -> LockHolder:
    heard = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return replace(
        this_process(), host="node-7", heartbeat_at=heard.isoformat(timespec="milliseconds")
    )


def test_a_second_run_is_refused(out: Path) -> None:
    with dataset_lock(out):
        for _ in range(2):
            with pytest.raises(DatasetLockedError, match=rf"{out} is in use by process \d+ on "):
                run(out)
        with pytest.raises(DatasetLockedError):
            verify_of_a_dataset(out)
    assert (out / LOCK_FILE).read_bytes() == b""
    (out / LOCK_FILE).write_bytes(elsewhere(STALE_SECONDS - 10).as_bytes())
    with pytest.raises(DatasetLockedError, match=r"on node-7, .* last heard of 50 s ago"):
        run(out)
    (out / LOCK_FILE).write_bytes(elsewhere(STALE_SECONDS + 1).as_bytes())
    run(out)


def verify_of_a_dataset(out: Path) -> None:
    (out / "problems" / "x").write_bytes(b"")
    try:
        verify(out)
    finally:
        (out / "problems" / "x").unlink()


def test_of_processes_that_race_for_a_stale_lock_exactly_one_wins(out: Path) -> None:
    (out / LOCK_FILE).write_bytes(elsewhere(2 * STALE_SECONDS).as_bytes())
    with taking(out, num=4) as (_, said):
        assert sorted(said) == ["held", "refused", "refused", "refused"]


def test_of_two_that_have_seen_one_version_of_the_lock_one_changes_it(out: Path) -> None:
    file = out / LOCK_FILE
    file.write_bytes(b"stale")
    one, other = _LockObject(file), _LockObject(file)
    assert one.read() == other.read() == b"stale"
    assert one.change(b"one")
    assert not other.change(b"other")
    assert not other.create(b"other")
    assert one.change(b"one again")
    assert file.read_bytes() == b"one again"


def test_the_heartbeat_renews_the_object_and_notices_who_takes_it_over(out: Path) -> None:
    def work() -> None:
        with dataset_lock(out, heartbeat_seconds=0.1):
            first = lock_holder(out)
            time.sleep(0.6)
            later = lock_holder(out)
            assert first is not None
            assert later is not None
            assert later.identity == first.identity
            assert later.heartbeat_at > first.heartbeat_at
            (out / LOCK_FILE).write_bytes(elsewhere(0).as_bytes())
            time.sleep(10)

    with pytest.raises(DatasetLockedError, match="was taken over by another process"):
        work()
    holder = lock_holder(out)
    assert holder is not None
    assert holder.host == "node-7"


def test_a_part_of_another_writer_is_never_written_over(out: Path) -> None:
    run(out)
    rows = read_rollouts(out)
    late, journal = Journal(out), Journal(out)
    journal.append(rows[2:3])
    journal.flush()
    late.append(rows[:2])
    with pytest.raises(DataError, match=r"\.parquet cannot be written \(File exists\); another"):
        late.flush()
    assert len(read_rollouts(out)) == len(rows)


@pytest.mark.slow
def test_a_truncated_object_is_found(out: Path) -> None:
    run(out)
    (file,) = labels_path(out).glob("*.parquet")
    before = file.read_bytes()
    file.write_bytes(before[:-100])
    (found, *_) = verify(out).findings
    assert found.file == "snapshots/000001/train-00000-of-00001.parquet"
    assert "bytes, the manifest says" in found.what
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_labels(out)
    run(out)
    assert label_bytes(out)[file.name] == before


@pytest.mark.slow
def test_the_trainer_reads_labels_from_the_store(tmp_path: Path, out: Path) -> None:
    from train.labels import read_labels as rows_to_train_on

    run(out)
    run(tmp_path / "local")
    remote, local = (
        list(rows_to_train_on(labels_path(one), split="train")) for one in (out, tmp_path / "local")
    )
    assert remote == local
    assert len(local) == 16


@pytest.mark.slow
def test_the_commands_take_an_address(address: str, out: Path, tmp_path: Path) -> None:
    run(out)
    for arguments in (["show", address], ["verify", address, "--json", str(tmp_path / "x.json")]):
        done = subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()", *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "x.json").read_text())["findings"] == []


@pytest.mark.parametrize("given", ["s3://bucket/x/", "s3:/bucket/x", Path("s3://bucket/x")])
def test_an_address_is_understood_as_the_command_line_has_it(given: str | Path) -> None:
    path = dataset_path(given)
    assert is_remote(path)
    assert str(path) == "s3://bucket/x"


@pytest.mark.parametrize("given", ["hf://datasets/a/b", "https://x/y", "ftp:/x/y"])
def test_other_addresses_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="is no place for a dataset"):
        dataset_path(given)


def test_where_only_a_folder_can_be_an_address_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="s3://bucket/prm is not a local folder"):
        local_path(Path("s3://bucket/prm"))
    assert local_path(tmp_path) == local_state(tmp_path) == tmp_path
    state = local_state(out)
    assert state == local_state(dataset_path(f"{out}/"))
    assert state.is_dir()
    assert state.is_relative_to(os.environ["XDG_CACHE_HOME"])


@pytest.mark.slow
def test_a_missing_bucket_and_a_dead_endpoint_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "s3://absent/x cannot be used as a dataset folder: .*; look at the bucket's name"
    with pytest.raises(DataError, match=message):
        run(dataset_path("s3://absent/x"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(DataError, match=r'"http://127\.0\.0\.1:9/.*; look at the'):
            run(dataset_path("s3://bucket/x"))
        done = subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()", "show", "s3://bucket/x"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith("stepmark: the object store does not answer: Endpoint")
    finally:
        S3FileSystem.clear_instance_cache()
