"""Night after night on one dataset: only what a change asks for is sampled or graded."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.ledger import MAX_RUNS, CostLedger
from flows.plan import make_plan
from flows.run_config import RunConfig
from grading.verdict import Verdict
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError
from pipeline.records import LabeledSolution, Rollout
from storage.dataset import read_labels
from storage.journal import read_rollouts
from storage.lock import dataset_lock
from storage.problem_table import read_problems
from storage.snapshots import list_snapshots
from tests.scripted_flow import config, run


class Source:
    """A file of demo problems, of which some are reworded or have another gold answer."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: dict[str, dict[str, str]] = {}

    def add(self, *indices: int) -> None:
        for index in indices:
            made = demo_problem("train", index)
            self.rows[made.problem_id] = {"question": made.question, "answer": made.gold_answer}
        self.write()

    def write(self) -> None:
        rows = ({"id": name, **row} for name, row in self.rows.items())
        self.file.write_text("\n".join(map(json.dumps, rows)))

    @property
    def section(self) -> dict[str, str]:
        return {"source": str(self.file), "id_column": "id"}


def problem_id(index: int) -> str:
    return f"demo-train-{index:06d}"


def by_key(out: Path) -> dict[object, Rollout]:
    return {rollout.key: rollout for rollout in read_rollouts(out)}


def by_problem(out: Path) -> dict[str, list[LabeledSolution]]:
    found: dict[str, list[LabeledSolution]] = {}
    for solution in read_labels(out):
        found.setdefault(solution.problem.problem_id, []).append(solution)
    return found


def widest(out: Path) -> float:
    intervals = [label.interval for one in read_labels(out) for label in one.labels[:-1]]
    return max(high - low for low, high in intervals)


def test_five_nights(tmp_path: Path) -> None:
    source, out = Source(tmp_path / "problems.jsonl"), tmp_path / "out"
    source.add(*range(6))
    tonight: Callable[..., RunConfig] = lambda **more: config(problems=source.section, **more)  # noqa: E731

    # night 1: all is new
    first = run(tonight(), out)
    stored, labels = by_key(out), by_problem(out)
    assert set(labels) == {problem_id(index) for index in range(6)}
    assert first["regraded"] is None
    assert list_snapshots(out) == ["000001"]

    # night 2: two new problems, a reworded question, another gold answer, one problem gone
    source.add(6, 7)
    source.rows[problem_id(1)]["question"] += " Show your work."
    source.rows[problem_id(2)]["answer"] += "7"
    del source.rows[problem_id(3)]
    source.write()
    plan = make_plan(tonight(), out)
    second = run(tonight(), out)
    last = second["cost"]["last_run"]
    (reworded,) = set(by_problem(out)) - {problem_id(index) for index in range(8)}
    assert reworded.startswith(f"{problem_id(1)}~")
    assert set(by_problem(out)) == {problem_id(index) for index in (0, 2, 4, 5, 6, 7)} | {reworded}
    assert by_problem(out)[problem_id(0)] == labels[problem_id(0)]
    drawn = {key: one for key, one in by_key(out).items() if key not in stored}
    assert {one.problem_id for one in drawn.values()} <= {
        problem_id(2), problem_id(6), problem_id(7), reworded,
    }  # fmt: skip
    assert last["rollouts"] == len(drawn) < len(stored)
    assert last["generated_tokens"] == sum(one.num_tokens for one in drawn.values())
    of_changed_gold = [one for one in stored.values() if one.problem_id == problem_id(2)]
    assert second["regraded"]["rollouts"] == len(of_changed_gold) == plan.num_to_regrade
    assert set(second["regraded"]["verdict_flips"]) == {"correct -> incorrect"}
    assert set(second["regraded"]["label_flips"]) == {"true -> false"}
    assert {one.verdict for one in by_problem(out)[problem_id(2)]} == {Verdict.INCORRECT}
    assert len({one.grader_version for one in read_rollouts(out)}) == 2
    now = {problem.problem_id: problem for problem in read_problems(out)}
    assert now[problem_id(2)].gold_answer == source.rows[problem_id(2)]["answer"]
    assert (len(now), now[problem_id(1)].question) == (9, demo_problem("train", 1).question)
    assert list_snapshots(out) == ["000001", "000002"]
    assert (plan.new, plan.changed_gold) == (
        (reworded, problem_id(6), problem_id(7)),
        (problem_id(2),),
    )
    assert dict(plan.changed_question) == {problem_id(1): reworded}
    assert set(plan.no_longer_selected) == {problem_id(1), problem_id(3)}
    assert (plan.num_unchanged, plan.num_unfinished, plan.relabels) == (3, 3, False)
    assert plan.sampling is not None
    assert last["rollouts"] / 2 < plan.sampling.num_rollouts < last["rollouts"] * 2
    assert last["generated_tokens"] / 2 < plan.sampling.num_tokens < last["generated_tokens"] * 2

    # night 3: another grader; nothing is sampled
    before, labels = by_key(out), by_problem(out)
    other_grader = {"grading": {"profile": "gsm8k"}}
    selected = [one for one in before.values() if one.sampling_digest == first["sampling_digest"]]
    assert make_plan(tonight(**other_grader), out).num_to_regrade == len(selected)
    third = run(tonight(**other_grader), out)
    assert third["cost"]["last_run"]["generated_tokens"] == 0
    assert third["regraded"]["rollouts"] == len(selected) == len(before)
    assert third["regraded"]["rollouts_without_prefix"] == 0
    assert by_key(out).keys() == before.keys()
    assert all("-gsm8k" in one.grader_version for one in read_rollouts(out))
    assert by_problem(out) == labels  # both profiles read the demo's answers alike
    tonight_and_on: Callable[..., RunConfig] = lambda **more: tonight(**other_grader, **more)  # noqa: E731

    # night 4: what is left of the night goes to the widest intervals
    few = {"top_up_tokens": 400}
    was_widest, num_before = widest(out), len(before)
    fourth = run(tonight_and_on(refresh=few), out)
    last = fourth["cost"]["last_run"]
    assert 400 <= last["top_up_tokens"] == last["generated_tokens"] < 4_000
    assert last["top_up_rollouts"] == last["rollouts"] == len(by_key(out)) - num_before > 0
    assert fourth["regraded"] is None
    # and what the policy had stopped short of counts, too
    assert fourth["counts"]["rollouts"] >= third["counts"]["rollouts"] + last["rollouts"]
    plenty = {"top_up_tokens": 10_000_000}
    run(tonight_and_on(refresh=plenty), out)
    assert widest(out) < was_widest
    nodes = [label for one in read_labels(out) for label in one.labels[:-1]]
    assert all(
        label.num_rollouts >= 64 or label.interval[1] - label.interval[0] <= 0.3 for label in nodes
    )

    # night 6: nothing new
    snapshots, stored = list_snapshots(out), by_key(out)
    plan = make_plan(tonight_and_on(refresh=plenty), out)
    assert plan.does_nothing
    parts = sorted(file.name for file in (out / "rollouts").iterdir())
    run(tonight_and_on(refresh=plenty), out)
    assert CostLedger(out).last_run.generated_tokens == 0
    assert list_snapshots(out) == snapshots
    assert by_key(out) == stored
    assert sorted(file.name for file in (out / "rollouts").iterdir()) == parts
    assert not (out / "engine").exists()

    nights = CostLedger(out).runs
    assert [one.generated_tokens > 0 for one in nights] == [True, True, False, True, True, False]
    assert [one.regraded is not None for one in nights] == [False, True, True, False, False, False]
    assert sum(one.rollouts for one in nights) == len(stored)
    # without a top-up in the config its rollouts count no more
    run(tonight_and_on(), out)
    assert by_problem(out) == labels


