"""Two processes under a launcher train as one does: the gradients are of all their solutions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.tiny_training import make_base, make_config, write_labels
from train.trainer import train_prm

SETTINGS = {"epochs": 2, "learning_rate": 1e-3, "packing": True, "save_steps": 3}
SCRIPT = """
import sys
from pathlib import Path
from tests.tiny_training import make_config
from train.trainer import is_main_process, train_prm
labels, out, base = map(Path, sys.argv[1:])
told = []
config = make_config(base, batch_size=8, **SETTINGS)
report = train_prm(labels, out, config, on_progress=lambda *call: told.append(call))
assert bool(told) == is_main_process()
assert (report.num_updates, report.resumed_at) == (10, 0)
"""


@pytest.mark.slow
def test_two_processes_train_as_one_with_batches_of_both(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    (tmp_path / "labels").mkdir()
    labels = write_labels(tmp_path / "labels")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("**SETTINGS", f"**{SETTINGS!r}"))
    both, one = tmp_path / "out" / "both", tmp_path / "out" / "one"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    subprocess.run(
        [*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script),
         str(labels), str(both), str(base)],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ".", "ACCELERATE_USE_CPU": "true"},
        timeout=200,
    )  # fmt: skip
    report = train_prm(labels, one, make_config(base, batch_size=16, **SETTINGS))
    assert (report.num_updates, report.num_train_solutions) == (10, 80)
    expected = load_file(one / "model.safetensors")
    start = load_file(base / "model.safetensors")
    for name, tensor in load_file(both / "model.safetensors").items():
        torch.testing.assert_close(tensor, expected[name], atol=2e-5, rtol=0)
        if name in start and "proj" in name:
            assert (tensor - start[name]).abs().max() > 1e-3
    assert {entry.name for entry in both.parent.iterdir()} == {"both", "one"}
