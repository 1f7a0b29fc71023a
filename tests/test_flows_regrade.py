"""Verdicts of stored rollouts made anew: all or none, without sampling, and what changed."""

import json
import multiprocessing
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.cli import main
from flows.plan import make_plan
from flows.regrade import regrade
from flows.roles import resolve_roles
from flows.stages import generate, regrade_dataset
from grading.pool import GradePool
from grading.verdict import Verdict
from grading.version import grader_version
from labeling.steps import split_steps
from pipeline.errors import ConfigError
from pipeline.records import Prefix, Rollout
from storage.dataset import read_labels, read_manifest
from storage.files import write_parquet
from storage.journal import Journal, grouped_rollouts, live_parts, read_rollouts, rewrite
from storage.lock import dataset_lock
from storage.merge import KEY_COLUMNS, sorted_by_key
from storage.snapshots import list_snapshots
from storage.tables import rollouts_to_table
from tests.regrade_writer import config, regrade_for_ever

NUM_KILLS = 24


def rewrite_rows(out: Path, rows: list[Rollout]) -> None:
    """As if an older grader had graded them so."""
    (part,) = (out / "rollouts").iterdir()
    write_parquet(part, sorted_by_key(rollouts_to_table(rows)), sorted_by=KEY_COLUMNS)


def misgraded(rollout: Rollout) -> Rollout:
    """Every correct verdict of an odd index undecided, every final answer lost."""
    is_odd = rollout.verdict is Verdict.CORRECT and rollout.rollout_index % 2 == 1
    return replace(
        rollout,
        grader_version="1-old-auto",
        verdict=Verdict.UNDECIDED if is_odd else rollout.verdict,
        verdict_reason="timeout",
        final_answer="",
    )


@pytest.mark.parametrize("generator", [None, {"sampling": {"temperature": 0.7}}])
def test_verdicts_become_what_the_present_grader_says(
    tmp_path: Path, generator: dict[str, object] | None
) -> None:
    some = config(problems={"limit": 3}, generator=generator) if generator else config()
    generate(some, tmp_path, on_progress=lambda _: None)
    good, labels = read_rollouts(tmp_path), read_labels(tmp_path)
    bad = [misgraded(rollout) for rollout in good]
    rewrite_rows(tmp_path, bad)
    num_flipped = sum(a.verdict is not b.verdict for a, b in zip(good, bad, strict=True))

    dry = regrade_dataset(tmp_path, dry_run=True)
    assert read_rollouts(tmp_path) == bad
    report = regrade_dataset(tmp_path)
    assert replace(dry, seconds=0.0) == replace(report, seconds=0.0)
    assert read_rollouts(tmp_path) == good
    assert read_labels(tmp_path) == labels
    assert report.num_regraded == len(good)
    assert report.verdict_flips == {"undecided -> correct": num_flipped}
    assert report.num_without_prefix == 0
    assert set(report.label_flips) <= {"none -> true", "false -> true"}
    example = report.verdict_examples[0]
    assert (example.old_reason, example.old_answer) == ("timeout", "")
    assert (example.new_verdict, example.new_answer) == ("correct", example.gold_answer)
    assert regrade_dataset(tmp_path).num_regraded == 0


def test_label_flips_and_first_errors_are_counted(tmp_path: Path) -> None:
    some = config(problems={"limit": 4})
    generate(some, tmp_path, on_progress=lambda _: None)
    good, labels = read_rollouts(tmp_path), read_labels(tmp_path)
    all_wrong = [
        replace(one, verdict=Verdict.INCORRECT, grader_version="1-old-auto") for one in good
    ]
    rewrite_rows(tmp_path, all_wrong)
    report = regrade_dataset(tmp_path)
    num_true = sum(label.hard_label() for one in labels for label in one.labels)
    assert report.label_flips == {"false -> true": num_true}
    assert report.num_first_errors_changed == sum(one.first_error() != 0 for one in labels)
    assert len(report.label_examples) == 20
    example = report.label_examples[0]
    (solution,) = (one for one in labels if one.solution_id == example.solution_id)
    label = solution.labels[example.step_index]
    assert (example.old_label, example.new_label) == (False, True)
    assert example.new_counts == f"{label.num_correct}/{label.num_graded}"
    assert example.step == solution.steps[example.step_index]
    assert json.dumps(report.as_json())


