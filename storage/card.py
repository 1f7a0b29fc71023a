"""The dataset card: `README.md` of a repo on the Hub, made anew by each publish.

The front matter is written by a YAML dumper, and every text that is not ours passes
`markdown_text` or stands in a fence that it cannot close: names, questions and what models wrote
become neither markup nor YAML. What a user writes between the two marks stays. The card
depends on the snapshot and the options alone, so the same labels give the same card.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from storage.card_text import columns_table, cost_table, fenced, figures_tables, made_of
from storage.card_text import markdown_text as text
from storage.hub import MADE_BY
from storage.label_figures import LabelFigures
from storage.publish_config import PublishConfig

BEGIN = "<!-- stepmark: what stands from here to the next mark is yours and stays -->"
END = "<!-- stepmark: the rest is made anew by each publish -->"
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
          (10**7, "1M<n<10M"), (10**8, "10M<n<100M"))  # fmt: skip
_LARGEST = "100M<n<1B"
_TAGS = (
    "stepmark",
    "process-reward-model",
    "prm",
    "math",
    "math-shepherd",
    "process-supervision",
)


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card tells. `splits` are, by config (`labels` first), the splits in order;
    `example` is a labelled solution, line by line.
    """

    repo: str
    snapshot: str
    manifest: Mapping[str, Any]
    figures: LabelFigures
    splits: Mapping[str, tuple[str, ...]]
    example: tuple[str, ...]
    options: PublishConfig


def dataset_card(facts: CardFacts, earlier: str | None) -> str:
    """The card, with the user's section of the `earlier` one."""
    sections = [
        _front_matter(facts),
        f"# {text(facts.repo.partition('/')[2])}",
        f"{MADE_BY}\n\n{BEGIN}\n{kept_section(earlier)}{END}",
        *_what_it_is(facts),
        *_configs(facts),
        "## Figures\n\n" + figures_tables(facts.figures),
        "## An example\n\n" + fenced("\n".join(facts.example), "text"),
        "## Cost\n\n" + cost_table(facts.manifest),
        _LIMITS,
        *_licences(facts),
        *_how_made(facts),
        _CITATION,
    ]
    return "\n\n".join(sections) + "\n"


def kept_section(card: str | None) -> str:
    """What stands between the marks of a card, which may be edited anywhere; ends in a line's end.

    The first of each mark counts, where it is a line of its own.
    """
    lines = (card or "").splitlines()
    if BEGIN not in lines:
        return "\n"
    rest = lines[lines.index(BEGIN) + 1 :]
    if END not in rest:
        return "\n"
    return "".join(f"{line}\n" for line in rest[: rest.index(END)]) or "\n"


def _front_matter(facts: CardFacts) -> str:
    from huggingface_hub.utils import yaml_dump

    folders = {"labels": "data"}
    content: dict[str, object] = {
        "pretty_name": f"{facts.repo.partition('/')[2]}: step labels by Monte-Carlo rollouts",
        "tags": list(_TAGS),
        "size_categories": [_size(facts.figures.num_solutions)],
        "configs": [
            {
                "config_name": name,
                **({"default": True} if name == "labels" else {}),
                "data_files": [
                    {"split": split, "path": f"{folders.get(name, name)}/{split}-*"}
                    for split in splits
                ],
            }
            for name, splits in facts.splits.items()
        ],
    }
    if facts.options.license is not None:
        content = {"license": facts.options.license, **content}
    return f"---\n{yaml_dump(content)}---"


def _size(num_rows: int) -> str:
    return next((name for limit, name in _SIZES if num_rows < limit), _LARGEST)


def _what_it_is(facts: CardFacts) -> Iterator[str]:
    figures = facts.figures
    yield (
        f"{figures.num_labels:,} labelled steps of {figures.num_solutions:,} solutions to "
        f"{figures.num_problems:,} maths problems, for training process reward models. No human "
        "has labelled them: a step's label is the share of rollouts from it that end in the "
        "right answer."
    )
    if "imported" in facts.manifest:
        kind = text(str(facts.manifest["imported"]["format"]))
        yield (
            f"## Method\n\nThe labels were imported from files in the format {kind}; what they are "
            "is what their authors made them. A judgement counts as one rollout."
        )
        return
    yield "## Method\n\n" + made_of(facts.manifest)


