"""What YOLOv3 learns by; torch lives here.

After section 2 of arXiv:1804.02767: each true box belongs to the anchor of the best shape, at the
cell of its centre; squared error for the box, cross entropy for objectness and classes; predictions
that overlap a true box by more than half without owning it are not punished. Every tensor's shape
depends on the batch's shape alone, so a GPU is never waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from models.zoo.boxes import pairwise_iou
from models.zoo.yolo import ANCHORS_PER_CELL

# Width and height in pixels, from the paper's clusters on COCO; coarse grid first.
ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
_COARSEST_STRIDE = 32
_IGNORED_ABOVE_IOU = 0.5


@dataclass(frozen=True, slots=True)
class _Truth:
    """True boxes of a batch: (batch, n) classes and owners, (batch, n, 4) boxes in 0..1."""

    classes: torch.Tensor
    boxes: torch.Tensor
    real: torch.Tensor
    owner: torch.Tensor


def yolo_loss(outputs: tuple[torch.Tensor, ...], targets: torch.Tensor) -> torch.Tensor:
    """The mean loss of an image.

    `outputs` are `YoloV3`'s grids; `targets` (batch, n, 5) are class, centre x, centre y, width
    and height as shares of the image. A box without width is padding.
    """
    side = _COARSEST_STRIDE * outputs[0].shape[2]
    grids = [grid.float() for grid in outputs]
    anchors = torch.tensor(ANCHORS, dtype=torch.float32, device=targets.device) / side
    truth = _truth(targets.float(), anchors)
    losses = [_grid_loss(grid, anchors[level], truth, level) for level, grid in enumerate(grids)]
    return torch.stack(losses).sum() / len(targets)


def _truth(targets: torch.Tensor, anchors: torch.Tensor) -> _Truth:
    sizes = targets[..., 3:]
    shapes = pairwise_iou(_centred(sizes), _centred(anchors.flatten(0, 1)))
    real = sizes[..., 0] > 0
    return _Truth(targets[..., 0].long(), targets[..., 1:], real, shapes.argmax(dim=-1))


def _centred(sizes: torch.Tensor) -> torch.Tensor:
    return torch.cat([-sizes / 2, sizes / 2], dim=-1)


def _grid_loss(
    grid: torch.Tensor, anchors: torch.Tensor, truth: _Truth, level: int
) -> torch.Tensor:
    cells = grid.shape[2]
    flat = grid.flatten(1, 3)
    owned = (truth.real & (truth.owner // ANCHORS_PER_CELL == level)).float()
    anchor = truth.owner % ANCHORS_PER_CELL
    column, row = (truth.boxes[..., :2] * cells).long().clamp(0, cells - 1).unbind(-1)
    index = (anchor * cells + row) * cells + column
    chosen = flat.gather(1, index[..., None].expand(-1, -1, flat.shape[-1]))
    return (
        _box_loss(chosen, anchors[anchor], truth, torch.stack([column, row], -1), cells, owned)
        + _class_loss(chosen, truth, owned)
        + _objectness_loss(flat, _decoded(grid, anchors), truth, index, owned)
    )


def _box_loss(
    chosen: torch.Tensor,
    anchors: torch.Tensor,
    truth: _Truth,
    cell: torch.Tensor,
    cells: int,
    owned: torch.Tensor,
) -> torch.Tensor:
    """Small boxes weigh up to twice as much, as in the paper's own implementation."""
    offset = truth.boxes[..., :2] * cells - cell
    stretch = torch.log(truth.boxes[..., 2:].clamp(min=1e-6) / anchors)
    error = (chosen[..., :2].sigmoid() - offset) ** 2 + (chosen[..., 2:4] - stretch) ** 2
    weight = owned * (2 - truth.boxes[..., 2] * truth.boxes[..., 3])
    return (weight[..., None] * error).sum()


def _class_loss(chosen: torch.Tensor, truth: _Truth, owned: torch.Tensor) -> torch.Tensor:
    logits = chosen[..., 5:]
    wanted = functional.one_hot(truth.classes, logits.shape[-1]).float()
    error = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    return (owned[..., None] * error).sum()


def _objectness_loss(
    flat: torch.Tensor,
    decoded: torch.Tensor,
    truth: _Truth,
    index: torch.Tensor,
    owned: torch.Tensor,
) -> torch.Tensor:
    wanted = torch.zeros_like(flat[..., 4]).scatter_reduce(1, index, owned, reduce="amax")
    overlap = pairwise_iou(decoded, _corners(truth.boxes)).nan_to_num(0.0)
    close = (overlap * truth.real[:, None, :]).amax(dim=-1) > _IGNORED_ABOVE_IOU
    counted = (~close | (wanted > 0)).float()
    error = functional.binary_cross_entropy_with_logits(flat[..., 4], wanted, reduction="none")
    return (counted * error).sum()


@torch.no_grad()
def _decoded(grid: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    """Predicted boxes as corners in shares of the image: (batch, anchors x cells x cells, 4)."""
    cells = grid.shape[2]
    steps = torch.arange(cells, device=grid.device)
    rows, columns = torch.meshgrid(steps, steps, indexing="ij")
    centre = (grid[..., :2].sigmoid() + torch.stack([columns, rows], -1)) / cells
    # Beyond e**4 no anchor fits into an image; unbounded, early training overflows.
    size = grid[..., 2:4].clamp(max=4).exp() * anchors[:, None, None, :]
    return _corners(torch.cat([centre, size], -1)).flatten(1, 3)


def _corners(boxes: torch.Tensor) -> torch.Tensor:
    return torch.cat([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)
