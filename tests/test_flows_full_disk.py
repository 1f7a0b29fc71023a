"""A full disk, a read-only one and a file-size limit: a clear error, and no harm to what is there.

Root may write to what is read-only by its mode, so the disks are real ones: small file systems in
memory, mounted in a namespace that ends with the process.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.run_config import check_config
from flows.stages import generate
from storage.dataset import labels_path
from storage.files import file_hash

RUN = """
import json, resource, subprocess, sys
from pathlib import Path
from flows.run_config import check_config
from flows.stages import generate
from flows.verify import verify
from pipeline.errors import DataError
from storage.dataset import labels_path, read_labels
from storage.files import file_hash

disk, way, small, large = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
out, told = disk / "out", {}

def run(limit):
    content = {
        "problems": {"limit": limit},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    generate(check_config(content, origin="test"), out, on_progress=lambda _: None)

def labels():
    (file,) = labels_path(out).glob("*.parquet")
    return file_hash(file)

def mounted(option):
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)

def fill():
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    with (disk / "filler").open("r+b") as filler:
        filler.truncate((disk / "filler").stat().st_size - 24 * 4096)

run(small)
told["before"] = labels()
match way:
    case "full":
        fill()
    case "read-only":
        mounted("ro")
    case "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    run(large)
except DataError as error:
    told["error"] = str(error)
told["after"] = labels()
told["findings"] = [f"{one.file}: {one.what}" for one in verify(out, full=True).findings]
match way:
    case "full":
        (disk / "filler").unlink()
    case "read-only":
        mounted("rw")
    case "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
run(large)
told["then"] = labels()
told["then_findings"] = [f"{one.file}: {one.what}" for one in verify(out, full=True).findings]
print(json.dumps(told))
"""
SMALL, LARGE = 4, 60
MOUNT = 'mount -t tmpfs -o size=3m tmpfs "$1" && exec "$0" -c "$2" "$1" "$3" "$4" "$5"'
ADVICE = {
    "full": "the disk is full: free space, then run the same command again",
    "read-only": "give --out a folder that you may write to",
    "limit": "(File too large)",
}


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The hash of the labels that undisturbed runs make, by the number of problems."""
    found: dict[int, str] = {}
    for limit in (SMALL, LARGE):
        out = tmp_path_factory.mktemp("whole") / "out"
        content = {
            "problems": {"limit": limit},
            "engine": {"kind": "scripted"},
            "steps": {"method": "newline"},
        }
        generate(check_config(content, origin="test"), out, on_progress=lambda _: None)
        (file,) = labels_path(out).glob("*.parquet")
        found[limit] = file_hash(file)
    return found


def namespace() -> list[str]:
    """A command that starts another where it may mount."""
    for command in (["unshare", "-rm"], ["unshare", "-m"]):
        tried = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True
        )
        if tried.returncode == 0:
            return command
    pytest.skip("nothing can be mounted here")


@pytest.mark.slow
@pytest.mark.parametrize("way", ADVICE)
def test_a_disk_that_takes_nothing_harms_nothing(
    tmp_path: Path, labels: dict[int, str], way: str
) -> None:
    arguments = [way, str(SMALL), str(LARGE)]
    if way == "limit":
        command = [sys.executable, "-c", RUN, str(tmp_path), *arguments]
    else:
        command = [*namespace(), "sh", "-c", MOUNT, sys.executable, str(tmp_path), RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert str(tmp_path / "out") in told["error"]
    assert ADVICE[way] in told["error"]
    assert told["before"] == told["after"] == labels[SMALL]
    # labels that were staged before the disk was full; no reader sees them
    assert set(told["findings"]) <= {"snapshots/.next: a run that did not end left it"}
    assert told["then"] == labels[LARGE]
    assert told["then_findings"] == []
