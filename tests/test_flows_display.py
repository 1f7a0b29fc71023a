"""What the terminal gets: counts and colours, and model text that can do no harm."""

import io

import pytest
from rich.console import Console, RenderableType

from flows.cost_display import cost_figures, model_figures
from flows.display import (
    figures_table,
    label_figures,
    printable,
    solution_panel,
    truth_figures,
)
from flows.evaluation import TruthAgreement
from flows.evaluation_display import search_sentence, search_table
from flows.wrapping import Figures
from grading.verdict import Verdict
from pipeline.records import LabeledSolution, Problem, StepLabel
from search.best_of_n import Candidate, ProblemCandidates
from search.evaluate import SearchReport, accuracy_against_n
from search.scoring import Aggregation


def shown(renderable: RenderableType, *, colours: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=90, force_terminal=colours, color_system="truecolor" if colours else None
    )
    console.print(renderable)
    return stream.getvalue()


def solution(*steps: str, labels: tuple[StepLabel, ...] | None = None) -> LabeledSolution:
    return LabeledSolution(
        Problem("p\x1b[2J", "Q [bold]?[/bold] \x1b]0;x\x07", "1\x9b31m", "s", "train"),
        "p/d/0",
        steps,
        labels or tuple(StepLabel(10, 0, 3, 6, 1, 0) for _ in steps),
        "[red]7\u202e",
        Verdict.INCORRECT,
    )


def test_hostile_text_is_shown_harmlessly() -> None:
    text = shown(
        solution_panel(
            solution(
                "\x1b[31mred\x1b[0m", "[red]x[/red] [/]", "\u202ebidi\u2066", "a\rb\x08\x07",
                "\ud800 half", "[link=http://x]y[/link] :smile:", "\x9b2J\x85",
            )
        )
    )  # fmt: skip
    controls = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\u2066", "\ud800"}
    assert not (controls - {"\n"}) & set(text)
    text.encode("utf-8")
    for kept in ("[red]x[/red] [/]", "[bold]?[/bold]", "[link=http://x]y[/link] :smile:", "[red]7"):
        assert kept in text


def test_colours_are_the_only_escapes() -> None:
    text = shown(solution_panel(solution("\x1b[5mblink", "b")), colours=True)
    assert "\x1b[5m" not in text
    assert "�[5mblink" in text
    assert "\x1b[38;2;153;170;60m" not in text  # the colour of another value
    assert "\x1b[38;2;255;133;60m" in text  # mc_value 1/3


def test_counts_ratio_and_first_error_stand_beside_a_step() -> None:
    labels = (
        StepLabel(10, 0, 10, 0, 0, 0),
        StepLabel(10, 0, 0, 9, 1, 0),
        StepLabel(4, 0, 0, 0, 4, 0),
        StepLabel(1, 0, 0, 1, 0, 0),
    )
    rows = shown(solution_panel(solution("aa", "\nbb", "\ncc", "\ndd", labels=labels))).splitlines()

    def line(word: str) -> str:
        (found,) = [row for row in rows if word in row]
        return found

    assert "1.00  10/10 aa" in line("aa")
    assert "0.00 0/9 ?1 bb ← first error" in line("bb")
    assert "? " in line("cc")
    assert "0/0 ?4 cc" in line("cc")
    assert sum("first error" in row for row in rows) == 1
    assert "gold 1" in rows[-1]


def test_label_figures() -> None:
    one = solution("a", "b", labels=(StepLabel(10, 0, 0, 10, 0, 0), StepLabel(1, 0, 0, 1, 0, 0)))
    two = solution("a", "b", labels=(StepLabel(20, 0, 5, 15, 0, 0), StepLabel(1, 0, 0, 1, 0, 0)))
    figures = label_figures([one, two])
    assert figures["problems"] == "1"
    assert figures["labelled solutions"] == "2 (0.0 % correct)"
    assert figures["labelled steps"] == "4"
    rollouts = "graded rollouts a step, last ones left out"
    assert figures[rollouts] == "10 to 20, mean 15.0"
    assert figures["MC value 0 / between / 1 of these"] == "50.0 % / 50.0 % / 0.0 %"
    assert label_figures([])[rollouts] == "none"
    one_step = label_figures([solution("a", labels=(StepLabel(1, 0, 1, 0, 0, 0),))])
    assert one_step[rollouts] == "none: these solutions have one step each"
    assert "none" in shown(figures_table("Labels", label_figures([])))


