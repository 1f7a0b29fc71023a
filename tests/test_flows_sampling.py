"""Two models in turn, budgets and the cost ledger, on whole scripted runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cost_display import cost_figures, notes
from flows.ledger import CostLedger
from flows.roles import resolve_roles
from flows.sampling import sample_rollouts
from flows.stages import begin_run, generate, prepare_problems
from labeling.steps import split_steps
from pipeline.errors import ConfigError, DataError
from pipeline.records import Prefix, Rollout
from storage.dataset import read_labels
from storage.journal import read_rollouts
from storage.lock import dataset_lock
from tests.interrupts import interrupt_at
from tests.scripted_flow import config, run

LABELS = "labels/train-00000-of-00001.parquet"
OTHER_MODEL = {"sampling": {"temperature": 0.7}}
"""To the scripted engine another sampling config is another model: it draws others."""


def by_digest(out: Path) -> dict[str, list[Rollout]]:
    found: dict[str, list[Rollout]] = {}
    for rollout in read_rollouts(out):
        found.setdefault(rollout.sampling_digest, []).append(rollout)
    return found


def is_root(rollout: Rollout) -> bool:
    return rollout.prefix_id == Prefix(rollout.problem_id).prefix_id


def test_the_generator_writes_and_the_completer_rolls_out(tmp_path: Path) -> None:
    two = config(generator=OTHER_MODEL)
    manifest = run(two, tmp_path / "two")
    alone = run(config(**OTHER_MODEL), tmp_path / "alone")
    theirs = by_digest(tmp_path / "two")[manifest["generator_digest"]]
    own = by_digest(tmp_path / "two")[manifest["sampling_digest"]]
    assert manifest["generator_digest"] == alone["sampling_digest"]
    assert len(theirs) == 32
    assert all(map(is_root, theirs))
    assert not any(map(is_root, own))
    written = {one.key: one.text for one in read_rollouts(tmp_path / "alone") if is_root(one)}
    assert {one.key: one.text for one in theirs} == written
    labels = read_labels(tmp_path / "two")
    assert {one.solution_id.split("/")[1] for one in labels} == {manifest["generator_digest"]}
    assert [one.steps for one in labels] == [
        split_steps(one.text, two.steps.method) for one in theirs
    ]
    # what the generator wrote after a prefix is no rollout of it
    in_sum = sum(label.num_rollouts - label.num_reused for label in first_of_each_prefix(labels))
    assert in_sum <= len(own)
    assert manifest["cost"]["solutions"]["rollouts"] == 32
    assert manifest["cost"]["prefixes"]["rollouts"] == len(own)
    assert manifest["counts"]["rollouts"] == len(own) + 32


def first_of_each_prefix(labels: list[Any]) -> list[Any]:
    found: dict[object, Any] = {}
    for solution in labels:
        for index, label in enumerate(solution.labels[:-1], start=1):
            found.setdefault((solution.problem.problem_id, solution.steps[:index]), label)
    return list(found.values())


def test_no_rollout_of_the_generator_counts_for_the_completer(tmp_path: Path) -> None:
    textbook = {"policy": "fixed", "reuse": True, "num_rollouts": 16}
    run(config(generator=OTHER_MODEL, allocation=textbook), tmp_path)
    at_depth_1 = [solution.labels[0] for solution in read_labels(tmp_path)]
    assert {(label.num_rollouts, label.num_reused) for label in at_depth_1} == {(16, 0)}


def test_a_generator_with_the_completers_settings_is_the_completer(tmp_path: Path) -> None:
    run(config(), tmp_path / "one")
    run(config(generator={}), tmp_path / "same")
    one, same = (tmp_path / name / LABELS for name in ("one", "same"))
    assert one.read_bytes() == same.read_bytes()
    assert resolve_roles(config(generator={})).generator is None


@pytest.mark.parametrize("limit", [1, 20, 32, 33, 200])
def test_two_models_stopped_in_either_phase_go_on(tmp_path: Path, limit: int) -> None:
    two = config(generator=OTHER_MODEL)
    run(two, tmp_path / "whole")

    with pytest.raises(KeyboardInterrupt):
        generate(two, tmp_path / "out", on_progress=interrupt_at(limit))
    run(two, tmp_path / "out")
    whole, out = (tmp_path / name / LABELS for name in ("whole", "out"))
    assert out.read_bytes() == whole.read_bytes()
    keys = [one.key for one in read_rollouts(tmp_path / "out")]
    assert keys == [one.key for one in read_rollouts(tmp_path / "whole")]


def test_bad_keys_of_the_generator_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key generator\.model\.nam; did you mean name"):
        config(generator={"model": {"nam": "x"}})
    with pytest.raises(ConfigError, match=r"unknown key generator\.sampling\.top; did you mean"):
        config(generator={"sampling": {"top": 1}})


def test_a_budget_ends_the_run_with_labels_and_the_next_run_goes_on(tmp_path: Path) -> None:
    textbook = {"reuse": False}
    whole = run(config(allocation=textbook), tmp_path / "whole")
    assert notes(whole) == []
    little = config(allocation={**textbook, "budget": {"rollouts": 300}})
    manifest = run(little, tmp_path / "out")
    counts = manifest["counts"]
    assert manifest["cost"]["last_run"]["budget_met"]
    assert counts["rollouts"] == 300 == len(read_rollouts(tmp_path / "out"))
    assert 0 < counts["problems_unfinished"] <= counts["problems"] == 8
    assert counts["labeled_solutions"] == len(read_labels(tmp_path / "out"))
    # problem by problem as there is room: some are finished rather than all begun
    assert 4 * (8 - counts["problems_unfinished"]) <= counts["labeled_solutions"] < 32
    assert counts["steps_without_label"] > 0
    budget, unlabelled = notes(manifest)
    assert budget.startswith("The budget was met: 300 rollouts and ")
    assert f"{counts['problems_unfinished']} of 8 problems are short" in budget
    assert unlabelled.startswith(f"{counts['steps_without_label']} of {counts['labeled_steps']} ")
    num_runs = 1
    while manifest["cost"]["last_run"]["budget_met"]:
        manifest = run(little, tmp_path / "out")
        num_runs += 1
    total = whole["counts"]["rollouts"]
    assert num_runs == -(-total // 300)
    assert manifest["counts"]["problems_unfinished"] == 0
    spent = [manifest["cost"][stage]["rollouts"] for stage in ("solutions", "prefixes")]
    assert sum(spent) == total == manifest["counts"]["rollouts"]
    assert (tmp_path / "out" / LABELS).read_bytes() == (tmp_path / "whole" / LABELS).read_bytes()


def test_an_attempt_after_a_failed_one_has_what_is_left_of_the_budget(tmp_path: Path) -> None:
    """As Prefect's retries of a task: one run, one budget."""
    limited = config(allocation={"budget": {"rollouts": 100}})
    with dataset_lock(tmp_path):
        prepare_problems(limited, tmp_path)
        begin_run(limited, tmp_path)
        with pytest.raises(KeyboardInterrupt):
            sample_rollouts(limited, tmp_path, on_progress=interrupt_at(60), begins_run=False)
        num_drawn = len(read_rollouts(tmp_path))
        assert 60 <= num_drawn < 100
        sample_rollouts(limited, tmp_path, on_progress=lambda _: None, begins_run=False)
    assert len(read_rollouts(tmp_path)) == 100 == CostLedger(tmp_path).last_run.rollouts


