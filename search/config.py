"""The settings of a search for one question's answer: the section [search]."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from pipeline.config import MAX_TOKENS, FrozenConfig
from search.scoring import Aggregation


class SearchMethod(StrEnum):
    """How solutions are looked for; see `search.beam` and `search.mcts`."""

    BEST_OF_N = "best-of-n"
    BEAM = "beam"
    DVTS = "dvts"
    MCTS = "mcts"


class Pick(StrEnum):
    """How one of the found solutions is taken; see `search.best_of_n`."""

    BEST_OF_N = "best-of-n"
    WEIGHTED_VOTE = "weighted-vote"
    MAJORITY_VOTE = "majority-vote"


class SearchConfig(FrozenConfig):
    """How `stepmark solve` looks for an answer. Every method spends generated tokens, and they
    are counted alike: those of all samples, used or not, end tokens included.
    """

    method: SearchMethod = SearchMethod.BEST_OF_N
    """`best-of-n` samples whole solutions; `beam`, `dvts` and `mcts` sample step by step and let
    the PRM's scores say where to go on."""
    n: Annotated[int, Field(ge=1, le=1024)] = 8
    """Solutions to find. `beam` and `dvts` draw so many samples at each step; `mcts` ends once it
    has found so many."""
    expansions: Annotated[int, Field(ge=1, le=256)] = 4
    """Samples of the next step from one prefix. `beam` keeps the best n/expansions prefixes,
    `dvts` grows so many trees (Beeching et al. 2024, who take 4)."""
    aggregation: Aggregation | None = None
    """How step scores become the number that ranks solutions; None takes the PRM's own."""
    guide: Aggregation = Aggregation.LAST
    """How they become the number that says where to go on. A step's score estimates what can still
    come of its prefix, so the last one (Snell et al. 2024, Beeching et al. 2024); under `min`
    prefixes that share their worst step would be equal."""
    pick: Pick = Pick.BEST_OF_N
    """How one of the found solutions is taken."""
    tokens: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Generated tokens a question; no request starts once they are spent, and what the last ones
    draw beyond is counted. None leaves it to `n`."""
    agreement: Annotated[int, Field(ge=2, le=1024)] | None = None
    """Stop early once so many solutions are found and all give one answer (a majority vote also
    stops once no other answer can win). None never stops early."""
    separators: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = (
        "\n",
    )
    """A sampled step ends at the first of these strings, which belong to the text. Models that
    part steps by blank lines, or write formulas of several lines, want two line breaks."""
    max_steps: Annotated[int, Field(ge=1, le=4096)] = 64
    """A solution of so many sampled steps without an end is cut off."""
    max_step_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 128
    """Of one step: a longer one is cut off, and its solution with it."""
    exploration: Annotated[float, Field(ge=0, le=100)] = 1.25
    """The constant of PUCT (`mcts`): higher tries more of what looks worse (Silver et al. 2018
    begin with 1.25)."""
    rollouts: Annotated[int, Field(ge=0, le=64)] = 0
    """Of `mcts`: whole solutions drawn from the best new step of an expansion; the mean of their
    aggregates and the PRM's value are averaged. 0 takes the PRM's value alone."""

    @model_validator(mode="after")
    def _divides(self) -> "SearchConfig":
        in_groups = self.method in (SearchMethod.BEAM, SearchMethod.DVTS)
        if in_groups and self.n % self.expansions:
            raise ValueError(
                f"{self.method.value} needs n to be a multiple of expansions: n = {self.n}, "
                f"expansions = {self.expansions}"
            )
        return self
