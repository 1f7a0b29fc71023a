"""A training that was killed goes on from its last whole checkpoint."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigError
from tests.tiny_training import make_base, make_config, write_labels
from train.trainer import train_prm
from train.training_folder import training_path


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def labels_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labels(tmp_path_factory.mktemp("labels"))


class StoppedError(Exception):
    pass


def train(
    labels: Path, out: Path, base: Path, *, stop_at: int | None = None, **changes: Any
) -> Any:
    def on_progress(num_done: int, _: int) -> None:
        if num_done == stop_at:
            raise StoppedError

    settings = {"epochs": 2, "batch_size": 16, "save_steps": 3, "learning_rate": 1e-3}
    return train_prm(
        labels, out, make_config(base, **(settings | changes)), on_progress=on_progress
    )


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(base_path: Path, labels_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a training without any break, 10 updates in two epochs."""
    out = tmp_path_factory.mktemp("whole") / "prm"
    report = train(labels_path, out, base_path)
    assert (report.num_updates, report.resumed_at) == (10, 0)
    assert [entry.name for entry in out.parent.iterdir()] == ["prm"]
    return out


@pytest.mark.parametrize(
    ("stop_at", "resumed_at"), [(4, 3), pytest.param(8, 6, marks=pytest.mark.slow)]
)
def test_a_stopped_training_ends_with_the_same_weights(
    whole: Path, base_path: Path, labels_path: Path, tmp_path: Path, stop_at: int, resumed_at: int
) -> None:
    out = tmp_path / "prm"
    with pytest.raises(StoppedError):
        train(labels_path, out, base_path, stop_at=stop_at)
    left = {entry.name for entry in training_path(out).iterdir()}
    assert f"checkpoint-{resumed_at}" in left
    assert not any(name.startswith("encoded") for name in left)
    report = train(labels_path, out, base_path)
    assert report.resumed_at == resumed_at
    assert weights(out) == weights(whole)
    if resumed_at > 5:  # of a broken epoch, the loss is that of the updates after the break
        expected = json.loads((whole / "train_report.json").read_text())
        assert report.epoch_losses[0] == expected["epoch_losses"][0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["prm"]


@pytest.mark.slow
def test_a_checkpoint_cut_short_is_not_resumed_from(
    whole: Path, base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    with pytest.raises(StoppedError):
        train(labels_path, out, base_path, stop_at=7)
    newest = training_path(out) / "checkpoint-6"
    (newest / "whole").unlink()
    (newest / "optimizer.pt").write_bytes(b"half")
    report = train(labels_path, out, base_path)
    assert report.resumed_at == 3
    assert weights(out) == weights(whole)


def test_another_training_begins_anew(
    whole: Path, base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    with pytest.raises(StoppedError):
        train(labels_path, out, base_path, stop_at=4)
    report = train(labels_path, out, base_path, seed=5)
    assert report.resumed_at == 0
    assert weights(out) != weights(whole)
    with pytest.raises(StoppedError):
        train(labels_path, out, base_path, stop_at=4)
    assert train(labels_path, out, base_path, save_steps=4).resumed_at == 3


@pytest.mark.slow
def test_a_killed_process_is_continued(
    whole: Path, base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    script = (
        "import os, signal; from pathlib import Path\n"
        "from tests.tiny_training import make_config\n"
        "from train.trainer import train_prm\n"
        f"config = make_config(Path({str(base_path)!r}), epochs=2, batch_size=16, save_steps=3, "
        "learning_rate=1e-3)\n"
        "kill = lambda done, _: done == 5 and os.kill(os.getpid(), signal.SIGKILL)\n"
        f"train_prm(Path({str(labels_path)!r}), Path({str(out)!r}), config, on_progress=kill)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    report = train(labels_path, out, base_path)
    assert report.resumed_at == 3
    assert weights(out) == weights(whole)
    assert [entry.name for entry in tmp_path.iterdir()] == ["prm"]


def test_two_trainings_do_not_share_a_folder(
    base_path: Path, labels_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "prm"
    training_path(out).mkdir()
    with (training_path(out) / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match=r"another training is making .*prm; wait"):
            train(labels_path, out, base_path)
        assert training_path(out).is_dir()
    assert train(labels_path, out, base_path, epochs=1).num_updates == 5
    assert [entry.name for entry in tmp_path.iterdir()] == ["prm"]
