"""Snapshots and splits of whole runs, and `stepmark diff` between them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.run_config import RunConfig, check_config
from flows.stages import generate
from pipeline.errors import ConfigError
from storage.dataset import label_files, labels_path, read_labels, read_manifest, split_of
from storage.schema import LABELS, read_table
from storage.snapshots import list_snapshots
from tests.dataset_files import all_bytes
from train.labels import read_labels as read_split

SHARES = {"train": 0.5, "validation": 0.3, "held_out": 0.2}


def config(limit: int = 6, **sections: object) -> RunConfig:
    content = {
        "problems": {"limit": limit},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    return check_config({**content, **sections}, origin="test")


def run(config: RunConfig, out: Path) -> dict[str, object]:
    return generate(config, out, on_progress=lambda _: None)


def problems_by_split(out: Path) -> dict[str, list[str]]:
    return {
        split_of(file): read_table(file, LABELS).column("problem_id").to_pylist()
        for file in label_files(labels_path(out))
    }


def test_only_a_run_with_other_labels_makes_a_snapshot(tmp_path: Path) -> None:
    assert run(config(), tmp_path)["snapshot"] == "000001"
    first = read_manifest(tmp_path)
    assert run(config(train={"epochs": 3}), tmp_path)["snapshot"] == "000001"
    assert read_manifest(tmp_path)["finished_at"] != first["finished_at"]
    assert read_manifest(tmp_path)["config"] != first["config"]
    assert run(config(8), tmp_path)["snapshot"] == "000002"
    assert run(config(8, labels={"keep_snapshots": 1, "hard_threshold": 0.5}), tmp_path)
    assert list_snapshots(tmp_path) == ["000003"]


def test_diff_says_what_a_run_has_changed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(config(), tmp_path / name)
    run(config(8, labels={"hard_threshold": 0.5}), tmp_path / "two")
    report = tmp_path / "diff.json"

    def diff(*arguments: object) -> tuple[str, dict[str, dict[str, object]]]:
        done = CliRunner().invoke(app, ["diff", *map(str, arguments), "--json", str(report)])
        assert done.exit_code == 0, done.output
        return done.output, json.loads(report.read_text())

    output, figures = diff(tmp_path / "two")
    labels = figures["labels"]
    new = sum(len(one.steps) for one in read_labels(tmp_path / "two"))
    old = sum(len(one.steps) for one in read_labels(tmp_path / "one"))
    assert (labels["old"], labels["new"], labels["added"], labels["removed"]) == (
        old, new, new - old, 0,
    )  # fmt: skip
    assert labels["changed"] == labels["hard_label_changed"] != 0
    assert labels["mc_value_changed"] == figures["drift"]["max"] == 0
    assert figures["problems"] == {"added": 2, "removed": 0}
    assert figures["config"]["labels.hard_threshold"] == {"old": 0.0, "new": 0.5}
    assert "2 problems" in output
    assert "labels.hard_threshold" in output
    assert diff(tmp_path / "two", "2", "1")[1]["problems"] == {"added": 0, "removed": 2}
    assert diff(tmp_path / "one", "--with", tmp_path / "two")[1]["labels"] == labels
    for arguments in (["9"], ["1", "--with", str(tmp_path / "one")]):
        done = CliRunner().invoke(app, ["diff", str(tmp_path / "two"), *arguments])
        assert isinstance(done.exception, ConfigError)


def test_a_problem_is_in_one_split_and_stays_there(tmp_path: Path) -> None:
    run(config(12, labels={"splits": SHARES}), tmp_path / "few")
    run(config(30, labels={"splits": SHARES}), tmp_path / "many")
    run(config(30), tmp_path / "whole")
    few, many = problems_by_split(tmp_path / "few"), problems_by_split(tmp_path / "many")
    assert set(many) == set(SHARES)
    splits: defaultdict[str, set[str]] = defaultdict(set)
    for found in (few, many):
        for split, problem_ids in found.items():
            assert problem_ids == sorted(problem_ids)
            for problem_id in problem_ids:
                splits[problem_id].add(split)
    assert len(splits) == 30
    assert all(len(found) == 1 for found in splits.values())
    assert sorted(read_labels(tmp_path / "many"), key=lambda one: one.solution_id) == sorted(
        read_labels(tmp_path / "whole"), key=lambda one: one.solution_id
    )
    for split, problem_ids in many.items():  # as training reads them
        rows = read_split(labels_path(tmp_path / "many"), split=split)
        assert [row.problem_id for row in rows] == problem_ids


def test_a_split_without_problems_has_no_file(tmp_path: Path) -> None:
    run(config(2, labels={"splits": {"train": 0.999, "test": 0.001}}), tmp_path)
    assert list(problems_by_split(tmp_path)) == ["train"]
    with pytest.raises(ConfigError, match=r"has no split 'test', only \['train'\]"):
        list(read_split(labels_path(tmp_path), split="test"))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": 0.9, "test": 0.2}, "the shares sum to 1.1, not to 1"),
        ({}, "the shares sum to 0, not to 1"),
        ({"train": 1.0, "test": 0.0}, "labels.splits.test = 0.0: Input should be greater than 0"),
        ({"../x": 1.0}, "String should match pattern"),
        ({"held-out": 1.0}, "String should match pattern"),
        ({"": 1.0}, "String should match pattern"),
        ([0.9, 0.1], "labels.splits = [0.9, 0.1]: Input should be an object"),
    ],
)
def test_splits_that_are_refused(splits: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(labels={"splits": splits})
    assert message in str(caught.value)


def test_a_pointer_that_was_set_back_loses_no_snapshot(tmp_path: Path) -> None:
    run(config(2), tmp_path)
    first = (tmp_path / "manifest.json").read_bytes()
    run(config(3), tmp_path)
    run(config(4), tmp_path)
    kept = {name: all_bytes(tmp_path / "snapshots" / name) for name in list_snapshots(tmp_path)}
    assert list(kept) == ["000001", "000002", "000003"]
    (tmp_path / "manifest.json").write_bytes(first)
    assert run(config(4), tmp_path)["snapshot"] == "000003"  # found again, not made again
    (tmp_path / "manifest.json").write_bytes(first)
    assert run(config(5), tmp_path)["snapshot"] == "000004"
    for name, content in kept.items():
        assert all_bytes(tmp_path / "snapshots" / name) == content
