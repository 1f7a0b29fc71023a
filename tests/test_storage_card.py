"""The card stands whatever the names and texts in it are."""

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pydantic import ValidationError

from grading.verdict import Verdict
from pipeline.records import LabeledSolution, Problem, StepLabel
from storage.card import BEGIN, END, CardFacts, dataset_card, kept_section
from storage.card_text import COLUMN_MEANINGS, fenced, markdown_text
from storage.hub import MADE_BY
from storage.label_figures import LabelFigures
from storage.publish_config import PublishConfig
from storage.schema import LABELS
from storage.tables import labels_to_table
from tests.publish_writer import manifest, solution

HOSTILE = f"a\n---\nlicense: mit\n<script>x</script> | `b` ```\n{END}\n![i](http://e) \u202e*c*"


def table(solutions: list[LabeledSolution]) -> pa.Table:
    return labels_to_table(
        solutions,
        completer="c",
        generator="c",
        sampling_digest="d",
        grader_versions=["g"] * len(solutions),
        hard_threshold=0.0,
    )


def facts(**changes: Any) -> CardFacts:
    figures = LabelFigures()
    figures.add("train", table([solution(0), solution(1)]))
    given = CardFacts(
        repo="org/name",
        snapshot="000001",
        manifest=manifest(),
        figures=figures,
        splits={"labels": ("train",), "trl": ("train",)},
        example=("Question: q",),
        options=PublishConfig(),
    )
    return dataclasses.replace(given, **changes)


def front_matter(card: str) -> dict[str, Any]:
    assert card.startswith("---\n")
    return yaml.safe_load(card[4:].partition("\n---\n")[0])


def test_front_matter() -> None:
    options = PublishConfig(license="cc-by-4.0", model_license="apache-2.0")
    card = dataset_card(facts(options=options), None)
    matter = front_matter(card)
    assert matter["license"] == "cc-by-4.0"
    assert matter["size_categories"] == ["n<1K"]
    assert matter["configs"] == [
        {
            "config_name": "labels",
            "default": True,
            "data_files": [{"split": "train", "path": "data/train-*"}],
        },
        {"config_name": "trl", "data_files": [{"split": "train", "path": "trl/train-*"}]},
    ]
    assert "- the problems: not stated" in card
    assert "- the model's output: apache-2.0" in card
    assert "license" not in front_matter(dataset_card(facts(), None))


def test_hostile_texts_are_only_text() -> None:
    made = manifest(
        completer=HOSTILE, generator=HOSTILE, grader_version=HOSTILE, finished_at=HOSTILE
    )
    made["config"]["prompt"] = {"plain_template": HOSTILE}  # type: ignore[index]
    options = PublishConfig(problems_license=HOSTILE, model_license=HOSTILE)
    with pytest.raises(ValidationError):
        PublishConfig(license=HOSTILE)
    example = (f"  1/2   {HOSTILE}",)
    card = dataset_card(facts(manifest=made, options=options, example=example), None)
    assert front_matter(card) == front_matter(dataset_card(facts(), None))
    assert "\u202e" not in card.partition("\n---\n")[2]
    for line in _outside_fences(card.partition("\n---\n")[2]):
        assert "<script" not in line
        assert "![i]" not in line
    assert card.count(f"\n{BEGIN}\n") == 1
    first_end = card.index(f"\n{END}\n")
    assert card.index(BEGIN) < first_end < card.index("## Method")


def _outside_fences(text: str) -> list[str]:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if not fence and len(ticks) >= 3:
            fence = ticks
        elif fence and line == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    assert fence == "", "a fence stays open"
    return lines


def test_fences_and_text() -> None:
    assert fenced("a ```` b", "text") == "`````text\na ```` b\n`````"
    assert fenced("a\x1b[1m\nb", "") == "```\na�[1m\nb\n```"
    assert markdown_text("a|b <i> *c*\n_d_ `e` $x$ @you") == (
        r"a\|b &lt;i&gt; \*c\* \_d\_ \`e\` \$x\$ \@you"
    )
    assert len(markdown_text("x" * 1000)) == 301


def test_what_is_between_the_marks_stays() -> None:
    card = dataset_card(facts(), None)
    mine = "## Mine\n\n---\n```\nanything\n"
    edited = card.replace(f"{BEGIN}\n\n{END}", f"{BEGIN}\n{mine}{END}")
    assert edited != card
    again = dataset_card(facts(), edited)
    assert again == edited
    assert kept_section(again) == mine
    assert kept_section(card) == "\n"
    assert kept_section("# another card\n") == "\n"
    assert kept_section(edited.replace(END, "")) == "\n"


def test_the_card_says_what_stepmark_did_and_no_secrets() -> None:
    card = dataset_card(facts(), None)
    assert f"\n{MADE_BY}\n" in card
    for words in (
        "4 labelled steps of 2 solutions to 2 maths problems",
        "- Prefixes finished by: org/model",
        "policy adaptive, 10 to 20 a prefix",
        "| prefixes | 10 | 100 | 20 | 2 |",
        "source: problems.jsonl",
    ):
        assert words in card
    assert "/home/somebody" not in card
    assert "10.0.0.1" not in card
    imported = dataset_card(facts(manifest=manifest(imported={"format": "prm800k"})), None)
    assert "imported from files in the format prm800k" in imported
    assert "Math-Shepherd (arXiv" not in imported.partition("## Citation")[0]


def test_every_column_has_a_meaning() -> None:
    assert list(COLUMN_MEANINGS) == LABELS.names


@pytest.mark.parametrize(
    ("num_correct", "num_graded", "name"),
    [
        (0, 8, "0"),
        (2, 8, "0–¼"),
        (3, 8, "¼–½"),
        (4, 8, "¼–½"),
        (6, 8, "½–¾"),
        (7, 8, "¾–1"),
        (8, 8, "1"),
    ],
)
def test_classes_of_mc_values(num_correct: int, num_graded: int, name: str) -> None:
    from storage.label_figures import MC_CLASSES

    label = StepLabel(num_graded + 2, 1, num_correct, num_graded - num_correct, 2, 0)
    last = StepLabel(1, 0, 0, 1, 0, 1)
    one = LabeledSolution(
        Problem("p", "q", "1", "s", "t"), "s", ("a", "b", "c"),
        (label, StepLabel(0, 0, 0, 0, 0, 0), last), "2", Verdict.INCORRECT,
    )  # fmt: skip
    figures = LabelFigures()
    figures.add("train", pa.concat_tables([table([solution(0)]), table([one])]).slice(1))
    assert [name for name, n in zip(MC_CLASSES, figures.mc_counts, strict=True) if n] == [name]
    assert (figures.num_steps, figures.num_labels, figures.num_rollouts) == (3, 2, num_graded + 3)
    assert (figures.num_undecided, figures.num_truncated, figures.num_reused) == (2, 1, 1)
    assert (figures.num_correct_solutions, figures.num_with_error) == (0, 1)
    low, high = label.interval
    assert figures.mean_width == pytest.approx(high - low, abs=1e-6)
    assert figures.rollouts_a_label == {num_graded: 1}
