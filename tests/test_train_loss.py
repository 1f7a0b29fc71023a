import math

import pytest
import torch

from train.loss import IGNORED, squared_error, step_logits


def test_loss_is_the_hand_computed_one() -> None:
    # sigmoid(ln 3) = 0.75, sigmoid(-ln 3) = 0.25, sigmoid(0) = 0.5
    logits_BS = torch.tensor([[math.log(3), -math.log(3), 0.0], [0.0, 5.0, -5.0]])
    targets_BS = torch.tensor([[0.5, 1.0, 0.5], [0.0, IGNORED, IGNORED]])
    total, num_labelled = squared_error(logits_BS, targets_BS)
    assert num_labelled == 4
    assert total.item() == pytest.approx(0.0625 + 0.5625 + 0.0 + 0.25, abs=1e-6)


def test_scores_are_read_at_each_samples_own_positions() -> None:
    logits_BT1 = torch.arange(8.0).reshape(2, 4, 1)
    positions_BS = torch.tensor([[1, 3], [0, 0]])
    assert step_logits(logits_BT1, positions_BS).tolist() == [[1.0, 3.0], [4.0, 4.0]]


def test_an_ignored_step_gets_no_gradient() -> None:
    logits_BS = torch.tensor([[0.3, 0.3]], requires_grad=True)
    total, _ = squared_error(logits_BS, torch.tensor([[1.0, IGNORED]]))
    total.backward()
    assert logits_BS.grad is not None
    assert logits_BS.grad[0, 0] < 0
    assert logits_BS.grad[0, 1] == 0


def test_half_precision_is_widened() -> None:
    logits_BT1 = torch.zeros(1, 2, 1, dtype=torch.bfloat16)
    assert step_logits(logits_BT1, torch.tensor([[1]])).dtype is torch.float32
