"""The model card: `README.md` in a trained model's folder, in the Hub's form.

Names and texts of others stand only in the YAML header, written by a dumper, and in blocks of
JSON, whose fence they cannot end.
"""

import json
import re
from pathlib import Path
from typing import Any

from huggingface_hub.utils import yaml_dump

from train.config import LossName, Objective, StepWeight, TrainConfig
from train.report import TrainReport, ValidationReport

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)

_LOSSES = {
    LossName.MSE: "the squared error between score and soft label",
    LossName.BCE: "the cross-entropy of score and soft label",
    LossName.HARD: "the cross-entropy of score and hard label",
    LossName.BETA_BINOMIAL: "the beta-binomial likelihood of the counted rollouts",
}
_WEIGHTS = {
    StepWeight.NONE: "every step weighs the same",
    StepWeight.GRADED: "a step weighs by its number of graded rollouts",
    StepWeight.INTERVAL: "a step weighs by 1 - the width of its 95 % interval",
}
_SCORES = {
    Objective.PRM: (
        "A process reward model: the sigmoid of its output at the last token of a step says how "
        "likely a solution that begins with the steps so far is to end in the right answer."
    ),
    Objective.ORM: (
        "An outcome reward model: the sigmoid of its output at the last token of a solution says "
        "how likely its answer is to be right. It was trained on no other position."
    ),
}


def model_card(report: TrainReport, extras: dict[str, Any]) -> str:
    """The card's Markdown. `extras` is the `stepmark` entry of the model's `config.json`."""
    config = TrainConfig.model_validate(report.config)
    parts = [
        _front_matter(config),
        f"# {'Process' if config.objective is Objective.PRM else 'Outcome'} reward model\n",
        _SCORES[config.objective],
        _USE,
        fenced(extras),
        "## Training\n",
        f"The loss is {_LOSSES[config.loss]}; {_WEIGHTS[config.weight]}.\n",
        figures_list(_training_figures(report)),
        "## Validation\n",
        _validation(report.validation),
        "## Limits\n",
        _LIMITS,
        "## Configuration\n",
        fenced(report.config),
    ]
    return "\n".join(parts)


_USE = """
Made by stepmark from labels by Monte-Carlo rollouts (Math-Shepherd, arXiv 2312.08935).
`AutoModelForTokenClassification.from_pretrained` loads it; the text is the template with the
question in it, then the steps as they are. These belong to the weights, from `config.json`:
"""

_LIMITS = """- The labels are shares of rollouts of one model that came to the right answer. They
  say what that model makes of a step, not whether the step is true, and have sampling noise.
- Steps of other models, other prompts, other kinds of problems or another way to split a solution
  into steps are not what it was trained on.
- Steps that end beyond `max_length` tokens are not seen and score 0.
- The validation questions come from the same labels; measure on labels of people, or by
  best-of-N on unseen problems (`stepmark evaluate`), before you rely on it.
"""


def _front_matter(config: TrainConfig) -> str:
    content: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "token-classification",
        "tags": [f"{config.objective}", "reward-model", "math", "stepmark"],
    }
    if HUB_ID.fullmatch(config.base_model) and not Path(config.base_model).exists():
        content["base_model"] = config.base_model
    return f"---\n{yaml_dump(content)}---\n"


def _training_figures(report: TrainReport) -> dict[str, str]:
    good = 100 * report.num_good_steps / report.num_train_steps
    return {
        "problems": f"{report.num_problems:,}",
        "solutions trained on": f"{report.num_train_solutions:,} of {report.num_solutions:,}",
        "steps trained on": f"{report.num_train_steps:,} of {report.num_steps:,}",
        "of these with a true hard label": f"{report.num_good_steps:,} ({good:.1f} %)",
        "mean soft label": f"{report.mean_target:.3f}",
        "steps that several solutions share": f"{report.num_duplicate_steps:,}",
        "steps lost to the maximum length": f"{report.num_lost_steps:,}",
        "steps without a label": f"{report.num_unlabelled_steps:,}",
        "updates": f"{report.num_updates:,}",
        "loss of the last epoch": f"{report.train_loss:.4f}",
    }


def _validation(validation: ValidationReport | None) -> str:
    if validation is None:
        return "No question was kept apart.\n"
    auc = "none" if validation.auc is None else f"{validation.auc:.3f}"
    return figures_list(
        {
            "solutions of questions kept apart": f"{validation.num_solutions:,}",
            "their labelled steps": f"{validation.num_steps:,}",
            "squared error to the soft labels": f"{validation.loss:.4f}",
            "AUC of the hard labels": auc,
            "hard labels matched at 0.5": f"{100 * validation.agreement:.1f} %",
            "threshold, by Youden's index": f"{validation.threshold:.3f}",
        }
    )


def figures_list(figures: dict[str, str]) -> str:
    """Two columns, a figure and its value."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in figures.items())
    return f"| figure | value |\n|---|---|\n{rows}"


def fenced(value: object) -> str:
    """A value in a block of JSON that nothing in it can end."""
    text = json.dumps(value, indent=2)  # ASCII, so no control or format character in it
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}json\n{text}\n{fence}\n"
