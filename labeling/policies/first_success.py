"""Until the first correct rollout, at most `num_rollouts`: for hard labels only.

A hard label with threshold 0 asks whether any rollout is correct (Math-Shepherd's hard
estimation, arXiv 2312.08935, eq. 3): the first correct one settles it. Draws go out
`increment` at a time, since engines sample a batch at little more than the cost of one.

Bias: strong for soft labels, which this policy is not for; an early success in the first
increment gives 1/5 where K draws might have given 1/16. With the demo model +0.014 for true
values in (0, 0.1] and +0.016 in (0.1, 0.9), with an error 1.7 times that of `fixed`; with
reuse a right solution's own ending often settles its prefixes alone, and the error is 2.6
times (`bench/label_efficiency.py`). `labeling.unbiased` corrects the bias, with a large
variance.
"""

from labeling.policies.config import AllocationConfig
from labeling.tree import Tally


def num_wanted(tally: Tally, config: AllocationConfig) -> int:
    """The next increment; 0 after a success or `num_rollouts`."""
    if tally.correct:
        return 0
    return min(config.increment, config.num_rollouts - tally.total)