@pytest.mark.parametrize(
    ("policy", "generator"), [("adaptive", {"sampling": {"temperature": 0.7}}), ("fixed", None)]
)
def test_a_top_up_goes_on_night_after_night(
    tmp_path: Path, policy: str, generator: dict[str, object] | None
) -> None:
    little = config(
        problems={"limit": 2},
        allocation={"policy": policy, "num_rollouts": 12},
        refresh={"top_up_tokens": 600},
        **({"generator": generator} if generator else {}),
    )
    num_nights = 0
    while num_nights == 0 or CostLedger(tmp_path).last_run.rollouts:
        run(little, tmp_path)
        num_nights += 1
    assert num_nights >= 3
    assert widest(tmp_path) < widest_without_top_up(tmp_path, little)
    assert all(
        label.interval[1] - label.interval[0] <= 0.3 or label.num_rollouts >= 64
        for solution in read_labels(tmp_path)
        for label in solution.labels[:-1]
    )
    assert make_plan(little, tmp_path).does_nothing


def widest_without_top_up(out: Path, topped_up: RunConfig) -> float:
    from flows.stages import labeled_solutions

    without = topped_up.model_copy(update={"refresh": config().refresh})
    intervals = [
        label.interval for one in labeled_solutions(without, out) for label in one.labels[:-1]
    ]
    return max(high - low for low, high in intervals)


def test_a_top_up_ends_with_the_runs_own_budget(tmp_path: Path) -> None:
    whole = run(config(problems={"limit": 3}), tmp_path)
    budget = {"rollouts": 7}
    limited = config(
        problems={"limit": 3}, allocation={"budget": budget}, refresh={"top_up_minutes": 60}
    )
    manifest = run(limited, tmp_path)
    assert manifest["counts"]["rollouts"] == whole["counts"]["rollouts"] + 7
    assert CostLedger(tmp_path).last_run.top_up_rollouts == 7
    # a run that is cut short tops nothing up
    cut_short = config(
        problems={"limit": 5}, allocation={"budget": budget}, refresh={"top_up_minutes": 60}
    )
    run(cut_short, tmp_path)
    assert (
        CostLedger(tmp_path).last_run.rollouts,
        CostLedger(tmp_path).last_run.top_up_rollouts,
    ) == (7, 0)


