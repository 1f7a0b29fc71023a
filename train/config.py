"""What defines a training run. Everything here is written into the trained model's folder."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from pipeline.config import MAX_TOKENS, FrozenConfig

QUESTION = "{question}"

DEFAULT_MAX_LENGTH = 2048
"""Tokens: ample for GSM8K, and for all but the longest MATH solutions."""

DEFAULT_THRESHOLD = 0.5
"""The score from which on a step counts as good, where no validation has a better one."""


class LossName(StrEnum):
    """How far a step's score is from its label (`train.loss` has the formulas)."""

    MSE = "mse"
    """Squared error between the score and the soft label."""
    BCE = "bce"
    """Cross-entropy of the score and the soft label."""
    HARD = "hard"
    """Cross-entropy of the score and the hard label."""
    BETA_BINOMIAL = "beta-binomial"
    """Negative log-likelihood of (correct, graded) rollouts, spread around the score."""


class StepWeight(StrEnum):
    """What a step weighs in the loss; the weights' mean over the training steps is 1."""

    NONE = "none"
    GRADED = "graded"
    """The number of graded rollouts."""
    INTERVAL = "interval"
    """1 - the width of the MC value's 95 % Wilson interval."""


class Objective(StrEnum):
    """What the model learns to score."""

    PRM = "prm"
    """Every step, on its label."""
    ORM = "orm"
    """The whole solution, on its verdict, at its last step: the baseline of a PRM."""


class LoraConfig(FrozenConfig):
    """Low-rank adapters (Hu et al., arXiv 2106.09685) on every linear layer, and a full head;
    without this section all weights are trained. The saved model has them merged in.
    """

    rank: Annotated[int, Field(ge=1, le=1024)] = 16
    """Of the adapters' matrices: the larger, the more weights are trained."""
    alpha: Annotated[int, Field(ge=1, le=2**16)] = 32
    """The adapters' output is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of the adapters' input, in training."""


class TrainConfig(FrozenConfig):
    """How a PRM is trained. The defaults suit models of a billion parameters or more; the
    bundled demo model wants a learning rate of about 1e-3 and more epochs.
    """

    base_model: str = "demo"
    """`demo` is the bundled language model; else a local folder or a Hub id."""
    revision: str | None = None
    """A commit, tag or branch of a Hub id."""
    template: str = "Question: {question}\nAnswer:"
    """The text before the first step. `{question}` is the only place holder."""
    split: str = "train"
    """The split of the labels to train on."""
    max_length: Annotated[int, Field(ge=8, le=MAX_TOKENS)] | None = None
    """Tokens of question and steps together; steps that end beyond it are lost, and
    counted. None takes the model's own limit, but at most 2048."""
    objective: Objective = Objective.PRM
    """`prm` scores every step, `orm` the whole solution at its last."""
    loss: LossName = LossName.MSE
    """`mse` and `bce` on soft labels, `hard` on hard ones, `beta-binomial` on the counts."""
    concentration: Annotated[float, Field(gt=0, le=1e6)] = 8.0
    """Of the beta-binomial loss: α + β. The larger, the less do rollouts of steps of one score
    differ beyond chance; it stands for so many rollouts seen before."""
    weight: StepWeight = StepWeight.NONE
    """What a step weighs: `none`, `graded` (rollouts), or `interval` (1 - its width)."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """The peak: a linear warm-up and a linear decay to 0 around it."""
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 1
    """One pass: soft Monte-Carlo labels are noisy, and a large model fits the noise after."""
    batch_size: Annotated[int, Field(ge=1, le=2**16)] = 16
    """Solutions in one forward pass of one device."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=2**16)] = 1
    """Batches to one update; their labelled steps all weigh the same."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """The share of the updates in which the learning rate rises to its peak."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW's."""
    validation_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """The share of *questions* kept for validation, chosen by a hash of their text."""
    packing: bool = False
    """Put the solutions of a batch one after the other, without padding and without attention
    from one to another. Refused for models that cannot be packed."""
    lora: LoraConfig | None = None
    """None trains all weights."""
    gradient_checkpointing: bool = False
    """Keep a layer's inputs only and compute the rest again: less memory, a third more time."""
    bf16: bool = False
    """Mixed precision (float32 weights, bfloat16 arithmetic): for GPUs that have it. With
    [train.lora] the frozen weights are bfloat16, too."""
    save_steps: Annotated[int, Field(ge=1)] | None = None
    """Updates between checkpoints; a killed training goes on from the last one when the same
    command runs again. None keeps none."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Of the order of the solutions, the new head and dropout."""

    @field_validator("template")
    @classmethod
    def _holds_the_question(cls, template: str) -> str:
        if QUESTION not in template:
            raise ValueError(f"the template {template!r} does not contain {QUESTION}")
        return template


def fill_template(template: str, question: str) -> str:
    """Put the question into the template; braces of LaTeX in either are only text."""
    return template.replace(QUESTION, question)


def template_pieces(template: str) -> list[str]:
    """The template's own text before, between and after its questions."""
    return template.split(QUESTION)
