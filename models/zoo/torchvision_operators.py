"""torchvision's compiled detection operators in plain torch, for where they do not load.

Only Mask R-CNN needs them. They compute the same (tests compare them with torchvision's own reference code)
but at their own speed, so `substituted_operators` says when they are in use: a rate measured with them is not
a rate of torchvision."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional

OPERATORS = ("torchvision::nms", "torchvision::roi_align")
# Registrations vanish with the library object, so it is kept for the process's life.
_registered: list[Any] = []


def ensure_detection_operators() -> None:
    """Make Mask R-CNN's operators work, in plain torch when, and only when, they are missing."""
    import_torchvision()
    from torchvision import extension, ops
    from torchvision.models.detection import roi_heads

    if extension._has_ops() or _registered:
        return
    make_library: Any = torch.library.Library  # carries no types
    library = make_library("torchvision", "IMPL")
    for backend in ("CPU", "CUDA"):
        library.impl("nms", non_maximum_suppression, backend)
    _registered.append(library)
    # `boxes.nms` asks for the compiled library before it calls the operator.
    ops.boxes._assert_has_ops = lambda: None
    ops.poolers.roi_align = roi_align
    roi_heads.roi_align = roi_align


def substituted_operators() -> tuple[str, ...]:
    """Operators of torchvision that plain torch stands in for in this process."""
    return OPERATORS if _registered else ()


def roi_align(
    input: torch.Tensor,
    boxes: torch.Tensor | Sequence[torch.Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> torch.Tensor:
    """`torchvision.ops.roi_align` in plain torch: features (n, channels, h, w) to (boxes, channels, *size).

    Each bin is the mean of a grid of bilinear samples: sampling_ratio x sampling_ratio of them, or one a
    pixel when the ratio is not positive (He et al., arXiv:1703.06870, section 3)."""
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    rows = boxes if isinstance(boxes, torch.Tensor) else _with_image_index(boxes)
    offset = 0.5 if aligned else 0.0
    corners = rows[:, 1:] * spatial_scale - offset
    sizes = corners[:, 2:] - corners[:, :2]
    if not aligned:
        sizes = sizes.clamp(min=1.0)
    bins = torch.tensor([width, height], dtype=sizes.dtype, device=sizes.device)
    if sampling_ratio > 0:
        samples = torch.full_like(sizes, sampling_ratio, dtype=torch.int64)
    else:
        samples = (sizes / bins).ceil().long()
    demands = torch.cat([rows[:, :1].long(), samples], dim=1)
    alike, group = torch.unique(demands, dim=0, return_inverse=True)
    output = input.new_zeros(len(rows), input.shape[1], height, width)
    for number, (image, across, down) in enumerate(alike.tolist()):
        if min(across, down) < 1:
            continue  # a box without area has no samples, and stays zero
        members = (group == number).nonzero().squeeze(1)
        box = torch.cat([corners[members, :2], sizes[members]], dim=1)
        points = (height, width, down, across)
        output = output.index_copy(0, members, _pooled(input[image], box, points))
    return output


def _with_image_index(boxes: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([torch.cat([box.new_full((len(box), 1), i), box], 1) for i, box in enumerate(boxes)])


def _pooled(features: torch.Tensor, boxes: torch.Tensor, points: tuple[int, int, int, int]) -> torch.Tensor:
    """(channels, h, w) under k boxes (left, top, width, height) to (k, channels, rows, columns).

    `points` are rows and columns of bins, and samples down and across each bin."""
    rows, columns, down, across = points
    y, y_inside = _places(boxes[:, 1], boxes[:, 3], rows * down, features.shape[1])
    x, x_inside = _places(boxes[:, 0], boxes[:, 2], columns * across, features.shape[2])
    inside = y_inside[:, :, None] & x_inside[:, None, :]
    shape = inside.shape
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)
    # 16-bit numbers cannot tell neighbouring places apart.
    precise = torch.promote_types(features.dtype, torch.float32)
    sampled = functional.grid_sample(
        features[None].to(precise),
        grid.flatten(0, 1)[None].to(precise),
        padding_mode="border",
        align_corners=True,
    )
    sampled = sampled.reshape(len(features), *inside.shape) * inside
    return functional.avg_pool2d(sampled.transpose(0, 1), (down, across)).to(features.dtype)


def _places(
    start: torch.Tensor, length: torch.Tensor, points: int, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinates of k x points samples in `grid_sample`'s units, and which of them lie inside.

    A sample more than a pixel outside of the features is zero; a nearer one is drawn inside."""
    steps = (torch.arange(points, device=start.device, dtype=start.dtype) + 0.5) / points
    positions = start[:, None] + steps * length[:, None]
    inside = (positions >= -1) & (positions <= size)
    return positions.clamp(0, size - 1) * (2 / max(size - 1, 1)) - 1, inside


_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# A library's registrations vanish with the object, so it is kept for the process's life.
_declared: list[Any] = []


def import_torchvision() -> ModuleType:
    """`torchvision`, with missing operators declared when, and only when, they are missing.

    Raises ImportError where torchvision is not installed, RuntimeError for any other fault."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    _declare_missing_operators()
    _forget_half_imported()
    return importlib.import_module("torchvision")


def _declare_missing_operators() -> None:
    import torch

    make_library: Any = torch.library.Library  # carries no types
    library = make_library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)


def _forget_half_imported() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]


def pairwise_iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Intersection over union: boxes (..., m, 4) and (..., n, 4) to (..., m, n).

    A box is (left, top, right, bottom). Two boxes without area give NaN, which is above no threshold."""
    low = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    high = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (_area(first)[..., :, None] + _area(second)[..., None, :] - shared)


def non_maximum_suppression(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of the boxes (n, 4) kept, best score first: what `torchvision.ops.nms` gives.

    A box falls when it overlaps a better one that is kept by more than the threshold. Instead of going
    through them one by one, all are judged by the verdicts of the round before, until no verdict changes:
    after k rounds the best k are final, and few rounds are needed."""
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
