"""The bench runs from end to end, on a handful of rows, and says what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.grading_material import RESPELLINGS, Shared, cold_pairs, repeated_pairs
from grading.pool import GradePool
from grading.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    def write(name: str, rows: list[dict[str, object]]) -> None:
        path = tmp_path / "shared" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def case(
        kind: str, prediction: str | None, expected: bool, **more: object
    ) -> dict[str, object]:
        known = {"kind": kind, "form": "answer", "gold": "30", "contested": False}
        return {"id": kind, "prediction": prediction, "expected": expected, **known, **more}

    generated = {"unit": "(", "count": 50}
    write(
        "cases/grading_cases.jsonl",
        [
            case("integer", "30.0", True),
            case("adv-nest", None, False, prediction_gen=generated),
            case("policy", "31", True, contested=True),
        ],
    )
    write("cases/peer_suites.jsonl", [case("other", "29", False, suite="other")])
    write(
        "data/gsm8k_model_solutions.jsonl",
        [
            {"problem_id": str(n), "question": "How many?", "gold_answer": str(n), "generator": "m",
             "solution": f"We add {n} and 0.\nSo there are {n}.\nA: {n}", "is_correct": n < 4}
            for n in range(5)
        ],
    )  # fmt: skip
    write(
        "data/math500_test.jsonl",
        [
            {"problem": "What is it?", "solution": f"It is found. So $\\boxed{{{answer}}}$.",
             "answer": answer}
            for answer in ("7", r"\frac{1}{2}", "(3,4)", "x+1")
        ],
    )  # fmt: skip
    return tmp_path / "shared"


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "bench/grading.py", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_all_parts_run_and_keep_each_others_figures(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "results" / "grading.json"
    options = ("--shared", shared, "--json", path, "--without-math-verify", "--soak-grades", 400)
    for parts in (("accuracy", "throughput"), ("math500", "gsm8k", "soak")):
        done = bench(*parts, *options)
        assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(path.read_text())
    uncontested = figures["accuracy"]["uncontested"]
    assert uncontested["all cases"]["stepmark"]["right"] >= 1
    assert uncontested["hostile"]["stepmark"]["not wrong ="] == 1
    assert uncontested["suite other"]["stepmark"] == {"right": 1, "not wrong =": 1}
    assert figures["accuracy"]["contested"]["policy"]["stepmark"]["wrong ≠"] == 1
    assert figures["throughput"]["K=16, same texts stepmark"]["number"] == 16 * (5 + 1000)
    assert figures["math500"]["itself"]["correct"] == 4
    assert figures["gsm8k"]["rows"] == 5
    assert [row[0] for row in figures["gsm8k"]["disagreements"]] == ["4"]
    assert len(figures["soak"]["checkpoints"]) == 10


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = bench("gsm8k", "--shared", tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/data/gsm8k_model_solutions.jsonl is not there" in done.stderr
    assert "--shared" in done.stderr
    assert "no such part: speed" in bench("speed").stderr


def test_pairs_are_the_same_every_time_and_their_texts_differ(shared: Path) -> None:
    first, second = (cold_pairs(Shared(shared)) for _ in range(2))
    assert first == second
    repeated = repeated_pairs(Shared(shared))
    assert repeated == repeated_pairs(Shared(shared))
    assert len(repeated) == 16 * (5 + 4)


@pytest.mark.parametrize(
    "gold",
    [
        "42",
        r"\frac{3}{8}",
        "(2, 5)",
        r"[1,4)",
        r"3,\!200",
        r"x+2=5",
        r"\text{mostly odd}",
        "1,234",
    ],
)
@pytest.mark.parametrize("name", RESPELLINGS)
def test_other_spellings_say_the_same(gold: str, name: str) -> None:
    with GradePool() as pool:
        grade = pool.grade_answer(gold, RESPELLINGS[name](gold))
    assert grade.verdict is Verdict.CORRECT