@pytest.mark.parametrize("policy", ["first-success", "first-error", "uncertain-first"])
def test_a_top_up_that_says_nothing_is_refused(policy: str) -> None:
    allocation = {"policy": policy, "budget": {"rollouts": 10}}
    message = f"a top-up needs allocation.policy = 'adaptive' or 'fixed', and it is '{policy}'"
    with pytest.raises(ConfigError, match=message):
        config(allocation=allocation, refresh={"top_up_tokens": 5})
    assert not config(allocation=allocation).refresh.tops_up


def test_a_changed_model_or_setting_relabels_beside_the_old(tmp_path: Path) -> None:
    two = config(problems={"limit": 2}, generator={"sampling": {"temperature": 0.7}})
    first = run(two, tmp_path)
    labels, stored = read_labels(tmp_path), by_key(tmp_path)
    other = config(problems={"limit": 2}, generator={"sampling": {"temperature": 0.6}})
    plan = make_plan(other, tmp_path)
    assert plan.relabels
    assert [change.key for change in plan.config_changes] == ["generator.sampling.temperature"]
    assert (plan.num_unfinished, plan.num_to_regrade) == (2, 0)
    second = run(other, tmp_path)
    assert second["generator_digest"] != first["generator_digest"]
    assert second["sampling_digest"] == first["sampling_digest"]
    assert stored.items() <= by_key(tmp_path).items()
    run(two, tmp_path)
    assert read_labels(tmp_path) == labels
    # the completer's model: the generator's solutions stay
    third = config(
        problems={"limit": 2},
        sampling={"temperature": 0.9},
        generator={"sampling": {"temperature": 0.7}},
    )
    manifest = run(third, tmp_path)
    assert manifest["generator_digest"] == first["generator_digest"]
    assert manifest["cost"]["last_run"]["rollouts"] == manifest["cost"]["prefixes"]["rollouts"]


def test_a_plan_of_a_new_folder_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = make_plan(config(), out)
    assert not out.exists()
    assert (len(plan.new), plan.num_unfinished, plan.sampling, plan.relabels) == (8, 8, None, False)
    assert not plan.does_nothing
    run(config(problems={"limit": 4}), out)
    limited = config(allocation={"budget": {"tokens": 50}})
    bounded = make_plan(limited, out).sampling
    assert bounded is not None
    assert (bounded.num_tokens, bounded.is_bounded, bounded.is_own) == (50, True, True)
    foreign = make_plan(config(seed=5), out)
    assert foreign.sampling is not None
    assert (foreign.relabels, foreign.sampling.is_own, foreign.num_unfinished) == (True, False, 8)
    same = config(problems={"limit": 4}, allocation={"budget": {"tokens": 50}})
    assert [change.key for change in make_plan(same, out).config_changes] == [
        "allocation.budget.tokens"
    ]
    assert make_plan(same, out).does_nothing
    other_labels = config(problems={"limit": 4}, labels={"hard_threshold": 0.5})
    assert not make_plan(other_labels, out).does_nothing
    unfinished = config(problems={"limit": 4}, allocation={"min_rollouts": 20})
    assert make_plan(unfinished, out).num_unfinished == 4


def test_the_ledger_keeps_the_latest_runs(tmp_path: Path) -> None:
    ledger = CostLedger(tmp_path)
    for number in range(MAX_RUNS + 3):
        ledger.begin_run()
        ledger.last_run.rollouts = number
    ledger.write()
    runs = CostLedger(tmp_path).runs
    assert [one.rollouts for one in runs] == list(range(3, MAX_RUNS + 3))


def test_the_plan_command_says_what_a_run_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    file, out, found = tmp_path / "run.toml", tmp_path / "out", tmp_path / "plan.json"
    file.write_text(
        '[problems]\nlimit = 3\n[engine]\nkind = "scripted"\n[steps]\nmethod = "newline"\n'
    )

    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["plan", "--config", str(file), "--out", str(out), *arguments])
        assert ended.value.code == 0
        return " ".join(capsys.readouterr().out.split())

    assert "unknown: nothing was sampled here before" in said()
    assert not out.exists()
    run(config(problems={"limit": 3}), out)
    with dataset_lock(out):
        assert f"Another run may be at work: process {os.getpid()} on " in said()
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    assert "Nothing to do" in said()
    text = said("--set", "problems.limit=5", "--set", "grading.profile=math", "--json", str(found))
    assert "Nothing to do" not in text
    assert "grading.profile │ auto -> math" in text
    plan = json.loads(found.read_text())
    assert plan["num_to_regrade"] == len(read_rollouts(out))
    assert (len(plan["new"]), plan["num_unchanged"], plan["does_nothing"]) == (2, 3, False)
    assert plan["sampling"]["num_rollouts"] == round(2 * len(read_rollouts(out)) / 3)
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