def test_two_models_are_named_where_there_are_two() -> None:
    stage = {
        **dict.fromkeys(("requests", "prompt_tokens", "generated_tokens", "rollouts"), 1),
        **dict.fromkeys(("rollouts_undecided", "rollouts_truncated", "reencoded_prefixes"), 0),
        "cached_prompt_tokens": None, "clipped_requests": 0, "seconds": 1.0,
    }  # fmt: skip
    last = {"rollouts": 1, "generated_tokens": 1, "seconds": 1.0, "top_up_rollouts": 0}
    cost = {"solutions": stage, "prefixes": stage, "tokens_per_label": 1.0, "last_run": last}
    one = {
        "cost": cost, "regraded": None, "generator": "m", "completer": "m",
        "generator_digest": "d", "sampling_digest": "d",
    }  # fmt: skip
    assert model_figures(one) == {"completer": "m"}
    assert list(cost_figures(one))[:2] == ["solutions, all runs", "prefixes, all runs"]
    two = {**one, "generator_digest": "e"}  # the same model, sampled in another way
    assert model_figures(two) == {"generator": "m", "completer": "m"}
    assert list(cost_figures(two))[:2] == [
        "solutions by the generator m, all runs",
        "prefixes by the completer m, all runs",
    ]


@pytest.mark.parametrize("width", range(36, 60))
def test_no_line_ends_between_a_number_and_its_unit(width: int) -> None:
    text = "PRM best-of-8 (min) 71.0 %, majority-of-8 62.0 % (+9.0 points, 95 % interval) 3.4 s."
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(Figures(text))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    assert " ".join(lines) == text
    assert not any(line.startswith(("%", "points", "s.")) for line in lines)
    console.print(figures_table("Cost", {"generated": text}))
    cells = [line.split("│")[2].strip() for line in console.export_text().splitlines()[2:-1]]
    assert not any(cell.startswith(("%", "points", "s.")) for cell in cells)
    assert " ".join(filter(None, cells)) == text


def test_truth_figures() -> None:
    (value,) = truth_figures(TruthAgreement(10, 7, 2, 1)).values()
    assert value == ("70.0 % of 10 steps (2 right steps called wrong, 1 wrong steps called right)")


def report(scores: tuple[float, float]) -> SearchReport:
    """Twenty problems with one right candidate; `scores` of it and of the two wrong ones."""

    def candidate(answer: str, score: float) -> Candidate:
        verdict = Verdict.CORRECT if answer == "1" else Verdict.INCORRECT
        return Candidate(("x",), answer, verdict, (score,))

    problems = [
        ProblemCandidates(
            str(index),
            "q",
            (candidate("1", scores[0]), candidate("2", scores[1]), candidate("2", scores[1])),
        )
        for index in range(20)
    ]
    return accuracy_against_n(problems, ns=(1, 3), answer_key=str, seed=0)


def test_the_sentence_says_plainly_who_wins() -> None:
    wins = search_sentence(report((0.9, 0.1)), Aggregation.MIN)
    assert wins.startswith("The PRM beats the majority vote: PRM best-of-3 (min) 100.0 %, ")
    assert "majority-of-3 0.0 % (+100.0 points" in wins
    loses = search_sentence(report((0.1, 0.9)), Aggregation.MIN)
    assert loses.startswith("The PRM does not beat the majority vote here: PRM best-of-3 (min) 0.0")


def test_the_table_has_every_method_and_n() -> None:
    text = shown(search_table(report((0.9, 0.1)), Aggregation.MIN))
    assert "20 problems" in text
    for word in ("N = 1", "N = 3", "majority", "best-of-n, min", "pass"):
        assert word in text


@pytest.mark.parametrize(
    ("text", "result"), [("a\tb\nc", "a\tb\nc"), ("a\r\u2028b", "a��b"), ("é数🙂", "é数🙂")]
)
def test_printable(text: str, result: str) -> None:
    assert printable(text) == result
