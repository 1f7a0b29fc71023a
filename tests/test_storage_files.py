"""Whole writes: links, pipes, folders, our own standard output, and why a write failed."""

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import DataError
from storage.files import write_json, write_parquet, write_whole


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed_and_stays(tmp_path: Path, is_there: bool) -> None:
    real, link = tmp_path / "real" / "x.json", tmp_path / "x.json"
    real.parent.mkdir()
    link.symlink_to("real/x.json")
    if is_there:
        real.write_text("old")
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"a": 1}
    assert [one.name for one in real.parent.iterdir()] == ["x.json"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(pipe.read_bytes)
        write_parquet(pipe, pa.table({"a": [1, 2]}))
        content = read.result(timeout=30)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert pq.read_table(pa.BufferReader(content)).to_pydict() == {"a": [1, 2]}
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


WRITE = """
from pathlib import Path
from storage.files import write_json
print("before")
write_json(Path("/dev/stdout"), 1)
print("after")
"""


def test_a_file_that_takes_our_standard_output_is_written_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    with log.open("a") as stream:
        subprocess.run([sys.executable, "-c", WRITE], stdout=stream, check=True)
    assert log.read_text() == "earlier\nbefore\n1\nafter\n"
    piped = subprocess.run([sys.executable, "-c", WRITE], capture_output=True, check=True)
    assert piped.stdout == b"before\n1\nafter\n"


def test_the_advice_fits_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for path, message in (
        (tmp_path, r"\(Is a directory\); it is a folder: name a file"),
        (tmp_path / "file" / "x", r"\(Not a directory\); a folder of this path is missing or is a"),
        (Path("/sys/x.json"), r"\(.*\); choose a folder that you may write to"),
        (tmp_path / ("x" * 300), r"\(File name too long\); choose another place"),
    ):
        with pytest.raises(DataError, match=message) as error:
            write_json(path, {})
        assert str(error.value).startswith(f"{path} cannot be written (")

    def full(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        DataError, match=r"\(No space left on device\); the disk is full: free space"
    ):
        write_whole(tmp_path / "file", full)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "kept")]


def test_a_number_that_json_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []
