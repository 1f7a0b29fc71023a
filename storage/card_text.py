"""Parts of the dataset card: tables, and foreign text made harmless for Markdown."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storage.label_figures import MC_CLASSES, LabelFigures

_MARKUP = re.compile(r"([\\`*_\[\]#|~&$!:@])")
"""Also of formulas, emoji, mentions and bare addresses."""
_MAX_TEXT = 300

COLUMN_MEANINGS = {
    "problem_id": "the problem's id",
    "question": "its text",
    "gold_answer": "its reference answer",
    "source": "where it came from",
    "solution_id": "the solution's id, unique in the dataset",
    "completer": "the model that the labels are of: it finished the prefixes",
    "generator": "the model that wrote the solution",
    "sampling_digest": "what defines the samples: model, prompt, sampling, splitter",
    "grader_version": "what graded the answers",
    "steps": "the solution's steps; joined they are its text",
    "num_rollouts": "for each step: rollouts that start after it",
    "num_reused": "of these, drawn from an earlier step and passing through this one",
    "num_correct": "rollouts that end in the right answer",
    "num_incorrect": "rollouts that do not",
    "num_undecided": "rollouts that could not be graded; they count for nothing",
    "num_truncated": "of the incorrect ones: cut off before an answer",
    "mc_value": "num_correct ÷ (num_correct + num_incorrect); null where none is graded",
    "interval_low": "lower end of its 95 % Wilson interval",
    "interval_high": "upper end",
    "hard_label": "whether mc_value is above the threshold of the config (0: any correct rollout)",
    "first_error": "0-based index of the first step whose hard label is false; -1 if none",
    "final_answer": "the solution's answer",
    "verdict": "the grade of that answer: correct, incorrect or undecided",
}
"""Of the columns of `labels`, in their order."""


def visible(text: str) -> str:
    """`text` in one line, without control and format characters, and not endless."""
    shown = "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))
    return shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}…"


def markdown_text(text: str) -> str:
    """`text` so that Markdown shows it as it is: no markup, no HTML, no new line."""
    return _MARKUP.sub(r"\\\1", visible(text)).replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str, language: str) -> str:
    """A code block that `text` cannot end; other lines' control characters are replaced."""
    lines = ["".join(c if c.isprintable() else "�" for c in line) for line in text.split("\n")]
    body = "\n".join(lines).rstrip()
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns_table() -> str:
    """The columns of the config `labels`."""
    rows = ((f"`{name}`", markdown_text(what)) for name, what in COLUMN_MEANINGS.items())
    return table(("column", "meaning"), rows)


def figures_tables(figures: LabelFigures) -> str:
    """Counts by split, the distribution of MC values, and shares."""
    splits = table(
        ("split", "problems", "solutions", "labelled steps"),
        (
            (markdown_text(name), f"{of.num_problems:,}", f"{of.num_solutions:,}",
             f"{of.num_labels:,}")
            for name, of in figures.by_split.items()
        ),
    )  # fmt: skip
    num_made = sum(figures.mc_counts)
    classes = table(
        ("MC value", *MC_CLASSES),
        [("share of labels", *(_share(n, num_made) for n in figures.mc_counts))],
    )
    sizes = sorted(figures.rollouts_a_label)
    width = figures.mean_width
    others = table(
        ("figure", "value"),
        [
            ("solutions with the right answer",
             _share(figures.num_correct_solutions, figures.num_solutions)),
            ("solutions with a first error",
             _share(figures.num_with_error, figures.num_solutions)),
            ("steps without a label", f"{figures.num_steps - figures.num_labels:,}"),
            ("rollouts counted by the labels", f"{figures.num_rollouts:,}"),
            ("of these reused from an earlier step",
             _share(figures.num_reused, figures.num_rollouts)),
            ("correct rollouts", _share(figures.num_correct, figures.num_rollouts)),
            ("undecided rollouts", _share(figures.num_undecided, figures.num_rollouts)),
            ("truncated rollouts", _share(figures.num_truncated, figures.num_rollouts)),
            ("graded rollouts a label", f"{sizes[0]} to {sizes[-1]}" if sizes else "none"),
            ("mean width of the 95 % intervals", "none" if width is None else f"{width:.3f}"),
        ],
    )  # fmt: skip
    note = (
        "The distribution and the widths are of labels that rollouts made; the last step of a "
        "solution takes the solution's own verdict."
    )
    return "\n\n".join((splits, classes, others, note))


def made_of(manifest: Mapping[str, Any]) -> str:
    """The method in words: models, sampling, policy, reuse, grader."""
    config: Mapping[str, Any] = manifest.get("config", {})
    allocation, sampling = config.get("allocation", {}), config.get("sampling", {})
    drawn = ", ".join(
        f"{name} {sampling[name]}"
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens")
        if name in sampling
    )
    lines = [
        (
            "Math-Shepherd (arXiv 2312.08935): a model writes solutions, they are split into "
            "steps, a model finishes every prefix of steps several times, and each final answer "
            "is compared with the reference answer."
        ),
        f"- Solutions by: {markdown_text(str(manifest.get('generator')))}",
        f"- Prefixes finished by: {markdown_text(str(manifest.get('completer')))}",
        f"- Sampling: {markdown_text(drawn)}",
        f"- Steps: {markdown_text(str(config.get('steps', {}).get('method')))}",
        (
            f"- Rollouts: policy {markdown_text(str(allocation.get('policy')))}, "
            f"{_rollouts_a_prefix(allocation)}; "
            f"{allocation.get('solutions_per_problem')} solutions a problem"
        ),
        f"- Reuse of rollouts that pass through a later prefix: {_yes(allocation.get('reuse'))}",
        f"- Grader: {markdown_text(str(manifest.get('grader_version')))}",
    ]
    return lines[0] + "\n\n" + "\n".join(lines[1:])


def cost_table(manifest: Mapping[str, Any]) -> str:
    """What all runs spent, by stage."""
    cost: Mapping[str, Any] = manifest.get("cost", {})
    rows = [
        (
            stage,
            *(f"{cost[stage].get(name, 0):,}" for name in ("rollouts", "generated_tokens")),
            f"{cost[stage].get('prompt_tokens', 0):,}",
            f"{cost[stage].get('seconds', 0):,.0f}",
        )
        for stage in ("solutions", "prefixes")
        if stage in cost
    ]
    shown = table(("stage", "rollouts", "generated tokens", "prompt tokens", "seconds"), rows)
    per_label = cost.get("tokens_per_label")
    return shown if per_label is None else f"{shown}\n\n{per_label:,.1f} generated tokens a label."


def _rollouts_a_prefix(allocation: Mapping[str, Any]) -> str:
    if allocation.get("policy") == "adaptive":
        return f"{allocation.get('min_rollouts')} to {allocation.get('max_rollouts')} a prefix"
    return f"{allocation.get('num_rollouts')} a prefix at most"


def _yes(value: object) -> str:
    return "yes, counted apart in `num_reused`" if value else "no"


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "none"