def test_only_what_is_out_of_date_is_graded_and_lost_prefixes_stay(tmp_path: Path) -> None:
    some = config(problems={"limit": 3})
    generate(some, tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    first, second = sorted({one.problem_id for one in good})[:2]
    root = Prefix(second).prefix_id
    rows = [
        misgraded(one) if one.problem_id in (first, second) else replace(one, final_answer="kept")
        for one in good
        if (one.problem_id, one.prefix_id) != (second, root)  # its solutions were lost
    ]
    rewrite_rows(tmp_path, rows)
    report = regrade(some, tmp_path, roles=resolve_roles(some))
    wanted = {one.key: one for one in good if one.problem_id == first}
    assert report.num_regraded == len(wanted)
    assert report.num_without_prefix == sum(one.problem_id == second for one in rows)
    found = read_rollouts(tmp_path)
    assert found == [wanted.get(one.key, one) for one in rows]
    (before,) = live_parts(tmp_path)
    again = regrade(some, tmp_path, roles=resolve_roles(some))
    assert (again.num_regraded, again.num_without_prefix) == (0, report.num_without_prefix)
    assert live_parts(tmp_path) == [before]  # nothing to write: nothing is written


def test_where_only_lost_prefixes_are_out_of_date_an_idle_night_writes_no_rollouts(
    tmp_path: Path,
) -> None:
    some = config(problems={"limit": 3})
    generate(some, tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    lost = replace(good[-1], prefix_id="lost", grader_version="1-old-auto")
    rewrite_rows(tmp_path, [*good, lost])
    written_at = (tmp_path / "rollouts").stat().st_mtime_ns  # of files that came and went as well
    plan = make_plan(some, tmp_path)
    assert (plan.num_to_regrade, plan.does_nothing) == (0, True)
    generate(some, tmp_path, on_progress=lambda _: None)
    assert (tmp_path / "rollouts").stat().st_mtime_ns == written_at
    assert read_manifest(tmp_path)["regraded"] == {
        "rollouts": 0,
        "rollouts_without_prefix": 1,
        "verdict_flips": {},
        "label_flips": {},
        "first_errors_changed": 0,
    }

    rewrite_rows(tmp_path, [misgraded(good[0]), *good[1:], lost])
    plan = make_plan(some, tmp_path)
    assert (plan.num_to_regrade, plan.does_nothing) == (1, False)
    report = regrade(some, tmp_path, roles=resolve_roles(some))
    assert (report.num_regraded, report.num_without_prefix) == (1, 1)


def test_rollouts_of_another_way_to_split_are_graded_with_their_own_prefix(
    tmp_path: Path,
) -> None:
    some = config(problems={"limit": 2})
    generate(some, tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    rewrite_rows(tmp_path, [misgraded(one) for one in good])
    markers = config(problems={"limit": 2}, steps={"method": "marker"})
    report = regrade(markers, tmp_path, roles=resolve_roles(markers))
    assert report.num_regraded == len(good)
    assert read_rollouts(tmp_path) == good


def test_a_rollouts_verdict_is_that_of_its_whole_text(tmp_path: Path) -> None:
    """An answer that stands in the prefix, behind which the model wrote nothing of note."""
    some = config(problems={"limit": 1})
    generate(some, tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    root_id = Prefix(good[0].problem_id).prefix_id
    solution = next(one for one in good if one.prefix_id == root_id)
    steps = split_steps(solution.text, some.steps.method)
    prefix = Prefix(solution.problem_id, steps[:2])
    rollout = replace(solution, prefix_id=prefix.prefix_id, rollout_index=999, text=" So.")
    rewrite_rows(tmp_path, [*good, replace(rollout, grader_version="1-old-auto")])
    regrade(some, tmp_path, roles=resolve_roles(some))
    (found,) = (one for one in read_rollouts(tmp_path) if one.rollout_index == 999)
    with GradePool(some.grading) as pool:
        from flows.selection import selected_problems

        (problem,) = selected_problems(tmp_path)
        grade = pool.grade(problem.gold_answer, prefix.text + " So.")
    assert (found.verdict, found.final_answer) == (grade.verdict, grade.answer)
    assert found.grader_version == grader_version(some.grading)


def test_a_crash_between_the_new_part_and_the_end_of_the_old_shows_no_old_row(
    tmp_path: Path,
) -> None:
    generate(config(problems={"limit": 2}), tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    rewrite_rows(tmp_path, [misgraded(one) for one in good])
    folder = tmp_path / "rollouts"
    old = {part.name: part.read_bytes() for part in folder.iterdir()}
    regrade_dataset(tmp_path)
    for name, content in old.items():
        (folder / name).write_bytes(content)
    assert [name for name, _ in grouped_rollouts(tmp_path)] == sorted(
        {one.problem_id for one in good}
    )
    assert read_rollouts(tmp_path) == good
    with dataset_lock(tmp_path), Journal(tmp_path) as journal:
        journal.append([replace(good[0], rollout_index=777)])
    assert len(read_rollouts(tmp_path)) == len(good) + 1
    assert regrade_dataset(tmp_path).num_regraded == 0
    assert {part.name for part in folder.iterdir()}.isdisjoint(old)
    assert rewrite(tmp_path, lambda _: None) is False


def killed_while_regrading(out: Path, wait: float) -> str:
    """What a child said last that was killed `wait` seconds after it had begun to regrade."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.regrade_writer"])
    listening, said = context.Pipe(duplex=False)
    child = context.Process(target=regrade_for_ever, args=(out, said))
    child.start()
    said.close()
    try:
        heard = [listening.recv()]
        time.sleep(wait)
    finally:
        child.kill()
        child.join()
    try:
        while True:
            heard.append(listening.recv())
    except EOFError:
        listening.close()
    return heard[-1].split()[0]


def test_a_kill_leaves_all_verdicts_as_they_were_or_all_anew(tmp_path: Path) -> None:
    generate(config(), tmp_path, on_progress=lambda _: None)
    good = read_rollouts(tmp_path)
    versions = {profile: grader_version(config(grading={"profile": profile}).grading)
                for profile in ("auto", "gsm8k")}  # fmt: skip
    rng, hits, states = random.Random(5), Counter[str](), Counter[str]()
    while hits["begun"] < NUM_KILLS and hits.total() < 3 * NUM_KILLS:
        hits[killed_while_regrading(tmp_path, rng.uniform(0.0, 0.15))] += 1
        found = read_rollouts(tmp_path)
        (version,) = {one.grader_version for one in found}
        assert version in versions.values()
        states[version] += 1
        usual = [replace(one, grader_version=versions["auto"]) for one in found]
        assert usual == good
    assert hits["begun"] >= NUM_KILLS
    assert len(states) == 2
    report = regrade_dataset(tmp_path)  # goes on
    assert report.num_regraded in (0, len(good))
    assert read_rollouts(tmp_path) == good
    assert not list((tmp_path / "rollouts").glob(".*"))
    assert sum(pq.read_metadata(one).num_rows for one in live_parts(tmp_path)) == len(good)


def test_the_command_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "out", tmp_path / "report.json"
    generate(config(problems={"limit": 2}), out, on_progress=lambda _: None)
    good = read_rollouts(out)
    rewrite_rows(out, [misgraded(one) for one in good])
    for command, code in (
        (["regrade", str(out), "--dry-run"], 0),
        (["regrade", str(out), "--json", str(table)], 0),
        (["regrade", str(out)], 0),
        (["regrade", str(tmp_path / "none")], 2),
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == code
    captured = capsys.readouterr()
    assert "Would be regraded" in captured.out
    assert "undecided (timeout) -> correct" in captured.out
    assert "nothing to regrade" in captured.out
    assert json.loads(table.read_text())["rollouts"] == len(good)
    assert read_rollouts(out) == good
    regraded = read_manifest(out)["regraded"]
    assert isinstance(regraded, dict)
    assert regraded["rollouts"] == len(good)
    assert list_snapshots(out) == ["000001"]  # the labels are what they were


def test_candidates_are_not_regraded_as_labels(tmp_path: Path) -> None:
    from flows.evaluation import sample_candidates

    sample_candidates(config(), tmp_path, on_progress=lambda _: None)
    with pytest.raises(ConfigError, match="holds candidates, not labels"):
        regrade_dataset(tmp_path)


def test_stored_candidates_get_the_present_verdicts(tmp_path: Path) -> None:
    from flows.evaluation import sample_candidates

    some = config(evaluate={"problems": {"limit": 3, "split": "test"}, "ns": [2]})
    good = sample_candidates(some, tmp_path, on_progress=lambda _: None)
    rows = read_rollouts(tmp_path)
    rewrite_rows(
        tmp_path,
        [replace(one, verdict=Verdict.UNDECIDED, grader_version="1-old-auto") for one in rows],
    )
    assert sample_candidates(some, tmp_path, on_progress=lambda _: None) == good
    assert read_rollouts(tmp_path) == rows
