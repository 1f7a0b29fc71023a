"""`stepmark generate` as a whole: one result, however often it is stopped or killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.run_config import RunConfig, load_config
from flows.sampling import Progress, sample_rollouts
from flows.stages import generate
from pipeline.errors import ConfigError, DataError
from pipeline.records import Rollout
from storage.dataset import label_files, read_labels, read_manifest
from storage.journal import read_rollouts
from storage.lock import dataset_lock
from storage.problem_table import read_problems
from tests.interrupts import interrupt_at
from tests.scripted_flow import config

SCRIPTED = """
[problems]
limit = {limit}
[engine]
kind = "scripted"
[steps]
method = "newline"
"""
TRANSFORMERS = """
[problems]
limit = 3
[engine]
kind = "transformers"
num_threads = 1
max_num_seqs = 32
[sampling]
max_tokens = 160
[prompt]
style = "plain"
[steps]
method = "newline"
"""
LABELS = "labels/train-00000-of-00001.parquet"


def run(config: RunConfig, out: Path) -> list[Progress]:
    heard: list[Progress] = []
    generate(config, out, on_progress=heard.append)
    return heard


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def by_key(out: Path) -> dict[object, Rollout]:
    return {rollout.key: rollout for rollout in read_rollouts(out)}


def test_a_run_leaves_the_agreed_files_and_counts(tmp_path: Path) -> None:
    heard = run(config(), tmp_path)
    manifest = read_manifest(tmp_path)
    labels, rollouts = read_labels(tmp_path), read_rollouts(tmp_path)
    counts = manifest["counts"]
    assert isinstance(counts, dict)
    assert counts["problems"] == 8
    assert counts["labeled_solutions"] == len(labels) == 32
    assert counts["labeled_steps"] == sum(len(one.steps) for one in labels)
    assert counts["rollouts"] == len(rollouts) == heard[-1].num_rollouts
    assert counts["rollouts_correct"] + counts["rollouts_incorrect"] == counts["rollouts"]
    cost = manifest["cost"]
    assert isinstance(cost, dict)
    assert cost["solutions"]["rollouts"] == 32
    assert cost["prefixes"]["rollouts"] == len(rollouts) - 32
    assert heard[-1].num_tokens == sum(one.num_tokens for one in rollouts)
    assert (heard[0].num_done, heard[-1].num_done, heard[-1].num_problems) == (0, 8, 8)
    assert [one.num_rollouts for one in heard] == sorted(one.num_rollouts for one in heard)
    snapshot = "snapshots/000001"
    assert {
        "config.json",
        "selection.json",
        "manifest.json",
        f"{snapshot}/_manifest.json",
        f"{snapshot}/train-00000-of-00001.parquet",
    } <= {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")}
    assert manifest["snapshot"] == "000001"
    assert (tmp_path / "labels").readlink() == Path(snapshot)
    assert len(list((tmp_path / "rollouts").iterdir())) == 1


def test_a_second_run_draws_nothing_and_changes_no_label(tmp_path: Path) -> None:
    run(config(), tmp_path)
    before, rollouts = digest(tmp_path / LABELS), read_rollouts(tmp_path)
    assert run(config(), tmp_path) == []
    assert digest(tmp_path / LABELS) == before
    assert read_rollouts(tmp_path) == rollouts


def test_a_growing_selection_keeps_what_was_drawn(tmp_path: Path) -> None:
    run(config(problems={"limit": 3}), tmp_path / "grown")
    few = by_key(tmp_path / "grown")
    run(config(), tmp_path / "grown")
    run(config(), tmp_path / "whole")
    assert digest(tmp_path / "grown" / LABELS) == digest(tmp_path / "whole" / LABELS)
    many = by_key(tmp_path / "grown")
    assert all(many[key] == rollout for key, rollout in few.items())
    run(config(problems={"limit": 3}), tmp_path / "grown")
    assert len(read_labels(tmp_path / "grown")) == 12
    assert len(read_problems(tmp_path / "grown")) == 8


def test_another_seed_draws_others_beside_them(tmp_path: Path) -> None:
    run(config(), tmp_path)
    first = digest(tmp_path / LABELS)
    run(config(seed=1), tmp_path)
    assert digest(tmp_path / LABELS) != first
    run(config(), tmp_path)
    assert digest(tmp_path / LABELS) == first


def test_splits_are_named_in_the_snapshot(tmp_path: Path) -> None:
    run(config(problems={"limit": 2, "split": "dev"}), tmp_path)
    files = [one.name for one in label_files(tmp_path / "labels")]
    assert files == ["dev-00000-of-00001.parquet"]


def test_rejected_rows_are_listed_and_counted(tmp_path: Path) -> None:
    from pipeline.demo.problems import demo_problem

    problem = demo_problem("train", 0)
    file = tmp_path / "p.jsonl"
    good = {"id": problem.problem_id, "question": problem.question, "answer": problem.gold_answer}
    file.write_text("\n".join(json.dumps(row) for row in (good, {"answer": "1"}, good)))
    out = tmp_path / "out"
    run(config(problems={"source": str(file), "id_column": "id"}), out)
    selection = json.loads((out / "selection.json").read_text())
    assert selection["rejected_rows"] == [
        {"row": 2, "reason": "no question in column 'question'"},
        {"row": 3, "reason": "duplicate id 'demo-train-000000'"},
    ]
    counts = read_manifest(out)["counts"]
    assert isinstance(counts, dict)
    assert counts["rejected_rows"] == 2


def test_the_scripted_engine_refuses_foreign_problems(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"question": "1+1?", "answer": "2"}')
    with pytest.raises(ConfigError, match="'scripted' knows demo problems only, not 'q-"):
        run(config(problems={"source": str(file)}), tmp_path / "out")


def test_texts_without_any_step_are_an_error_that_says_where_to_look(tmp_path: Path) -> None:
    run(config(problems={"limit": 1}), tmp_path)
    (tmp_path / "selection.json").write_text(
        '{"split": "train", "problem_ids": [], "rejected_rows": []}'
    )
    from flows.stages import snapshot_labels

    with pytest.raises(DataError, match="no solution has a step to label; look at the texts in"):
        snapshot_labels(config(problems={"limit": 1}), tmp_path)
    whole = json.loads((tmp_path / "selection.json").read_text())
    unknown = json.dumps({**whole, "problem_ids": ["nobody"]})
    for content, what in (
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "is no selection of problems"),
        (unknown, "names the problem 'nobody', which is not stored"),
    ):
        (tmp_path / "selection.json").write_text(content)
        with pytest.raises(DataError, match=rf"selection\.json {what}"):
            sample_rollouts(config(), tmp_path, on_progress=lambda _: None)


def test_a_run_that_is_stopped_midway_goes_on(tmp_path: Path) -> None:
    some = config(problems={"limit": 24})
    run(some, tmp_path / "whole")
    expected = digest(tmp_path / "whole" / LABELS)
    for limit in (1, 300, 700):
        with pytest.raises(KeyboardInterrupt):
            generate(some, tmp_path / "out", on_progress=interrupt_at(limit))
        assert len(read_rollouts(tmp_path / "out")) >= limit
    run(some, tmp_path / "out")
    assert digest(tmp_path / "out" / LABELS) == expected


def start(file: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable, "-c", "from flows.cli import main; main()",
            "generate", "--config", str(file), "--out", str(out),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def kill_and_rerun(file: Path, out: Path, *, num_rows: list[int]) -> int:
    """Kill a run each time the journal has so many rows; then let one end. Counts the kills."""
    num_killed = 0
    for wanted in num_rows:
        process = start(file, out)
        while process.poll() is None:
            parts = list((out / "rollouts").glob("part-*.parquet"))
            try:
                stored = sum(pq.ParquetFile(part).metadata.num_rows for part in parts)
            except FileNotFoundError:  # compacted meanwhile
                stored = 0
            if stored >= wanted:
                process.send_signal(signal.SIGKILL)
                num_killed += 1
                break
            time.sleep(0.002)
        process.wait()
    process = start(file, out)
    assert process.wait() == 0
    return num_killed


def check_whole(out: Path, whole: Path) -> None:
    assert (out / LABELS).read_bytes() == (whole / LABELS).read_bytes()
    rows = [
        key
        for part in (out / "rollouts").iterdir()
        for key in zip(
            *pq.read_table(part, columns=["prefix_id", "rollout_index"]).to_pydict().values(),
            strict=True,
        )
    ]
    assert len(rows) == len(set(rows)) == len(read_rollouts(whole))
    assert not list(out.rglob("*.tmp"))
    with dataset_lock(out):
        pass


TWO_MODELS = "[generator.sampling]\ntemperature = 0.7\n"
TEXTBOOK = '[allocation]\npolicy = "fixed"\nreuse = false\n'


@pytest.mark.parametrize(
    ("more", "shares"),
    [
        ("", (0.0,)),
        pytest.param("", (0.0, 0.3, 0.6, 0.9), marks=pytest.mark.slow),
        pytest.param(TEXTBOOK, (0.0, 0.5, 0.99), marks=pytest.mark.slow),
        pytest.param(TWO_MODELS, (0.0, 0.04, 0.3, 0.8), marks=pytest.mark.slow),
    ],
    ids=["reuse", "reuse, four times", "textbook", "two models"],
)
def test_a_run_killed_at_any_instant_gives_the_same_labels(
    tmp_path: Path, more: str, shares: tuple[float, ...]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(SCRIPTED.format(limit=200) + more)
    whole, out = tmp_path / "whole", tmp_path / "out"
    generate(load_config(file), whole, on_progress=lambda _: None)
    num_rows = len(read_rollouts(whole))
    assert num_rows > 8_000
    wanted = [max(1, int(share * num_rows)) for share in shares]
    assert kill_and_rerun(file, out, num_rows=wanted) == len(shares)
    check_whole(out, whole)


@pytest.mark.slow
def test_a_killed_transformers_run_gives_the_same_labels(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(TRANSFORMERS)
    whole, out = tmp_path / "whole", tmp_path / "out"
    generate(load_config(file), whole, on_progress=lambda _: None)
    num_rows = len(read_rollouts(whole))
    assert num_rows > 100
    kill_and_rerun(file, out, num_rows=[1, num_rows // 3, 2 * num_rows // 3])
    check_whole(out, whole)
