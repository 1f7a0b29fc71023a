import math

import pytest
import torch
from scipy.stats import betabinom
from torch.nn.functional import binary_cross_entropy

from pipeline.records import wilson_interval
from train.config import LossName, StepWeight
from train.loss import StepTargets, step_logits, step_losses, step_weights

LN3 = math.log(3)  # sigmoid(ln 3) = 0.75, sigmoid(-ln 3) = 0.25


def targets(*rows: tuple[float, bool, int, int]) -> StepTargets:
    """Soft label, hard label, correct and graded rollouts a step."""
    return StepTargets(*torch.tensor(rows, dtype=torch.float32).T)


TARGETS = targets((0.5, True, 4, 8), (1.0, True, 10, 10), (0.0, False, 0, 16), (0.125, True, 1, 8))
LOGITS_N = torch.tensor([LN3, -LN3, 0.0, 2.5])


def losses(name: LossName, logits_N: torch.Tensor = LOGITS_N, s: float = 8.0) -> list[float]:
    return step_losses(name, logits_N, TARGETS, concentration=s).tolist()


def test_squared_error_by_hand() -> None:
    last = (1 / (1 + math.exp(-2.5)) - 0.125) ** 2
    assert losses(LossName.MSE) == pytest.approx([0.0625, 0.5625, 0.25, last], abs=1e-6)


def test_cross_entropies_by_hand_and_against_torch() -> None:
    half = -(math.log(0.75) + math.log(0.25)) / 2
    soft = losses(LossName.BCE)
    assert soft[:3] == pytest.approx([half, math.log(4), math.log(2)], abs=1e-6)
    hard = losses(LossName.HARD)
    assert hard[:3] == pytest.approx([-math.log(0.75), math.log(4), math.log(2)], abs=1e-6)
    scores_N = LOGITS_N.sigmoid()
    for mine, labels_N in ((soft, TARGETS.soft_N), (hard, TARGETS.hard_N)):
        expected = binary_cross_entropy(scores_N, labels_N, reduction="none").tolist()
        assert mine == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("s", [0.5, 2.0, 8.0, 1000.0])
def test_beta_binomial_is_scipys(s: float) -> None:
    expected = [
        -betabinom.logpmf(int(k), int(n), score * s, (1 - score) * s)
        for k, n, score in zip(
            TARGETS.correct_N.tolist(),
            TARGETS.graded_N.tolist(),
            LOGITS_N.double().sigmoid().tolist(),
            strict=True,
        )
    ]
    assert losses(LossName.BETA_BINOMIAL, s=s) == pytest.approx(expected, rel=1e-5)


def test_beta_binomial_by_hand() -> None:
    # score 1/2 and s = 2: α = β = 1, every count from 0 to n is as likely
    flat = step_losses(LossName.BETA_BINOMIAL, torch.zeros(4), TARGETS, concentration=2.0)
    assert flat.tolist() == pytest.approx([math.log(9), math.log(11), math.log(17), math.log(9)])


@pytest.mark.parametrize("name", LossName)
@pytest.mark.parametrize("logit", [-1000.0, -100.0, 100.0, 1000.0])
def test_sure_scores_have_finite_losses_and_gradients(name: LossName, logit: float) -> None:
    logits_N = torch.full((4,), logit, requires_grad=True)
    step_losses(name, logits_N, TARGETS, concentration=8.0).sum().backward()
    assert logits_N.grad is not None
    assert torch.isfinite(logits_N.grad).all()
    if name is LossName.BETA_BINOMIAL:  # pulled back, also from where the score is 0 or 1
        assert (logits_N.grad[[0, 3]].sign() == math.copysign(1, logit)).all()


@pytest.mark.parametrize("name", LossName)
def test_the_least_loss_is_at_the_label(name: LossName) -> None:
    wanted = TARGETS.hard_N if name is LossName.HARD else TARGETS.soft_N
    grid = torch.linspace(-9, 9, 1801)
    for step in range(4):
        one = StepTargets(*(column[step].expand(len(grid)) for column in TARGETS))
        best = grid[step_losses(name, grid, one, concentration=8.0).argmin()].sigmoid().item()
        # a concentration of 8 beside 8 rollouts draws the best score a little to the rim
        slack = 0.05 if name is LossName.BETA_BINOMIAL else 0.003
        assert best == pytest.approx(wanted[step].item(), abs=slack)


def test_scores_are_read_at_each_steps_own_place() -> None:
    logits_BT1 = torch.arange(8.0).reshape(2, 4, 1)
    places = (torch.tensor([0, 0, 1]), torch.tensor([1, 3, 0]))
    assert step_logits(logits_BT1, *places).tolist() == [1.0, 3.0, 4.0]


def test_half_precision_is_widened() -> None:
    logits_BT1 = torch.zeros(1, 2, 1, dtype=torch.bfloat16)
    assert step_logits(logits_BT1, torch.tensor([0]), torch.tensor([1])).dtype is torch.float32


def test_weights_by_count_and_by_interval() -> None:
    graded_N, soft_N = TARGETS.graded_N, TARGETS.soft_N
    assert step_weights(graded_N, soft_N, StepWeight.NONE).tolist() == [1.0] * 4
    assert step_weights(graded_N, soft_N, StepWeight.GRADED).tolist() == [8, 10, 16, 8]
    expected = []
    for correct, graded in ((4, 8), (10, 10), (0, 16), (1, 8)):
        low, high = wilson_interval(correct, graded)
        expected.append(1 - (high - low))
    assert step_weights(graded_N, soft_N, StepWeight.INTERVAL).tolist() == pytest.approx(
        expected, abs=1e-6
    )
