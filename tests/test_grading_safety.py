"""Code from a model's text never runs: all of the cases and many injections, under watch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grading.config import GradingConfig
from grading.pool import GradePool
from grading.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"
CANARY = "CANARY"  # stands for a path that must not come to be
INJECTIONS = [
    f"__import__('os').system('touch {CANARY}')",
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"open('{CANARY}', 'w').write('x')",
    f"[open('{CANARY}', 'w') for _ in range(1)]",
    f"(lambda: open('{CANARY}', 'w'))()",
    f"exec(\"open('{CANARY}', 'w')\")",
    f"eval(compile(\"open('{CANARY}', 'w')\", '', 'eval'))",
    "().__class__.__base__.__subclasses__()",
    f"''.__class__.__mro__[1].__subclasses__()[132].__init__.__globals__['open']('{CANARY}', 'w')",
    f"x.__class__.__init__.__globals__['__builtins__']['open']('{CANARY}', 'w')",
    f"f'{{open(\"{CANARY}\", \"w\")}}'",
    "{0.__class__.__init__.__globals__}",
    "{{7*7}}",
    f"{{{{ cycler.__init__.__globals__.os.popen('touch {CANARY}').read() }}}}",
    f"${{jndi:file:{CANARY}}}",
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"1; touch {CANARY}",
    f"1 && touch {CANARY} ||",
    f"'; import os; os.system('touch {CANARY}'); '",
    f"1\nimport os\nos.system('touch {CANARY}')",
    f"\\write18{{touch {CANARY}}}",
    f"\\immediate\\write18{{touch {CANARY}}}",
    f"\\immediate\\openout5={CANARY} \\immediate\\write5{{x}}",
    f'\\input{{|"touch {CANARY}"}}',
    "\\input{/etc/passwd}",
    "\\include{../../secret}",
    f"\\directlua{{os.execute('touch {CANARY}')}}",
    "\\catcode`\\%=12 \\def\\x{\\x}\\x",
    f"\\sqrt{{__import__('os').system('touch {CANARY}')}}",
    f"\\frac{{exec('import os; os.mkdir(\"{CANARY}\")')}}{{1}}",
    f"x_{{__import__('os').system('touch {CANARY}')}}",
    f"f_{{open('{CANARY}','w')}}(x)",
    f"\\text{{__import__('os').system('touch {CANARY}')}}",
    f"\\operatorname{{__import__('os').system('touch {CANARY}')}}(1)",
    f"\\begin{{__import__('os').system('touch {CANARY}')}}1\\end{{pmatrix}}",
    f"sympify(\"open('{CANARY}','w')\")",
    f"parse_expr(\"__import__('os').system('touch {CANARY}')\")",
    f"Symbol('x').func(open('{CANARY}','w'))",
    f"lambdify(x, \"open('{CANARY}','w')\")(1)",
    f"!!python/object/apply:os.system ['touch {CANARY}']",
    f"cos\nsystem\n(S'touch {CANARY}'\ntR.",
    f"<script>fetch('file://{CANARY}')</script>",
    f"<answer>os.system('touch {CANARY}')</answer>",
    "exit(0)", "quit()", "raise SystemExit", "assert False", "print(7)", "globals()", "input()",
    "1 if True else 2", "x := 7", "__name__", "E.__doc__", "pi.evalf()", "True", "None",
    "\x1b]0;7\x07", "%s%s%s%n", "\x007", "7\x00",
]  # fmt: skip


def watched(rows: list[dict[str, str]]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation_guard"],
        input="".join(json.dumps(row) + "\n" for row in rows),
        cwd=ROOT,
        env={**os.environ, "SYMPY_GROUND_TYPES": "python", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["not_snapping"] == []  # the guard guards
    return report


def forms(text: str, gold: str = "7") -> list[dict[str, str]]:
    return [
        {"gold": gold, "prediction": text, "form": "answer"},
        {"gold": text, "prediction": gold, "form": "answer"},
        {"gold": text, "prediction": f" {text}+0", "form": "answer"},
        {"gold": gold, "prediction": f"So it is $\\boxed{{{text}}}$.", "form": "response"},
        {"gold": gold, "prediction": f"The answer is {text}", "form": "response"},
        {"gold": gold, "prediction": f"\n#### {text}", "form": "response"},
    ]


def test_injections_run_nothing_in_either_tier(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    rows = [row for text in INJECTIONS for row in forms(text.replace(CANARY, str(canary)))]
    report = watched(rows)
    assert report["violations"] == []
    assert [outcome for outcome in report["outcomes"] if outcome[0]] == []
    assert not canary.exists()


def test_injections_run_nothing_in_a_pool_and_are_not_correct(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with GradePool(GradingConfig(workers=2)) as pool:
        for text in INJECTIONS:
            rows = forms(text.replace(CANARY, str(canary)), gold="49387")
            for row in (rows[0], rows[1]):
                grade = pool.grade_answer(row["gold"], row["prediction"])
                assert grade.verdict is not Verdict.CORRECT
            for row in rows[3:]:
                assert pool.grade(row["gold"], row["prediction"]).verdict is not Verdict.CORRECT
    assert not canary.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["grading_cases.jsonl", "peer_suites.jsonl"])
def test_no_case_reaches_an_evaluator(name: str) -> None:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"{path} is not there: it is no part of the repository")
    rows = [case_row(json.loads(line)) for line in path.read_text().splitlines()]
    report = watched(rows)
    assert report["violations"] == []
    raised = [
        (row["gold"][:80], row["prediction"][:80], fast)
        for row, (fast, _) in zip(rows, report["outcomes"], strict=True)
        if fast
    ]
    assert raised == []


def case_row(case: dict[str, Any]) -> dict[str, str]:
    prediction = case["prediction"]
    if prediction is None:
        parts = case["prediction_gen"]
        prediction = parts.get("prefix", "") + parts["unit"] * parts["count"]
        prediction += parts.get("suffix", "")
    return {"gold": case["gold"], "prediction": prediction, "form": case["form"]}
