"""Rectangles: how much they overlap, and which of many to keep; torch lives here."""

from __future__ import annotations

import torch


def pairwise_iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Intersection over union: boxes (..., m, 4) and (..., n, 4) to (..., m, n).

    A box is (left, top, right, bottom). Two boxes without area give NaN, which is above no
    threshold.
    """
    low = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    high = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (_area(first)[..., :, None] + _area(second)[..., None, :] - shared)


def non_maximum_suppression(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float
) -> torch.Tensor:
    """Indices of the boxes (n, 4) kept, best score first: what `torchvision.ops.nms` gives.

    A box falls when it overlaps a better one that is kept by more than the threshold. Instead
    of going through them one by one, all are judged by the verdicts of the round before, until
    no verdict changes: after k rounds the best k are final, and few rounds are needed.
    """
    order = scores.sort(descending=True, stable=True).indices
    ranked = boxes[order]
    overlaps = (pairwise_iou(ranked, ranked) > iou_threshold).triu(diagonal=1)
    kept = torch.ones(len(order), dtype=torch.bool, device=boxes.device)
    while True:
        judged = ~(overlaps & kept[:, None]).any(dim=0)
        if torch.equal(judged, kept):
            return order[kept]
        kept = judged


def _area(boxes: torch.Tensor) -> torch.Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
