"""The report's figures as JSON: counts beside every share, shares to six decimals."""

from collections import Counter
from typing import Any

from grading.verdict import Verdict
from labeling.agreement import Agreement
from labeling.noise import CHANCE, LabelNoise
from labeling.rollout_noise import RolloutNoise
from pipeline.records import wilson_interval

Figures = dict[str, Any]


def label_noise_figures(labels: LabelNoise) -> Figures:
    """The distribution of labels: MC values, by position, first errors."""
    return {
        "solutions": labels.num_solutions,
        "solutions_by_verdict": {
            verdict.value: count for verdict, count in sorted(labels.solution_verdicts.items())
        },
        "steps": labels.num_steps,
        "labels": labels.num_labels,
        "steps_without_label": labels.graded[0],
        "dead": labels.num_dead(),
        "mc_values": labels.mc_values(),
        "by_position": [
            {
                "step_index": index,
                "steps": one.num_steps,
                "mean_mc_value": round(one.sum_mc_value / one.num_steps, 6),
                "share_hard_false": round(one.num_dead / one.num_steps, 6),
            }
            for index, one in sorted(labels.positions.items())
        ],
        "first_errors": {str(index): n for index, n in sorted(labels.first_errors.items())},
    }


def intervals_figures(labels: LabelNoise, *, target: float) -> Figures:
    """Widths of the 95 % intervals, and how many are wider than `target`."""
    return {
        "target_width": target,
        "wider_than_target": labels.num_wider_than(target),
        "share_wider": _share(labels.num_wider_than(target), labels.num_labels),
        "median_width": round(labels.median_width(), 6) if labels.num_labels else None,
        "widths": labels.interval_widths(),
    }


def rollouts_per_step_figures(labels: LabelNoise) -> Figures:
    """Steps by number of graded, fresh and reused rollouts; last steps have none."""
    fresh, reused = _sum(labels.fresh), _sum(labels.reused)
    return {
        "graded": _by_number(labels.graded),
        "fresh": _by_number(labels.fresh),
        "reused": _by_number(labels.reused),
        "mean_graded": _share(_sum(labels.graded), labels.graded.total()),
        "share_reused": _share(reused, fresh + reused),
    }


def revived_figures(labels: LabelNoise) -> Figures:
    """Steps without a correct rollout before one with a correct rollout."""
    return {
        "steps": labels.num_revived(),
        "share_of_dead": _share(labels.num_revived(), labels.num_dead()),
        "solutions": labels.num_revived_solutions,
        "share_of_solutions": _share(labels.num_revived_solutions, labels.num_solutions),
        "by_own_ending": labels.num_revived_by_end,
        "chance_level": CHANCE,
        "beyond_chance": labels.num_revived(below=CHANCE),
    }


def rollouts_figures(rollouts: RolloutNoise) -> Figures:
    """Rollouts by verdict and reason, and the truncated ones."""
    total = rollouts.num_rollouts
    return {
        "rollouts": total,
        "solutions": rollouts.num_solutions,
        "generated_tokens": rollouts.num_tokens,
        "by_verdict": {verdict.value: n for verdict, n in rollouts.by_verdict.items()},
        "share_undecided": _share(rollouts.by_verdict[Verdict.UNDECIDED], total),
        "truncated": rollouts.num_truncated,
        "share_truncated": _share(rollouts.num_truncated, total),
        "cut_off": rollouts.num_cut_off,
        "reasons": [
            {"verdict": verdict.value, "reason": reason, "rollouts": n, "share": _share(n, total)}
            for (verdict, reason), n in sorted(
                rollouts.reasons.items(), key=lambda one: (one[0][0], -one[1], one[0][1])
            )
        ],
    }


def human_figures(agreement: Agreement) -> Figures:
    """Agreement with human labels; the interval is of 95 % (Wilson)."""
    num_equal = agreement.both_good + agreement.both_bad
    low, high = wilson_interval(num_equal, agreement.num_prefixes)
    return {
        "human_steps": agreement.human.num_steps,
        "solutions_of_shared_questions": agreement.num_solutions,
        "prefixes": agreement.num_prefixes,
        "agreement": _rounded(agreement.agreement),
        "agreement_low": round(low, 6),
        "agreement_high": round(high, 6),
        "kappa": _rounded(agreement.kappa),
        "both_good": agreement.both_good,
        "both_bad": agreement.both_bad,
        "our_good_human_bad": agreement.our_good_human_bad,
        "our_bad_human_good": agreement.our_bad_human_good,
        "wrong_solutions": agreement.num_wrong_solutions,
        "wrong_solutions_found": agreement.num_wrong_found,
        "right_solutions": agreement.num_right_solutions,
        "right_solutions_found": agreement.num_right_found,
        "first_error_f1": _rounded(agreement.first_error_f1),
    }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _sum(counts: Counter[int]) -> int:
    return sum(number * count for number, count in counts.items())


def _by_number(counts: Counter[int]) -> dict[str, int]:
    return {str(number): count for number, count in sorted(counts.items())}
