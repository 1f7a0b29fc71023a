"""The section `[publish]`: where a dataset goes on the Hub, and what keeps it from going there."""

from typing import Annotated

from pydantic import Field

from pipeline.config import FrozenConfig

Share = Annotated[float, Field(ge=0, le=1)]


class GateConfig(FrozenConfig):
    """What labels must be like to be published; `stepmark publish` says which gates are not met.
    That the files are the manifest's is always asked for.
    """

    min_labels: Annotated[int, Field(ge=1)] = 1
    """Labelled steps."""
    min_problems: Annotated[int, Field(ge=1)] = 1
    """Problems with labels."""
    max_undecided_share: Share = 0.2
    """Of all rollouts: those whose answer could not be graded."""
    max_truncated_share: Share = 0.3
    """Of all rollouts: those cut off at sampling.max_tokens without an answer."""
    max_drift: Share = 0.1
    """Mean distance of the MC values from those last published, over the labels that both have.
    1 does not compare."""


class PublishConfig(FrozenConfig):
    """How `stepmark publish` publishes. The token comes from the environment (HF_TOKEN) or from
    the Hub's own login, never from a config.
    """

    repo: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    """ORG/NAME on the Hub."""
    private: bool = True
    """A repo of the other visibility is refused, never changed."""
    with_rollouts: bool = False
    """Publish the rollouts, too: with every text, far more bytes than the labels."""
    license: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")] | None = None
    """The Hub's name of the labels' licence, such as cc-by-4.0; for the card."""
    problems_license: Annotated[str, Field(min_length=1)] | None = None
    """What the card says of the licence of the problems."""
    model_license: Annotated[str, Field(min_length=1)] | None = None
    """What the card says of the licence of the model's outputs."""
    patience_seconds: Annotated[float, Field(ge=0)] = 60.0
    """So long faults of the network, and commits of others, are met with another try."""
    gates: GateConfig = GateConfig()
