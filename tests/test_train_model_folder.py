from pathlib import Path

import pytest

from pipeline.errors import ConfigError, DataError
from train.model_folder import is_prm_folder, replacing_folder, require_replaceable


def make_prm(path: Path, mark: str) -> Path:
    path.mkdir()
    (path / "config.json").write_text('{"stepmark": {}}')
    (path / "mark").write_text(mark)
    return path


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "prm"
    with replacing_folder(out) as folder:
        (folder / "weights").write_text("w")
        assert not out.exists()
    assert names(out) == {"weights"}
    assert names(out.parent) == {"prm"}


def test_an_earlier_model_is_replaced_without_a_trace(tmp_path: Path) -> None:
    out = make_prm(tmp_path / "prm", "old")
    with replacing_folder(out) as folder:
        (folder / "config.json").write_text('{"stepmark": {}}')
    assert names(out) == {"config.json"}
    assert names(tmp_path) == {"prm"}
    assert is_prm_folder(out)


def interrupt(out: Path) -> tuple[set[str], bool]:
    """Begin to replace `out`, and be interrupted; what was there meanwhile."""
    seen: tuple[set[str], bool] | None = None
    with pytest.raises(KeyboardInterrupt), replacing_folder(out) as folder:  # noqa: PT012
        seen = (names(folder), (out / "mark").exists())
        (folder / "mark").write_text("new")
        raise KeyboardInterrupt
    assert seen is not None
    return seen


def test_after_an_error_the_earlier_model_is_as_before(tmp_path: Path) -> None:
    out = make_prm(tmp_path / "prm", "old")
    assert interrupt(out) == (set(), True)
    assert (out / "mark").read_text() == "old"
    assert names(tmp_path) == {"prm"}


def test_what_a_killed_run_left_is_cleared_or_put_back(tmp_path: Path) -> None:
    out = tmp_path / "prm"
    make_prm(tmp_path / ".prm.previous", "old")
    (tmp_path / ".prm.partial").mkdir()
    (tmp_path / ".prm.partial" / "half").write_text("h")
    assert interrupt(out) == (set(), True)
    assert (out / "mark").read_text() == "old"
    assert names(tmp_path) == {"prm"}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_anything_else_is_not_overwritten(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "mine"
    if kind == "file":
        out.write_text("precious")
    else:
        out.mkdir()
        (out / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ConfigError, match="not a PRM trained by stepmark"), replacing_folder(out):
        pass
    assert out.exists()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    out = tmp_path / "prm"
    out.mkdir()
    with replacing_folder(out) as folder:
        (folder / "a").write_text("a")
    assert names(out) == {"a"}


def test_a_link_to_a_model_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    real = make_prm(tmp_path / "big" / "prm", "old")
    link = tmp_path / "prm"
    link.symlink_to("big/prm")
    with replacing_folder(link) as folder:
        (folder / "weights").write_text("w")
    assert link.is_symlink()
    assert names(real) == {"weights"}
    assert names(real.parent) == {"prm"}
    assert names(tmp_path) == {"big", "prm"}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"cannot be written to /sys/prm \(.*\); free space or name"),
        replacing_folder(Path("/sys/prm")),
    ):
        raise AssertionError
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Not a directory"), replacing_folder(tmp_path / "file/prm"):
        pass
    for name in ("x" * 300, "binary"):
        (tmp_path / "binary").mkdir(exist_ok=True)
        (tmp_path / "binary" / "config.json").write_bytes(b"\xff")
        with pytest.raises(ConfigError, match="cannot be looked into"):
            require_replaceable(tmp_path / name)