def _configs(facts: CardFacts) -> Iterator[str]:
    lines = [
        "## Contents",
        "",
        (
            "- `labels` (the default): one row a labelled solution, with counts, MC value and "
            "interval of each step."
        ),
        (
            "- `trl`: the same as TRL's stepwise supervision (`prompt`, `completions`, `labels`), "
            "with hard labels. A solution ends before its first step without a label."
        ),
    ]
    if "rollouts" in facts.splits:
        lines.append(
            "- `rollouts`: every rollout that the labels were made of, with its text, seed and "
            "verdict, so that a label can be audited and made again."
        )
    example = f'from datasets import load_dataset\n\nload_dataset("{facts.repo}", "labels")'
    yield "\n".join(lines)
    yield fenced(example, "python")
    yield "### Columns of `labels`\n\n" + columns_table()


def _licences(facts: CardFacts) -> Iterator[str]:
    options = facts.options
    rows = [
        ("these labels", options.license),
        ("the problems", options.problems_license),
        ("the model's output", options.model_license),
    ]
    stated = "\n".join(
        f"- {what}: {'not stated' if name is None else text(name)}" for what, name in rows
    )
    yield f"## Licence\n\nAs the publisher states it; nothing is inferred.\n\n{stated}"


def _how_made(facts: CardFacts) -> Iterator[str]:
    from huggingface_hub.utils import yaml_dump

    if "imported" in facts.manifest:
        command = "stepmark import"
    else:
        command = "stepmark generate --config CONFIG.toml --out DIR"
    config = yaml_dump(_public_config(facts.manifest.get("config")))
    yield (
        f"## How it was made\n\nWith stepmark, as snapshot {text(facts.snapshot)}, finished "
        f"{text(str(facts.manifest.get('finished_at', 'at an unknown time')))}:"
    )
    yield fenced(f"{command}\nstepmark publish DIR --repo {facts.repo}", "sh")
    yield "What of the config defines the labels (local paths are shortened to the last part):"
    yield fenced(config, "yaml")


_DEFINING = (
    "seed",
    "problems",
    "model",
    "generator",
    "sampling",
    "prompt",
    "steps",
    "allocation",
    "grading",
    "labels",
)
"""Sections of the config: the engine's addresses and paths are nobody's business."""


def _public_config(config: object) -> dict[str, object]:
    sections: dict[str, Any] = dict(config) if isinstance(config, Mapping) else {}
    return {name: _shortened(sections[name]) for name in _DEFINING if name in sections}


def _shortened(value: object) -> object:
    match value:
        case dict():
            return {str(key): _shortened(inner) for key, inner in value.items()}
        case list():
            return [_shortened(inner) for inner in value]
        case str() if value.startswith(("/", "~", "./", "../")):
            return value.rstrip("/").rpartition("/")[2]
        case _:
            return value


_LIMITS = (
    "## Limits\n\n"
    "- An MC value says how often *this* model gets from a step to the right answer; a "
    "stronger one would get there from steps that it does not. Mind the interval: few "
    "rollouts leave it wide.\n"
    "- A right final answer is no proof of right steps, and a rollout can repair a wrong "
    "one: hard labels call some wrong steps right.\n"
    "- Answers were graded by rules; undecided ones count for nothing, and are counted. A "
    "rollout cut off without an answer counts as incorrect.\n"
    "- Problems and solutions are as their source and the model wrote them, unfiltered."
)

_CITATION = """## Citation

The method is Math-Shepherd's:

```bibtex
@article{wang2023mathshepherd,
  title   = {Math-Shepherd: Verify and Reinforce LLMs Step-by-step without Human Annotations},
  author  = {Wang, Peiyi and Li, Lei and Shao, Zhihong and Xu, R. X. and Dai, Damai and
             Li, Yifei and Chen, Deli and Wu, Y. and Sui, Zhifang},
  journal = {arXiv:2312.08935},
  year    = {2023}
}
```"""
