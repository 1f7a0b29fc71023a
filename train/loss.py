"""The loss: squared error between sigmoid(score) and the Monte-Carlo value of a step.

Soft labels as in Math-Shepherd (arXiv 2312.08935, section 3.2, "soft estimation"), under
the squared error of the project's first PRM. Shapes: B solutions, T tokens, S steps.
"""

import torch
from torch import Tensor

IGNORED = -100.0
"""Marks a step without a target, and padding. The trainer of `transformers` counts the
entries of `labels` that are not -100 to weigh the batches of one update."""


def step_logits(logits_BT1: Tensor, step_positions_BS: Tensor) -> Tensor:
    """The output at each step's last token, float32: [B, S]. Padding reads position 0."""
    return logits_BT1.squeeze(-1).float().gather(1, step_positions_BS)


def squared_error(logits_BS: Tensor, targets_BS: Tensor) -> tuple[Tensor, int]:
    """The sum of the squared errors over labelled steps, and the number of those."""
    is_labelled_BS = targets_BS != IGNORED
    errors_N = torch.sigmoid(logits_BS[is_labelled_BS]) - targets_BS[is_labelled_BS]
    return errors_N.square().sum(), errors_N.numel()
