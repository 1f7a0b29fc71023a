"""Attention over solutions that stand one after the other in one row, without padding.

An attention function of `transformers` (its `AttentionInterface`): each solution is a call
of PyTorch's `scaled_dot_product_attention` of its own, causal and without a mask, which is
the fast kernel on CPU and CUDA alike. So no token sees another solution, and none is paid
for that nobody sees: a block-diagonal mask over the row costs the square of its length.
Solutions longer than a layer's sliding window get a mask of their own size.

The lengths come by the keyword `solution_lengths` of the model's call, which the models hand
down to their attention. Without it this is `sdpa` as it is. What a model adds to attention
otherwise (soft caps, biases) is not covered: `train.batches.require_packable` finds that.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

PACKED = "stepmark_packed"
"""The name for `model.set_attn_implementation`."""


def packed_attention(
    module: torch.nn.Module,
    query_BHTD: Tensor,
    key_BKTD: Tensor,
    value_BKTD: Tensor,
    attention_mask: Tensor | None,
    *,
    solution_lengths: Sequence[int] | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The output [B, T, H, D], B = 1 where there are `solution_lengths`, which sum to T."""
    if solution_lengths is None:
        return sdpa_attention_forward(
            module, query_BHTD, key_BKTD, value_BKTD, attention_mask, **options
        )
    pieces = (
        tensor.split(list(solution_lengths), dim=2) for tensor in (query_BHTD, key_BKTD, value_BKTD)
    )
    outputs = [
        sdpa_attention_forward(
            module, query, key, value, _window_mask(query, sliding_window), **options
        )[0]
        for query, key, value in zip(*pieces, strict=True)
    ]
    return torch.cat(outputs, dim=1), None


def _window_mask(query_BHTD: Tensor, window: int | None) -> Tensor | None:
    """What each token of a solution sees, [1, 1, T, T]; None for all before it."""
    length = query_BHTD.shape[2]
    if window is None or length <= window:
        return None
    at_T = torch.arange(length, device=query_BHTD.device)
    distance_TT = at_T[:, None] - at_T[None, :]
    return ((distance_TT >= 0) & (distance_TT < window))[None, None]


def _no_mask(*arguments: Any, attention_mask: Tensor | None = None, **options: Any) -> Any:
    """A batch without a mask is packed, and needs none; any other is as for `sdpa`."""
    if attention_mask is None:
        return None
    return sdpa_mask(*arguments, attention_mask=attention_mask, **options)


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)
