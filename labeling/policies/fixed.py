"""K rollouts a prefix: Math-Shepherd (arXiv 2312.08935). Unbiased: it looks at no outcome."""

from labeling.policies.config import AllocationConfig
from labeling.tree import Tally


def num_wanted(tally: Tally, config: AllocationConfig) -> int:
    """What is missing to `num_rollouts`, passes included."""
    return config.num_rollouts - tally.total
