"""The deployments of prefect.yaml on a real Prefect server, with a real worker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from flows import stages
from flows.run_config import load_config
from storage.dataset import read_labels, read_manifest
from storage.journal import read_rollouts
from storage.lock import dataset_lock, lock_holder
from tests.dataset_files import all_bytes, label_bytes
from tests.prefect_server import CHECKOUT, Prefect, running_prefect

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300), pytest.mark.xdist_group("prefect")]

SCRIPTED = """
[problems]
source = "demo"
limit = 5
[engine]
kind = "scripted"
"""


FLOWS = {
    "flows.generate_labels:generate_labels": "generate-labels",
    "flows.refresh_labels:refresh_labels": "refresh-labels",
    "flows.publish_dataset:publish_dataset": "publish-dataset",
    "flows.train_prm:train_prm_flow": "train-prm",
}


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    with running_prefect(tmp_path_factory.mktemp("prefect")) as prefect:
        yield prefect


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    config = tmp_path / "scripted.toml"
    config.write_text(SCRIPTED)
    return config


def test_deploying_drops_nothing_of_the_yaml(prefect: Prefect) -> None:
    content = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())
    names = {}
    for typed in content["deployments"]:
        flow_name = FLOWS[typed["entrypoint"]]
        stored = prefect.deployment(f"{flow_name}/{typed['name']}")
        names[f"{flow_name}/{typed['name']}"] = stored["id"]
        read_back = {
            **{
                key: stored[key]
                for key in (
                    "name",
                    "entrypoint",
                    "description",
                    "tags",
                    "parameters",
                    "enforce_parameter_schema",
                )
            },
            "schedules": [
                {
                    "cron": one["schedule"]["cron"],
                    "timezone": one["schedule"]["timezone"],
                    "active": one["active"],
                }
                for one in stored["schedules"]
            ],
            "concurrency_limit": {
                "limit": stored["global_concurrency_limit"]["limit"],
                "collision_strategy": stored["concurrency_options"]["collision_strategy"],
            },
            "work_pool": {"name": stored["work_pool_name"]},
        }
        assert read_back == typed
        assert stored["pull_steps"] == [
            {"prefect.deployments.steps.set_working_directory": {"directory": str(CHECKOUT)}}
        ]
    assert len(prefect.post("deployments/filter", {})) == len(names)


def test_the_cron_yields_scheduled_runs(prefect: Prefect) -> None:
    nightly = prefect.deployment("generate-labels/nightly")["id"]
    of_nightly = {"deployments": {"id": {"any_": [nightly]}}}

    def runs() -> list[dict[str, Any]]:
        return prefect.post("flow_runs/filter", of_nightly)

    prefect.wait_until(lambda: bool(runs()), "scheduled run", seconds=60)
    for run in runs():
        expected = datetime.fromisoformat(run["expected_start_time"]).astimezone(UTC)
        assert run["state"]["type"] == "SCHEDULED"
        assert (expected.hour, expected.minute) == (2, 0)


def test_the_bare_name_labels_as_the_stages_do(
    prefect: Prefect, scripted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    run_id = prefect.submit(
        "generate-labels", config=str(scripted), out=str(out), overrides=["seed=3"]
    )
    _generate(scripted, ["seed=3"], tmp_path / "direct")
    prefect.completed(run_id)
    assert label_bytes(out) == label_bytes(tmp_path / "direct")
    run = prefect.get(f"flow_runs/{run_id}")
    assert run["name"] == f"generate-labels {out}"
    shown = prefect.artifacts(run_id)
    figures = {row["figure"]: row["value"] for row in json.loads(shown["label-statistics"]["data"])}
    assert figures["problems"] == "5"
    assert shown["sampling-progress"]["data"] == 100
    assert "5/5 problems" in shown["sampling-progress"]["description"]
    assert "0 rejected rows" in shown["rejected-rows"]["description"]


def test_transformers_by_flow_and_deployment(prefect: Prefect, tmp_path: Path) -> None:
    config, out = CHECKOUT / "configs" / "demo.toml", tmp_path / "dataset"
    overrides = ["problems.limit=2", "allocation.solutions_per_problem=1", "engine.num_threads=1"]
    run_id = prefect.submit(
        "generate-labels/generate-labels", config=str(config), out=str(out), overrides=overrides
    )
    prefect.completed(run_id)
    direct = _generate(config, overrides, tmp_path / "direct")
    manifest = read_manifest(out)
    assert manifest["sampling_digest"] == direct["sampling_digest"]
    assert manifest["completer"] == "demo"
    solutions = read_labels(out)
    # Not the labels: at a tie of 1e-6 a token can differ between batches.
    assert [(one.problem.problem_id, one.steps) for one in solutions] == [
        (one.problem.problem_id, one.steps) for one in read_labels(tmp_path / "direct")
    ]
    for solution in solutions:
        assert all(10 <= label.num_graded <= 20 for label in solution.labels[:-1])


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_vllm_by_the_command_and_the_deployment(prefect: Prefect, tmp_path: Path) -> None:
    config = CHECKOUT / "configs" / "demo.toml"
    overrides = ["problems.limit=2", "engine.kind=vllm", "engine.max_num_seqs=64"]
    settings = [argument for one in overrides for argument in ("--set", one)]
    arguments = ["generate", "--config", str(config), "--out", str(tmp_path / "direct"), *settings]
    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    direct = read_manifest(tmp_path / "direct")
    out = tmp_path / "dataset"
    run_id = prefect.submit(
        "generate-labels", config=str(config), out=str(out), overrides=overrides
    )
    prefect.completed(run_id)
    manifest = read_manifest(out)
    assert manifest["sampling_digest"] == direct["sampling_digest"]
    assert manifest["config"]["engine"]["kind"] == "vllm"
    for folder in (out, tmp_path / "direct"):
        solutions = read_labels(folder)
        assert len(solutions) == 8
        for solution in solutions:
            assert all(10 <= label.num_graded <= 20 for label in solution.labels[:-1])
    assert [solution.steps for solution in read_labels(out)] == [
        solution.steps for solution in read_labels(tmp_path / "direct")
    ]


def test_training_by_the_bare_name(prefect: Prefect, tmp_path: Path) -> None:
    config, dataset, prm = tmp_path / "demo.toml", tmp_path / "dataset", tmp_path / "prm"
    config.write_text(SCRIPTED + '[train]\nbase_model = "demo"\nepochs = 1\nmax_length = 256\n')
    _generate(config, [], dataset)
    run_id = prefect.submit(
        "train-prm", dataset=str(dataset), out=str(prm), overrides=["train.batch_size=4"]
    )
    prefect.completed(run_id)
    report = json.loads((prm / "train_report.json").read_text())
    assert report["num_solutions"] == 20
    assert report["config"]["batch_size"] == 4
    shown = {
        row["figure"]: row["value"]
        for row in json.loads(prefect.artifacts(run_id)["training-report"]["data"])
    }
    assert shown["num_updates"] == str(report["num_updates"])


def test_the_lock_refuses_a_second_run(prefect: Prefect, scripted: Path, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    _generate(scripted, [], out)
    before = all_bytes(out)
    with dataset_lock(out):
        # the limit sees one run only: another deployment, `stepmark generate`, another host
        state = prefect.finished(
            prefect.submit("generate-labels", config=str(scripted), out=str(out))
        )
    assert state["type"] == "FAILED"
    assert f"the dataset {out} is in use by process {os.getpid()}" in state["message"]
    assert all_bytes(out) == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"config": "/absent.toml"}, "there is no config file /absent.toml"),
        ({"overrides": ["problems.limti=5"]}, "unknown key problems.limti"),
        ({"overrides": ["problems.limit=five"]}, "problems.limit = 'five'"),
        ({"out": "hf://a/set"}, "hf://a/set is no place for a dataset"),
    ],
)
def test_bad_parameters_are_not_submitted(
    prefect: Prefect, parameters: dict[str, object], message: str
) -> None:
    num_before = prefect.post("flow_runs/count", {})
    for name in ("generate-labels", "generate-labels/generate-labels"):
        typed = [f"--param={key}={json.dumps(value)}" for key, value in parameters.items()]
        done = prefect.command("deployment", "run", name, *typed)
        assert done.returncode == 1
        assert done.stderr.startswith("stepmark: not submitted: ")
        assert message in done.stderr
    assert prefect.post("flow_runs/count", {}) == num_before


def test_the_server_and_the_flow_refuse_what_the_plugin_did_not_see(
    prefect: Prefect, scripted: Path, tmp_path: Path
) -> None:
    for bad in ({"overrides": ["limit"]}, {"overrides": "seed=1"}, {"config": ""}):
        with pytest.raises(httpx.HTTPStatusError, match="409"):
            prefect.create_run("generate-labels/generate-labels", **bad)
    run_id = prefect.create_run(
        "generate-labels/generate-labels",
        config=str(scripted),
        out=str(tmp_path / "dataset"),
        overrides=["problems.limti=5"],
    )
    state = prefect.finished(run_id)
    assert state["type"] == "FAILED"
    assert "unknown key problems.limti" in state["message"]
    assert not (tmp_path / "dataset").exists()


def test_an_unknown_bare_name_ends_the_command(prefect: Prefect) -> None:
    done = prefect.command("deployment", "run", "generate")
    assert done.returncode == 1
    assert "no deployment named 'generate'" in done.stderr


def test_a_cancelled_run_is_continued_by_the_one_that_waited(
    prefect: Prefect, scripted: Path, tmp_path: Path
) -> None:
    out, limit = tmp_path / "dataset", "problems.limit=2000"
    parameters = {"config": str(scripted), "out": str(out), "overrides": [limit]}
    first = prefect.create_run("generate-labels/generate-labels", **parameters)
    prefect.wait_until((out / "rollouts").exists, "rollouts")
    # Held here, so that however fast it samples it is still running when it is cancelled.
    holder = lock_holder(out)
    assert holder is not None
    pid = holder.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not (out / "manifest.json").exists()
        second = prefect.create_run("generate-labels/generate-labels", **parameters)
        prefect.wait_until(
            lambda: prefect.state(second)["name"] == "AwaitingConcurrencySlot", "waiting run"
        )
        assert prefect.state(first)["type"] == "RUNNING"
        prefect.post(f"flow_runs/{first}/set_state", {"state": {"type": "CANCELLING"}})
        cancelled_at = datetime.now(UTC).isoformat()
        prefect.wait_until(lambda: _is_pending(pid, signal.SIGTERM), "SIGTERM of the worker")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert prefect.finished(first)["type"] == "CANCELLED"
    assert not (out / "manifest.json").exists()
    _generate(scripted, [limit], tmp_path / "direct")
    prefect.completed(second)
    assert label_bytes(out) == label_bytes(tmp_path / "direct")
    assert any(rollout.created_at < cancelled_at for rollout in read_rollouts(out))


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether the stopped process `pid` has the signal waiting for it (Linux, proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, mask = line.partition(":")
        if name in ("SigPnd", "ShdPnd") and int(mask, 16) >> (number - 1) & 1:
            return True
    return False


def _generate(config: Path, overrides: list[str], out: Path) -> dict[str, object]:
    resolved = load_config(config, overrides)
    return stages.generate(resolved, out, on_progress=lambda _: None)
