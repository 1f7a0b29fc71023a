"""Does the PRM pick better solutions? Sample unseen problems, score, compare.

Majority vote and pass@1 always stand beside best-of-N (`search.evaluate`); so can an ORM and
a second PRM, on the same candidates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.roles import resolve_roles
from flows.run_config import RunConfig
from flows.sampling import OnProgress, sample_rollouts
from flows.selection import Purpose, selected_problems
from flows.stages import begin_run, prepare_problems
from flows.stored import root_rollouts, stored_solutions
from grading.verdict import Verdict
from labeling.policies.config import AllocationConfig
from labeling.steps import split_steps
from pipeline.demo.truth import demo_problem_of, step_truths
from pipeline.records import LabeledSolution, Rollout
from search.best_of_n import Candidate, ProblemCandidates, score_candidates
from search.evaluate import SearchReport, accuracy_against_n
from search.scoring import ScorerRole, StepScorer
from storage.lock import dataset_lock


def evaluate(
    config: RunConfig, out: Path, *, scorer: StepScorer, on_progress: OnProgress
) -> SearchReport:
    """Best-of-N by `scorer` on `config.evaluate.problems`.

    Candidates are sampled into the dataset `out`, and found there the next time.
    """
    problems = sample_candidates(config, out, on_progress=on_progress)
    return compare_methods(config, {ScorerRole.PRM: score_candidates(problems, scorer=scorer)})


def compare_methods(
    config: RunConfig, scored: Mapping[ScorerRole, Sequence[ProblemCandidates]]
) -> SearchReport:
    """The report on the same candidates, scored by the PRM and perhaps by others."""
    others = {role: problems for role, problems in scored.items() if role is not ScorerRole.PRM}
    return accuracy_against_n(
        scored[ScorerRole.PRM],
        ns=config.evaluate.ns,
        others=others,
        answer_key=answer_key,
        seed=config.seed,
    )


def sample_candidates(
    config: RunConfig, out: Path, *, on_progress: OnProgress
) -> list[ProblemCandidates]:
    """Sample and grade as many solutions a problem as the largest N needs.

    The [generator] writes them, where there is one. Raises ConfigError where `out` is a
    labelled dataset.
    """
    num = max(config.evaluate.ns)
    allocation = AllocationConfig(solutions_per_problem=num)  # nothing else matters here
    config = config.model_copy(
        update={"problems": config.evaluate.problems, "allocation": allocation}
    )
    with dataset_lock(out):
        prepare_problems(config, out, purpose=Purpose.CANDIDATES)
        begin_run(config, out)  # stored candidates get the present grader's verdicts
        sample_rollouts(config, out, on_progress=on_progress, solutions_only=True, begins_run=False)
        candidates = {
            work.problem.problem_id: ProblemCandidates(
                work.problem.problem_id,
                work.problem.question,
                tuple(
                    _candidate(rollout, config)
                    for rollout in root_rollouts(work.problem, work.rollouts)[:num]
                ),
            )
            for work in stored_solutions(resolve_roles(config), out)
        }
        return [candidates[problem.problem_id] for problem in selected_problems(out)]


def answer_key(answer: str) -> str:
    """What makes two answers one vote: `12`, `12.0` and ` 12.` are the same."""
    text = answer.strip().rstrip(".").replace(",", "").removeprefix("$")
    try:
        value = float(text)
    except ValueError:
        return text
    return repr(value) if math.isfinite(value) and abs(value) < 2**53 else text


@dataclass(frozen=True, slots=True)
class TruthAgreement:
    """Hard labels of demo steps against their exact truth. Counts of steps.

    The last steps are left out: their label is the solution's own verdict.
    """

    num_steps: int
    num_agreeing: int
    num_false_alarms: int
    """True steps whose hard label is false: no rollout reached the answer."""
    num_missed: int
    """False steps whose hard label is true: a rollout came right by a second slip."""


def truth_agreement(solutions: list[LabeledSolution], *, threshold: float) -> TruthAgreement:
    """Compare the hard labels of demo solutions with exact truth."""
    num_steps = num_false_alarms = num_missed = 0
    for solution in solutions:
        truths = step_truths(demo_problem_of(solution.problem.problem_id), solution.steps)
        for label, truth in list(zip(solution.labels, truths, strict=True))[:-1]:
            if label.num_graded:
                num_steps += 1
                num_false_alarms += truth and not label.hard_label(threshold)
                num_missed += not truth and label.hard_label(threshold)
    num_agreeing = num_steps - num_false_alarms - num_missed
    return TruthAgreement(num_steps, num_agreeing, num_false_alarms, num_missed)


def _candidate(rollout: Rollout, config: RunConfig) -> Candidate:
    return Candidate(
        steps=split_steps(rollout.text, config.steps.method),
        answer=rollout.final_answer,
        verdict=Verdict(rollout.verdict),
    )
