"""The losses of a step, by name: one function from logits and labels to a loss a step.

With p = sigmoid(logit) the score, k correct of n graded rollouts, and the soft label k/n
(Math-Shepherd, arXiv 2312.08935, section 3.2, for soft and hard labels):

- `mse`: (p - soft)^2, of the project's first PRM;
- `bce`: -soft log p - (1 - soft) log(1 - p);
- `hard`: the same with the hard label, 0 or 1;
- `beta-binomial`: -log P(k | n, α, β) with α = p·s, β = (1 - p)·s and the concentration
  s = α + β (Skellam 1948, J. R. Stat. Soc. B 10:257; by mean and overdispersion
  1 / (1 + s) as in Griffiths 1973, Biometrics 29:637). The step's true value is drawn
  around p, the rollouts from it: many rollouts weigh more than few, but with limits.

Shapes: B rows, T tokens, N steps of all solutions of a batch, one after the other.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from train.config import LossName, StepWeight

IGNORED = -100.0
"""Marks a step without a target. The trainer of `transformers` counts the entries of
`labels` that are not -100 to weigh the batches of one update."""

_Z_95 = 1.959963984540054  # the normal distribution's 97.5 % point


class StepTargets(NamedTuple):
    """Labels of N steps: soft and hard ones, and counts; float32."""

    soft_N: Tensor
    hard_N: Tensor
    correct_N: Tensor
    graded_N: Tensor


def step_logits(logits_BT1: Tensor, rows_N: Tensor, columns_N: Tensor) -> Tensor:
    """The output at each step's last token, float32: [N]."""
    return logits_BT1.squeeze(-1)[rows_N, columns_N].float()


def step_losses(
    name: LossName, logits_N: Tensor, targets: StepTargets, *, concentration: float
) -> Tensor:
    """The loss of each step: [N], float32. Every step has to be labelled."""
    match name:
        case LossName.MSE:
            return (torch.sigmoid(logits_N) - targets.soft_N).square()
        case LossName.BCE:
            return binary_cross_entropy_with_logits(logits_N, targets.soft_N, reduction="none")
        case LossName.HARD:
            return binary_cross_entropy_with_logits(logits_N, targets.hard_N, reduction="none")
        case LossName.BETA_BINOMIAL:
            return _beta_binomial(logits_N, targets.correct_N, targets.graded_N, concentration)


def step_weights(graded_N: Tensor, soft_N: Tensor, how: StepWeight) -> Tensor:
    """The weight of each labelled step before they are divided by their mean: [N]."""
    match how:
        case StepWeight.NONE:
            return torch.ones_like(graded_N)
        case StepWeight.GRADED:
            return graded_N
        case StepWeight.INTERVAL:
            return 1 - _interval_width(graded_N, soft_N)


def _beta_binomial(logits_N: Tensor, correct_N: Tensor, graded_N: Tensor, s: float) -> Tensor:
    # float64, and logarithms of α and β by themselves: both vanish where the score is sure
    logits_N, correct_N, graded_N = logits_N.double(), correct_N.double(), graded_N.double()
    concentration = torch.as_tensor(s, dtype=torch.float64, device=logits_N.device)
    incorrect_N = graded_N - correct_N
    choices_N = (
        torch.lgamma(graded_N + 1) - torch.lgamma(correct_N + 1) - torch.lgamma(incorrect_N + 1)
    )
    log_likelihood_N = (
        choices_N
        + _log_rising(logsigmoid(logits_N) + concentration.log(), correct_N)
        + _log_rising(logsigmoid(-logits_N) + concentration.log(), incorrect_N)
        - torch.lgamma(concentration + graded_N)
        + torch.lgamma(concentration)
    )
    return -log_likelihood_N.float()


def _log_rising(log_a_N: Tensor, times_N: Tensor) -> Tensor:
    """log(Γ(a + k) / Γ(a)) = log(a (a + 1) … (a + k - 1)): 0 where k is 0."""
    a_N = log_a_N.exp()
    rest_N = torch.lgamma(a_N + times_N.clamp(min=1)) - torch.lgamma(a_N + 1)
    return torch.where(times_N > 0, log_a_N + rest_N, 0.0)


def _interval_width(graded_N: Tensor, soft_N: Tensor) -> Tensor:
    """Of the 95 % Wilson interval (`pipeline.records.wilson_interval`), for many steps."""
    z2 = _Z_95 * _Z_95
    spread_N = soft_N * (1 - soft_N) / graded_N + z2 / (4 * graded_N.square())
    half_N = _Z_95 * spread_N.sqrt() / (1 + z2 / graded_N)
    centre_N = (soft_N + z2 / (2 * graded_N)) / (1 + z2 / graded_N)
    return (centre_N + half_N).clamp(max=1) - (centre_N - half_N).clamp(min=0)
