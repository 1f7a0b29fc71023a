"""What defines a training run. Everything here is written into the trained model's folder."""

from typing import Annotated

from pydantic import Field, field_validator

from pipeline.config import MAX_TOKENS, FrozenConfig

QUESTION = "{question}"

DEFAULT_MAX_LENGTH = 2048
"""Tokens: ample for GSM8K, and for all but the longest MATH solutions."""


class TrainConfig(FrozenConfig):
    """How a PRM is trained. The defaults suit models of a billion parameters or more; the
    bundled demo model wants a learning rate of about 1e-3 and more epochs.
    """

    base_model: str = "demo"
    """`demo` is the bundled language model; else a local folder or a Hub id."""
    revision: str | None = None
    template: str = "Question: {question}\nAnswer:"
    """The text before the first step. `{question}` is the only place holder."""
    split: str = "train"
    """The split of the labels to train on."""
    max_length: Annotated[int, Field(ge=8, le=MAX_TOKENS)] | None = None
    """Tokens of question and steps together; steps that end beyond it are lost, and
    counted. None takes the model's own limit, but at most DEFAULT_MAX_LENGTH."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """The peak: a linear warm-up and a linear decay to 0 around it."""
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 1
    """One pass: soft Monte-Carlo labels are noisy, and a large model fits the noise after."""
    batch_size: Annotated[int, Field(ge=1, le=2**16)] = 16
    """Solutions in one forward pass of one device."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=2**16)] = 1
    """Batches to one update; their labelled steps all weigh the same."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.05
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    validation_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """The share of *questions* kept for validation, chosen by a hash of their text."""
    bf16: bool = False
    """Mixed precision (float32 weights, bfloat16 arithmetic): for GPUs that have it."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

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
