"""What `bench/grading.py` measures with: the case files, realistic pairs, other spellings.

Everything is deterministic. Nothing of this material is part of the repository: it is read
from the folder `shared` beside it.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
Item = TypeVar("Item")
K = 16
_NUM_EACH = 1000
_NUM_PROBLEMS = 500
_RESPONSE_CHARS = 520


@dataclass(frozen=True, slots=True)
class Shared:
    """The folder with the cases and the data."""

    folder: Path

    def rows(self, name: str) -> list[Row]:
        path = self.folder / name
        if not path.exists():
            raise SystemExit(
                f"{path} is not there. The cases and data are no part of the repository: name "
                "the folder that holds cases/ and data/ with --shared."
            )
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def cases(self) -> list[Row]:
        rows = self.rows("cases/grading_cases.jsonl") + self.rows("cases/peer_suites.jsonl")
        return [_with_prediction(row) for row in rows]

    def gsm8k(self) -> list[Row]:
        return self.rows("data/gsm8k_model_solutions.jsonl")

    def math500(self) -> list[Row]:
        return self.rows("data/math500_test.jsonl")


def _with_prediction(row: Row) -> Row:
    if row["prediction"] is not None:
        return row
    parts = row["prediction_gen"]
    text = parts.get("prefix", "") + parts["unit"] * parts["count"] + parts.get("suffix", "")
    return {**row, "prediction": text}


# -- other spellings of a gold answer ------------------------------------------------------

_TEXT = re.compile(r"(\\(?:text|mbox|mathrm|textbf)\s?\{[^{}]*\}|\\(?:begin|end)\{\w+\})")
_BRACKET = re.compile(r"(?<!\\left)(?<!\\right)(?<!\\sqrt)([()])")


def _outside_text(change: Callable[[str], str], latex: str) -> str:
    parts = _TEXT.split(latex)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def _spaced(part: str) -> str:
    return re.sub(r"(?<=[\w}\])])([+=<>])(?=[\w\\({\[])", r" \1 ", part)


def _thin_spaced(part: str) -> str:
    return re.sub(r",(?!\d{3}|\s?\\!)\s?", r",\\, ", part)


RESPELLINGS: dict[str, Callable[[str], str]] = {
    "dfrac": lambda latex: latex.replace(r"\frac", r"\dfrac"),
    "spaces": lambda latex: f" {_outside_text(_spaced, latex)} ",
    "thin spaces": lambda latex: _outside_text(_thin_spaced, latex),
    "left right": lambda latex: (
        _outside_text(lambda p: _BRACKET.sub(_sized, p), latex)
        if "[" not in latex and latex.count("(") == latex.count(")")
        else latex
    ),
    "dollars": lambda latex: f"${latex}$",
}


def _sized(match: re.Match[str]) -> str:
    return (r"\left" if match[1] == "(" else r"\right") + match[1]


# -- realistic pairs ------------------------------------------------------------------------


def kind_of(gold: str) -> str:
    """A coarse type, so that a wrong answer looks like the right one."""
    if re.fullmatch(r"-?\d+", gold):
        return "integer"
    if re.fullmatch(r"-?[\d.,]+", gold):
        return "decimal"
    if "\\begin" in gold:
        return "matrix"
    if "\\text" in gold:
        return "text"
    if "," in gold:
        return "list"
    if re.search(r"[a-z]", re.sub(r"\\[A-Za-z]+", "", gold)):
        return "letters"
    return "constant"


def cold_pairs(shared: Shared) -> list[Row]:
    """1,000 GSM8K model solutions and 1,000 MATH-like responses, half of these right.

    The model solutions are short, so the question goes before them, as models repeat it.
    """
    generator = random.Random(0)
    solutions = _some(shared.gsm8k(), _NUM_EACH, generator)
    gsm8k = [
        _pair(row["gold_answer"], f"{row['question']}\n\n{row['solution']}", "gsm8k")
        for row in solutions
    ]
    problems = shared.math500()
    responses: list[Row] = []
    for index in range(_NUM_EACH):
        problem = problems[index % len(problems)]
        gold = problem["answer"]
        answer = gold
        if index >= len(problems):
            answer = _other_answer(problems, problem, generator)
        elif index % 2:
            answer = RESPELLINGS[generator.choice(list(RESPELLINGS)[:4])](gold)
        responses.append(_pair(gold, _response(problem, answer, generator), "math"))
    return gsm8k + responses


def same_pairs(pairs: Sequence[Row]) -> list[Row]:
    """Each pair K=16 times, as completions of a late prefix repeat word for word."""
    generator = random.Random(5)
    repeated: list[Row] = []
    for start in range(0, len(pairs), 100):  # of the problems that are under way together
        together = list(pairs[start : start + 100]) * K
        generator.shuffle(together)
        repeated += together
    return repeated


def repeated_pairs(shared: Shared) -> list[Row]:
    """K=16 rollouts a problem with 1 to 4 distinct answers, every text different.

    500 problems of each source make 16,000 pairs.
    """
    generator = random.Random(1)
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in shared.gsm8k():
        by_problem[row["problem_id"]].append(row)
    pairs: list[Row] = []
    for name in _some(sorted(by_problem), _NUM_PROBLEMS, generator):
        rows = by_problem[name]
        gold = rows[0]["gold_answer"]
        wrong = [str(generator.randint(2, 400)) for _ in range(3)]
        for answer in _answers(gold, wrong, generator):
            row = generator.choice(rows)
            body = row["solution"].rpartition("\n")[0]
            text = f"{row['question']}\n\n{_opening(generator)}\n{body}\nA: {answer}"
            pairs.append(_pair(gold, text, "gsm8k"))
    problems = shared.math500()
    for problem in _some(problems, _NUM_PROBLEMS, generator):
        gold = problem["answer"]
        wrong = [_other_answer(problems, problem, generator) for _ in range(2)]
        respelt = RESPELLINGS[generator.choice(list(RESPELLINGS)[:4])](gold)
        pairs.extend(
            _pair(gold, _response(problem, answer, generator), "math")
            for answer in _answers(gold, [respelt, *wrong], generator)
        )
    return pairs


def _some(population: Sequence[Item], count: int, generator: random.Random) -> list[Item]:
    return generator.sample(population, min(count, len(population)))


def _pair(gold: str, text: str, source: str) -> Row:
    return {"gold": gold, "prediction": text, "form": "response", "source": source}


def _answers(gold: str, others: Sequence[str], generator: random.Random) -> list[str]:
    """K answers, about half of them right, of one to four spellings or values."""
    few = generator.sample(list(others), generator.randint(0, len(others)))
    is_right = generator.random()
    return [
        generator.choice(few) if few and generator.random() > is_right else gold for _ in range(K)
    ]


def _other_answer(problems: Sequence[Row], problem: Row, generator: random.Random) -> str:
    gold = problem["answer"]
    alike = [row["answer"] for row in problems if kind_of(row["answer"]) == kind_of(gold)]
    different = [answer for answer in alike if answer != gold]
    return generator.choice(different or [row["answer"] for row in problems])


_ASY = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_OPENERS = (
    "Let us think about this carefully.", "We work step by step.", "First, note what is given.",
    "There are several ways to do this; here is one.", "I will set this up and then simplify.",
    "Start from the definitions.", "The key is to rewrite the expression.", "Okay.",
)  # fmt: skip


def _response(problem: Row, answer: str, generator: random.Random) -> str:
    """About 150 tokens: sentences of the reference solution, then the boxed answer."""
    sentences = [
        sentence
        for sentence in _SENTENCE.split(_ASY.sub("", problem["solution"]))
        if "\\boxed" not in sentence and sentence.count("$") % 2 == 0
    ]
    text = _opening(generator)
    start = generator.randrange(max(1, len(sentences) - 3))
    for sentence in (sentences[start:] + sentences[:start]) or [problem["problem"]]:
        if len(text) + len(sentence) > _RESPONSE_CHARS:
            break
        text += " " + sentence
    filler = generator.choice(_OPENERS)
    while len(text) < _RESPONSE_CHARS - 100:
        text += " " + filler
        filler = generator.choice(_OPENERS)
    return f"{text}\n\nTherefore, the final answer is $\\boxed{{{answer}}}$."


def _opening(generator: random.Random) -> str:
    return f"{generator.choice(_OPENERS)} {generator.choice(_OPENERS)}"