def test_the_cost_of_a_label_is_that_of_the_rollouts_that_it_counts(tmp_path: Path) -> None:
    textbook = {"policy": "fixed", "reuse": False}
    many = config(allocation={**textbook, "num_rollouts": 24, "solutions_per_problem": 5})
    few = config(allocation={**textbook, "num_rollouts": 8, "solutions_per_problem": 2})
    run(many, tmp_path / "used")
    used, fresh = run(few, tmp_path / "used"), run(few, tmp_path / "fresh")
    assert used["counts"] == fresh["counts"]
    assert used["cost"]["tokens_per_label"] == fresh["cost"]["tokens_per_label"]


def test_a_budget_of_tokens_or_minutes_ends_cleanly(tmp_path: Path) -> None:
    tokens = run(config(allocation={"budget": {"tokens": 500}}), tmp_path)
    minutes = run(config(allocation={"budget": {"minutes": 1e-9}}), tmp_path)
    for manifest in (tokens, minutes):
        assert manifest["cost"]["last_run"]["budget_met"]
        assert manifest["counts"]["problems_unfinished"] > 0
    assert tokens["cost"]["last_run"]["generated_tokens"] >= 500
    assert minutes["cost"]["last_run"]["rollouts"] == 0
    with pytest.raises(DataError, match="the budget was met before a solution was finished"):
        run(config(allocation={"budget": {"minutes": 1e-9}}), tmp_path / "empty")


