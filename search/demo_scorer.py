"""A scorer that knows the exact truth of demo steps: the double of a perfect PRM.

For tests, load tests and as a bound in benchmarks: what a search could gain at most. Labels
and trained models never see it.
"""

from collections.abc import Mapping

from pipeline.demo.problems import DemoProblem
from pipeline.demo.truth import step_truths
from search.scoring import ScriptedScorer


def demo_oracle(problems: Mapping[str, DemoProblem]) -> ScriptedScorer:
    """Scores 1 while a solution is right and 0 from its first error on.

    `problems` maps a question to its demo problem; another question raises KeyError.
    """

    def judge(question: str, steps: tuple[str, ...]) -> float:
        return float(step_truths(problems[question], steps)[-1])

    return ScriptedScorer(judge)
