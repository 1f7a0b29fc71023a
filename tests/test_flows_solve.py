"""`stepmark solve`: one question, a file of them, killed and continued, and its display."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flows.cli import app
from flows.run_config import RunConfig, load_config
from flows.solve import Prm, solve_file, solve_question
from flows.solve_display import answer_sentence, search_tree, solutions_panel
from flows.solved_rows import SolvedFile, read_questions, result_as_json
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, DataError, DatasetLockedError
from search.config import SearchMethod
from search.demo_scorer import demo_oracle
from search.scoring import Aggregation
from search.solver import SearchResult, Solution, StopReason
from search.tree import Node, NodeState

MADE = [demo_problem("test", index) for index in range(6)]
PRM = Prm(demo_oracle({one.question: one for one in MADE}), "oracle", Aggregation.MIN)
HOSTILE = "\x1b]0;owned\x07[red]step[/red]\u202e"


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return load_config(write_config(tmp_path), ["search.method=beam"])


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [
        {"problem_id": one.problem_id, "question": one.question, "gold_answer": one.gold_answer}
        for one in MADE
    ]
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_config(folder: Path) -> Path:
    path = folder / "solve.toml"
    path.write_text(
        '[engine]\nkind = "scripted"\n[steps]\nmethod = "newline"\n[grading]\nprofile = "gsm8k"\n',
        encoding="utf-8",
    )
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def solve(config: RunConfig, questions: Path, out: Path, prm: Prm = PRM) -> Any:
    seen: list[tuple[int, int]] = []
    summary = solve_file(
        config, questions, out, prm=prm, on_progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (summary.num_questions, len(MADE))
    return summary


def test_a_file_is_solved_and_graded(config: RunConfig, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "solved.jsonl"
    summary = solve(config, questions, out)
    rows = {row["problem_id"]: row for row in rows_of(out)}
    assert summary.num_correct == summary.num_graded == 6
    assert summary.num_tokens == sum(row["num_tokens"] for row in rows.values()) > 0
    for one in MADE:
        row = rows[one.problem_id]
        assert (row["answer"], row["verdict"]) == (one.gold_answer, "correct")
        best = row["solutions"][0]
        assert "".join(best["steps"]) == best["text"]
        assert best["step_scores"] == [1.0] * len(best["steps"])


def test_a_half_written_run_goes_on(config: RunConfig, questions: Path, tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    solve(config, questions, whole)
    content = whole.read_bytes()
    lines = content.splitlines(keepends=True)
    torn.write_bytes(b"".join(lines[:2]) + lines[2][:37])
    summary = solve(config, questions, torn)
    assert (summary.num_kept, summary.num_questions) == (2, 6)
    assert sorted(torn.read_bytes().splitlines()) == sorted(content.splitlines())
    again = solve(config, questions, torn)  # nothing is left to do: no engine, no new row
    assert (again.num_kept, again.num_correct) == (6, 6)
    assert len(rows_of(torn)) == 6


def test_a_killed_process_goes_on(questions: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "killed.jsonl", write_config(tmp_path)
    code = (
        "import os, sys; from pathlib import Path; from flows import solve;"
        "from flows.run_config import load_config; from tests.test_flows_solve import PRM;"
        "append = solve.SolvedFile.append\n"
        "def dying(self, row):\n"
        "    append(self, row)\n"
        "    if len(self.rows()) == 3: os._exit(9)\n"
        "solve.SolvedFile.append = dying\n"
        "config = load_config(sys.argv[1], ['search.method=beam'])\n"
        "solve.solve_file(config, Path(sys.argv[2]), Path(sys.argv[3]), prm=PRM,"
        " on_progress=lambda done, total: None)\n"
    )
    command = [sys.executable, "-c", code, str(config), str(questions), str(out)]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    assert len(rows_of(out)) == 3
    whole = tmp_path / "whole.jsonl"
    solve(load_config(config, ["search.method=beam"]), questions, whole)
    summary = solve(load_config(config, ["search.method=beam"]), questions, out)
    assert summary.num_kept == 3
    assert sorted(out.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())


def test_rows_of_other_settings_are_refused(
    config: RunConfig, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "solved.jsonl"
    solve(config, questions, out)
    before = out.read_bytes()
    other = load_config(tmp_path / "solve.toml", ["search.method=dvts"])
    with pytest.raises(ConfigError, match="another input, PRM, model or"):
        solve(other, questions, out)
    with pytest.raises(ConfigError, match="another input, PRM, model or"):
        solve(config, questions, out, Prm(PRM.scorer, "another PRM", Aggregation.MIN))
    with pytest.raises(ConfigError, match="is the input"):
        solve(config, questions, questions)
    assert out.read_bytes() == before


def test_a_file_that_is_none_of_ours_is_refused(
    config: RunConfig, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "notes.jsonl"
    out.write_text('{"note": 1}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"notes\.jsonl row 1 is no row of"):
        solve(config, questions, out)
    assert out.read_text(encoding="utf-8") == '{"note": 1}\n'


def test_two_runs_never_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "solved.jsonl"
    with (
        SolvedFile.open(out),
        pytest.raises(DatasetLockedError, match="another run"),
        SolvedFile.open(out),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"question": "a"}\nnot json\n', r"row 2 is no JSON"),
        ("[1]\n", r"row 1 is no object"),
        ('{"question": " "}\n', r"row 1 is empty"),
        ('{"gold_answer": "1"}\n', r"row 1: question = 'None' is no text"),
        ('{"question": "a", "gold_answer": [1]}\n', r"row 1: gold_answer = '\[1\]' is no text"),
        ('{"question": "a", "problem_id": 2}\n\n{"question": "b", "problem_id": "2"}\n', "row 3"),
        ("\n", "has no rows"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_questions(path)


def test_a_number_is_taken_as_gold_answer(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text('{"question": " a ", "gold_answer": 12}', encoding="utf-8")
    (problem,) = read_questions(path)
    assert (problem.problem_id, problem.question, problem.gold_answer) == ("1", "a", "12")


def test_a_scripted_engine_knows_only_demo_problems(config: RunConfig) -> None:
    with pytest.raises(ConfigError, match="knows demo problems only"):
        solve_question(config, "What is 1+1?", prm=PRM)


def test_a_budget_that_pays_for_no_solution_is_an_error(tmp_path: Path) -> None:
    config = load_config("configs/demo.toml", ["search.tokens=3", "search.method=beam"])
    with pytest.raises(ConfigError, match=r"search\.tokens = 3 was spent before any solution"):
        solve_question(config, MADE[0].question, prm=PRM)


def test_one_question_by_the_demo_model(tmp_path: Path) -> None:
    config = load_config("configs/demo.toml", ["search.method=dvts"])
    first, again = (solve_question(config, MADE[0].question, prm=PRM) for _ in range(2))
    assert result_as_json(first, with_tree=True) == result_as_json(again, with_tree=True)
    assert any(not one.is_cut_off for one in first.solutions)
    assert any("\n" in one.text for one in first.solutions)
    for root in first.roots:
        for node in root.walk():
            if node.parent is not None and node.state is NodeState.OPEN:
                assert node.text.endswith("\n")
                assert node.last_piece.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prm", "p"], "give either a QUESTION, or --input and --output"),
        (["a", "--prm", "p", "--input", "x", "--output", "y"], "give either a QUESTION"),
        (["--prm", "p", "--input", "x"], "give either a QUESTION"),
        ([" ", "--prm", "p"], "the question is empty"),
        (["a", "--prm", "p", "--method", "beem"], "did you mean 'beam'"),
        (["a", "--prm", "p", "--method", "beam", "--set", "search.n=6"], "multiple of expansions"),
        (["a", "--prm", "p"], "is not a PRM trained by"),
    ],
)
def test_bad_usage(tmp_path: Path, arguments: list[str], words: str) -> None:
    command = ["solve", "--config", str(write_config(tmp_path)), *arguments]
    done = CliRunner().invoke(app, command)
    assert done.exit_code != 0
    assert words in str(done.exception)


def test_hostile_output_is_shown_plain() -> None:
    root = Node("")
    node = Node(HOSTILE, root, NodeState.FINISHED, answer=HOSTILE, value=0.5)
    root.children.append(node)
    solution = Solution(HOSTILE, (HOSTILE,), (0.5,), 0.5, HOSTILE, 3, is_cut_off=False)
    result = SearchResult(
        question=HOSTILE,
        method=SearchMethod.BEAM,
        aggregation=Aggregation.MIN,
        solutions=(solution, solution),
        picked=solution,
        majority_answer=HOSTILE,
        weighted_answer=HOSTILE,
        num_tokens=6,
        num_samples=2,
        stopped=StopReason.COMPLETE,
        roots=(root,),
    )
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=False)
    for shown in (search_tree(result), solutions_panel(result, limit=1), answer_sentence(result)):
        console.print(shown)
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "[red]step[/red]" in text
    assert "found 2 times" in text


def test_a_long_tree_is_shown_within_its_limits() -> None:
    root = Node("")
    root.children += [Node(f"{i}", root, value=0.1) for i in range(3000)]
    result = SearchResult(
        "q",
        SearchMethod.MCTS,
        Aggregation.MIN,
        (),
        None,
        "",
        "",
        0,
        0,
        StopReason.COMPLETE,
        (root,),
    )
    stream = io.StringIO()
    started = time.process_time()
    Console(file=stream, width=80).print(search_tree(result))
    assert len(stream.getvalue().splitlines()) == 10
    assert "and 2992 more" in stream.getvalue()
    assert time.process_time() - started < 5