def test_a_budget_that_one_phase_meets_starts_no_other(tmp_path: Path) -> None:
    two = config(generator=OTHER_MODEL, allocation={"budget": {"rollouts": 10}})
    manifest = run(two, tmp_path)
    assert manifest["counts"]["rollouts"] == 10
    assert manifest["cost"]["prefixes"]["requests"] == 0
    assert manifest["counts"]["solutions_without_steps"] == 0


def test_uncertain_first_spends_its_budget_run_by_run(tmp_path: Path) -> None:
    def widths() -> list[float]:
        labels = [one for solution in read_labels(tmp_path) for one in solution.labels[:-1]]
        return sorted(high - low for low, high in (one.interval for one in labels))

    greedy = config(
        problems={"limit": 3},
        allocation={"policy": "uncertain-first", "budget": {"rollouts": 100}},
    )
    widest: list[float] = []
    for is_met in (True, True, True, False):
        manifest = run(greedy, tmp_path)
        last = manifest["cost"]["last_run"]
        assert last["budget_met"] == is_met == (last["rollouts"] == 100)
        assert is_met == (manifest["counts"]["problems_unfinished"] > 0)
        widest.append(widths()[-1])
    assert widest == sorted(widest, reverse=True)
    assert widest[-1] <= greedy.allocation.max_interval_width < widest[-2]
    assert run(greedy, tmp_path)["cost"]["last_run"]["rollouts"] == 0


def test_first_error_leaves_steps_without_label_and_says_so(tmp_path: Path) -> None:
    manifest = run(config(allocation={"policy": "first-error", "reuse": False}), tmp_path)
    counts = manifest["counts"]
    labels = [label for solution in read_labels(tmp_path) for label in solution.labels]
    assert counts["steps_without_label"] == sum(not label.num_graded for label in labels) > 0
    assert not manifest["cost"]["last_run"]["budget_met"]
    (note,) = notes(manifest)
    assert "have no graded rollout and so no label" in note


def test_the_ledger_adds_up_over_runs_and_models(tmp_path: Path) -> None:
    small = run(config(problems={"limit": 3}), tmp_path)
    whole = run(config(), tmp_path)
    stored = read_rollouts(tmp_path)
    cost, before = whole["cost"], small["cost"]
    for stage, rows in (
        ("solutions", [one for one in stored if is_root(one)]),
        ("prefixes", [one for one in stored if not is_root(one)]),
    ):
        assert cost[stage]["rollouts"] == len(rows) > before[stage]["rollouts"] > 0
        assert cost[stage]["generated_tokens"] == sum(one.num_tokens for one in rows)
        assert 0 < before[stage]["requests"] < cost[stage]["requests"] < len(rows)
        assert cost[stage]["cached_prompt_tokens"] is None
    assert cost["last_run"]["rollouts"] == len(stored) - small["counts"]["rollouts"]
    tokens = sum(one.num_tokens for one in stored)
    steps = whole["counts"]["labeled_steps"]
    assert cost["tokens_per_label"] == pytest.approx(tokens / steps, abs=0.01)
    assert cost_figures(whole)["this run"].startswith(f"{cost['last_run']['rollouts']:,} rollouts")
    run(config(seed=1), tmp_path)
    again = run(config(), tmp_path)["cost"]
    assert again["last_run"]["rollouts"] == 0
    assert again["solutions"] == cost["solutions"]  # another seed's cost is apart


def test_a_stopped_run_has_its_cost_in_the_ledger(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        generate(config(), tmp_path, on_progress=interrupt_at(200))
    assert CostLedger(tmp_path).last_run.rollouts == len(read_rollouts(tmp_path)) >= 200
    whole = run(config(), tmp_path)
    spent = [whole["cost"][stage]["rollouts"] for stage in ("solutions", "prefixes")]
    assert sum(spent) == whole["counts"]["rollouts"]


@pytest.mark.parametrize("content", ["{", "[]", '{"stages": {"d": {"x": {}}}, "runs": []}'])
def test_a_damaged_ledger_is_named(tmp_path: Path, content: str) -> None:
    run(config(problems={"limit": 1}), tmp_path)
    assert json.loads((tmp_path / "cost.json").read_text())["stages"]
    (tmp_path / "cost.json").write_text(content)
    with pytest.raises(DataError, match=r"cost\.json cannot be read .* delete it"):
        run(config(problems={"limit": 1}), tmp_path)
    (tmp_path / "cost.json").unlink()
    assert run(config(problems={"limit": 1}), tmp_path)["cost"]["solutions"]["rollouts"] == 0
