"""What a training by Step-DPO was given, how it went, and the model card that tells it."""

from dataclasses import asdict, dataclass
from typing import Any

from huggingface_hub.utils import yaml_dump

from train.card import HUB_ID, fenced, figures_list
from train.dpo_config import DpoConfig


@dataclass(frozen=True, slots=True)
class PairFigures:
    """Means over pairs. A step's reward is beta · (its log-likelihood - that by the base).

    `accuracy` is the share of pairs whose chosen step has the greater reward, `margin` the
    difference of the two. Where `chosen_reward` falls far below 0, the model gives up steps
    that are right, too.
    """

    num_pairs: int
    loss: float
    accuracy: float
    margin: float
    chosen_reward: float
    rejected_reward: float


@dataclass(frozen=True, slots=True)
class DpoReport:
    """Of `num_pairs`, `num_too_long` were dropped. `epochs` are means over an epoch as the
    model changed; `resumed_at` counts the updates of an earlier, killed run. `validation` is
    None where no question was kept apart. `config` is the `DpoConfig`.
    """

    num_pairs: int
    num_questions: int
    num_train_pairs: int
    num_too_long: int
    num_updates: int
    resumed_at: int
    seconds: float
    epochs: tuple[PairFigures, ...]
    validation: PairFigures | None
    config: dict[str, Any]


def pair_figures(logged: dict[str, Any], num_pairs: int, *, prefix: str = "") -> PairFigures:
    """From what TRL's trainer logs."""
    return PairFigures(
        num_pairs=num_pairs,
        loss=logged[f"{prefix}loss"],
        accuracy=logged[f"{prefix}rewards/accuracies"],
        margin=logged[f"{prefix}rewards/margins"],
        chosen_reward=logged[f"{prefix}rewards/chosen"],
        rejected_reward=logged[f"{prefix}rewards/rejected"],
    )


def policy_card(report: DpoReport, extras: dict[str, Any]) -> str:
    """The card's Markdown. `extras` is the `stepmark_policy` entry of the model's config."""
    header: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["step-dpo", "trl", "math", "stepmark"],
    }
    config = DpoConfig.model_validate(report.config)
    if HUB_ID.fullmatch(config.base_model):
        header["base_model"] = config.base_model
    parts = [
        f"---\n{yaml_dump(header)}---\n",
        "# Language model trained by Step-DPO\n",
        _WHAT,
        fenced(extras),
        "## Training\n",
        figures_list(_figures(report)),
        "Pairs of questions kept apart:\n",
        fenced(None if report.validation is None else asdict(report.validation)),
        "## Limits\n",
        _LIMITS,
        "## Configuration\n",
        fenced(report.config),
    ]
    return "\n".join(parts)


_WHAT = """
Made by stepmark with TRL's DPOTrainer: of two steps after the same question and steps, one from
which rollouts often came to the right answer was preferred to one from which they seldom did
(Step-DPO, arXiv 2406.18629). `AutoModelForCausalLM.from_pretrained` loads it. Its base and prompt:
"""

_LIMITS = """- It was told which steps its base model comes right from, not which are true.
- Rewards on pairs say little of answers: measure the share of right answers before and after
  (`bench/step_dpo.py`), on problems that neither labels nor pairs come from.
"""


def _figures(report: DpoReport) -> dict[str, str]:
    figures = {
        "questions": f"{report.num_questions:,}",
        "pairs trained on": f"{report.num_train_pairs:,} of {report.num_pairs:,}",
        "pairs longer than the maximum length": f"{report.num_too_long:,}",
        "updates": f"{report.num_updates:,}",
    }
    if report.epochs:
        last = report.epochs[-1]
        figures["loss of the last epoch"] = f"{last.loss:.4f}"
        figures["pairs of the last epoch told apart"] = f"{100 * last.accuracy:.1f} %"
    return figures
