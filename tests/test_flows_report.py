"""The noise report: its figures, the same each time, and a page that hostile text cannot break."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.cli import main
from flows.display import printable
from flows.ledger import RunCost, as_json
from flows.problem_check import load_checked_problems
from flows.report import collect_report, write_report
from flows.report_charts import Line, bar_chart, line_chart
from flows.report_examples import ExampleKind, Examples, shortened
from flows.report_html import report_page
from flows.run_config import RunConfig, check_config
from flows.selection import Purpose
from flows.stages import generate
from grading.verdict import Verdict
from labeling.noise import LabelNoise
from pipeline.demo.problems import demo_problem
from pipeline.errors import ConfigError, DataError
from pipeline.records import FinishReason, LabeledSolution, Problem, Rollout, StepLabel
from storage.dataset import read_labels, read_manifest
from storage.journal import read_rollouts

HOSTILE = (
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "</td></tr></table></article><h1>out</h1>",
    "\u202egnp.exe \u2066\u200f",
    "null \x00 bell \x07 escape \x1b[31m",
    "half \ud800 a pair",
    "{{ 7 * 7 }} {% raw %}",
    "--> <!-- ]]> &lt;b&gt; &#60;",
    "<svg/onload=alert(1)>" * 5000,
    "x" * 100_000,
)


def config(**sections: object) -> RunConfig:
    content = {
        "problems": {"limit": 6},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    return check_config({**content, **sections}, origin="test")


def run(config: RunConfig, out: Path) -> None:
    generate(config, out, on_progress=lambda _: None)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "d"
    run(config(), out)
    return out


def label(correct: int, graded: int, undecided: int = 0) -> StepLabel:
    return StepLabel(graded + undecided, 0, correct, graded - correct, undecided, 0)


def solution(number: int, *labels: StepLabel, text: str = "step") -> LabeledSolution:
    problem = Problem(f"p{number}{text}", text, text, "test", "train")
    verdict = Verdict.CORRECT if labels[-1].num_correct else Verdict.INCORRECT
    steps = tuple(f"{text} {index}" for index in range(len(labels)))
    return LabeledSolution(problem, f"s{number:02d}", steps, labels, text, verdict)


class Page(HTMLParser):
    """Tags in balance, the text, and every attribute."""

    VOID = ("meta",)
    DRAWN = ("line", "polyline")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: set[tuple[str, str]] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.DRAWN
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# fmt: off
KNOWN_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "nav", "a", "div", "b",
    "span", "main", "h2", "h3", "table", "tr", "th", "td", "svg", "line", "rect", "text",
    "polyline", "circle", "article", "bdi", "code",
}
KNOWN_ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "href", "class", "id", "role", "viewbox",
    "aria-label", "x", "y", "width", "height", "x1", "y1", "x2", "y2", "points", "cx", "cy", "r",
    "dir", "style",
}
# fmt: on


def checked(page: str) -> Page:
    """A page without a tag, an attribute or an address that the template has not."""
    parsed = Page(page)
    assert set(parsed.tags) <= KNOWN_TAGS
    assert {name for name, _ in parsed.attributes} <= KNOWN_ATTRIBUTES
    assert all(value.startswith("#") for name, value in parsed.attributes if name == "href")
    assert all(re.fullmatch(r"--v: [\d.]+%", v) for n, v in parsed.attributes if n == "style")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert "url(" not in page
    assert "@import" not in page
    return parsed


def test_figures_are_those_of_the_dataset(dataset: Path) -> None:
    figures = write_report(dataset)
    assert figures == json.loads((dataset / "report.json").read_text(encoding="utf-8"))
    solutions, rollouts = read_labels(dataset), read_rollouts(dataset)
    inner = [label for one in solutions for label in one.labels[:-1]]
    labels = figures["labels"]
    assert (labels["problems"], labels["solutions"]) == (6, len(solutions))
    assert labels["labels"] == sum(label.num_graded > 0 for label in inner)
    assert sum(labels["mc_values"].values()) == labels["labels"]
    assert labels["dead"] == sum(label.num_graded > 0 == label.num_correct for label in inner)
    assert sum(labels["first_errors"].values()) == len(solutions)
    assert figures["rollouts_per_step"]["mean_graded"] == pytest.approx(
        sum(label.num_graded for label in inner) / len(inner), abs=1e-6
    )
    assert figures["rollouts"]["rollouts"] == len(rollouts)
    assert figures["rollouts"]["generated_tokens"] == sum(one.num_tokens for one in rollouts)
    assert figures["rollouts"]["by_verdict"]["correct"] == sum(
        one.verdict is Verdict.CORRECT for one in rollouts
    )
    assert figures["cost"]["prefixes"]["rollouts"] == len(rollouts) - 24
    assert figures["cost"]["runs"][0]["rollouts"] == len(rollouts)
    manifest = read_manifest(dataset)
    assert figures["dataset"]["config_digest"] == manifest["config_digest"]
    assert figures["human"] is figures["decontamination"] is None


def test_the_curve_is_about_the_labels_of_the_snapshot(dataset: Path) -> None:
    prefixes = {
        (one.problem.problem_id, one.steps[: index + 1]): label.num_graded
        for one in read_labels(dataset)
        for index, label in enumerate(one.labels[:-1])
    }
    flips = collect_report(dataset).figures["flips"]
    assert {row["num_prefixes"] for row in flips} == {len(prefixes)}
    for row in flips:
        assert row["num_longer"] == sum(n > row["k"] for n in prefixes.values())
    assert flips[-1]["num_longer"] == flips[-1]["num_hard_flips"] == 0
    assert flips[0]["num_hard_flips"] > 0


def test_the_same_dataset_gives_the_same_bytes(dataset: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(dataset, html=tmp_path / f"{name}.html", json=tmp_path / f"{name}.json")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    page = checked((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert page.tags["svg"] == 6
    assert page.tags["article"] >= 9
    assert demo_problem("train", 0).question.split(".", maxsplit=1)[0] in page.text


def test_solutions_of_another_model_do_not_enter_the_curve(tmp_path: Path) -> None:
    generator = {"sampling": {"temperature": 0.7}}
    run(config(problems={"limit": 2}, generator=generator), tmp_path)
    flips = collect_report(tmp_path).figures["flips"]
    manifest = read_manifest(tmp_path)
    assert manifest["generator_digest"] != manifest["sampling_digest"]
    labels = [label for one in read_labels(tmp_path) for label in one.labels[:-1]]
    assert max(row["k"] for row in flips if row["num_longer"]) < max(
        label.num_graded for label in labels
    )


def test_examples_are_the_first_of_each_kind_and_one_a_problem() -> None:
    examples, noise = Examples(), LabelNoise(0.0)
    low, high, dead = label(3, 10), label(10, 10), label(0, 10)
    listed = [
        solution(0, high, high, label(1, 1)),
        solution(1, low, high, label(1, 1)),
        solution(2, dead, dead, label(0, 1)),
        solution(3, dead, label(1, 10), label(0, 1)),
        solution(4, label(1, 2), label(0, 1)),
        solution(5, label(2, 10, undecided=4), label(0, 1)),
        solution(6, high, high, high, label(1, 1)),
        solution(6, high, high, label(1, 1)),
    ]
    for one in listed:
        examples.tell(one, noise.tell(one))
    shown = {
        kind: [one.problem.problem_id[:2] for one in examples.shown(kind)] for kind in ExampleKind
    }
    assert shown[ExampleKind.BEST] == ["p6", "p0", "p1"]
    assert shown[ExampleKind.WORST] == ["p2", "p3", "p5"]
    assert shown[ExampleKind.UNCERTAIN][0] == "p4"
    assert shown[ExampleKind.UNDECIDED] == ["p5"]
    assert shown[ExampleKind.REVIVED] == ["p3"]
    assert len(examples.shown(ExampleKind.BEST)[0].steps) == 4


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_text(dataset: Path, text: str) -> None:
    examples = Examples()
    one = solution(1, label(0, 2, undecided=9), label(3, 10), label(1, 1), text=text)
    examples.tell(one, LabelNoise(0.0).tell(one))
    examples.tell_rollout(undecided(text))
    page = checked(report_page(collect_report_once(dataset), examples))
    assert page.tags["h1"] == 1
    assert page.tags["article"] == 4  # best, uncertain, undecided, revived
    assert printable(text[:30]) in page.text
    assert len(page.text) < 80_000


def undecided(text: str) -> Rollout:
    return Rollout(
        text, "x", 0, text, text, Verdict.UNDECIDED, text, FinishReason.STOP, 1, "c", "d", "g", 0,
        "now",
    )  # fmt: skip


@settings(max_examples=25)
@given(text=st.text(min_size=1, max_size=80))
def test_any_text_leaves_the_page_whole(dataset: Path, text: str) -> None:
    examples = Examples()
    one = solution(1, label(0, 2), label(1, 1), text=text)
    examples.tell(one, LabelNoise(0.0).tell(one))
    examples.tell_rollout(undecided(text))
    figures = collect_report_once(dataset)
    figures["dataset"] = {**figures["dataset"], "folder": text, "completer": text}
    checked(report_page(figures, examples))


_ONCE: dict[Path, dict[str, Any]] = {}


def collect_report_once(dataset: Path) -> dict[str, Any]:
    if dataset not in _ONCE:
        _ONCE[dataset] = collect_report(dataset).figures
    return dict(_ONCE[dataset])


def test_human_labels_are_compared(dataset: Path) -> None:
    figures = write_report(dataset, human=dataset)["human"]  # we agree with ourselves
    assert (figures["agreement"], figures["first_error_f1"]) == (1.0, 1.0)
    assert figures["prefixes"] == figures["both_good"] + figures["both_bad"] > 30
    page = checked((dataset / "report.html").read_text(encoding="utf-8"))
    assert "Agreement with human labels" in page.text


def test_human_labels_that_are_not_there_are_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--human .*there is no such folder"):
        write_report(dataset, human=tmp_path / "none")


def test_the_runs_are_listed_newest_first(dataset: Path) -> None:
    figures = collect_report_once(dataset)
    run = RunCost(started_at="2026-12-02", top_up_tokens=1234, regraded={"rollouts": 56_789})
    figures["cost"] = {**figures["cost"], "runs": [*figures["cost"]["runs"], as_json(run)]}
    page = checked(report_page(figures, Examples()))
    assert page.text.index("2026-12-02") < page.text.index("56,789")
    assert page.text.index("56,789") < page.text.index(figures["cost"]["runs"][0]["started_at"])
    assert "1,234" in page.text


def test_test_sets_are_checked_reported_and_excluded(tmp_path: Path) -> None:
    test_set = tmp_path / "<b>test.jsonl"
    questions = [demo_problem("train", index).question for index in (1, 3)]
    test_set.write_text("\n".join(json.dumps({"problem": one}) for one in ("other", *questions)))
    section = {"files": [str(test_set)]}
    run(config(decontamination=section), tmp_path / "d")
    report = write_report(tmp_path / "d")
    counts = read_manifest(tmp_path / "d")["counts"]
    assert isinstance(counts, dict)
    assert (counts["contaminated_problems"], counts["problems"]) == (2, 6)
    found = report["decontamination"]["found"]
    assert [(one["problem_id"], one["match"], one["row"]) for one in found] == [
        ("demo-train-000001", "exact", 2),
        ("demo-train-000003", "exact", 3),
    ]
    page = checked((tmp_path / "d" / "report.html").read_text(encoding="utf-8"))
    assert "<b>test.jsonl" in page.text
    run(config(decontamination={**section, "exclude": True}), tmp_path / "d")
    counts = read_manifest(tmp_path / "d")["counts"]
    assert isinstance(counts, dict)
    assert (counts["contaminated_problems"], counts["problems"]) == (2, 4)
    assert counts["rejected_rows"] == 2
    selection = json.loads((tmp_path / "d" / "selection.json").read_text())
    assert [one["row"] for one in selection["rejected_rows"]] == [1, 3]
    assert not set(questions) & {one.problem.question for one in read_labels(tmp_path / "d")}


def test_candidates_are_the_test_set_and_are_not_compared_with_it(tmp_path: Path) -> None:
    with_files = config(decontamination={"files": [str(tmp_path / "none.jsonl")]})
    checked_problems = load_checked_problems(with_files, purpose=Purpose.CANDIDATES)
    assert checked_problems.decontamination is None
    assert len(checked_problems.loaded.problems) == 6
    with pytest.raises(ConfigError, match="there is no file"):
        load_checked_problems(with_files, purpose=Purpose.LABELS)


def test_a_dataset_without_labels_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match="has no labels"):
        write_report(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(tmp_path)])
    assert stopped.value.code == DataError.exit_code
    assert not list(tmp_path.iterdir())
    assert "has no labels" in capsys.readouterr().err


def test_the_command_says_what_it_found(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "report",
                str(dataset),
                "--out",
                str(tmp_path / "r.html"),
                "--json",
                str(tmp_path / "j"),
            ]
        )
    assert ended.value.code == 0
    assert "dead steps come alive later" in " ".join(capsys.readouterr().out.split())
    assert {one.name for one in tmp_path.iterdir()} == {"r.html", "j"}


def test_charts_of_nothing_are_nothing_and_names_are_escaped() -> None:
    assert (
        bar_chart({}, title="t") == bar_chart({"a": 0}, title="t") == line_chart([], [], title="")
    )
    assert "<b>" not in bar_chart({"<b>": 1, '"': 2.5}, title='"<b>')
    drawn = line_chart(["k"], [Line("<b>", "one", [0.0])], title="t")
    assert "<b>" not in drawn
    Page(drawn)


def test_shortened_texts_keep_both_ends() -> None:
    assert shortened("abc", limit=3) == "abc"
    assert shortened("abcdefgh", limit=4) == "ab … [4 characters left out] … gh"
