"""Detectors: YOLOv3 (Redmon and Farhadi, arXiv:1804.02767; Darknet-53 and three heads) and Mask R-CNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from msgspec import Struct
from torch import nn
from torch.nn import functional

from advisor.models.zoo.torchvision_operators import ensure_detection_operators, pairwise_iou

ANCHORS_PER_CELL = 3
_RESIDUAL_BLOCKS = (1, 2, 8, 8, 4)


def _convolution(channels: int, filters: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(filters),
        nn.LeakyReLU(0.1, inplace=True),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = _convolution(channels, channels // 2, 1)
        self.widen = _convolution(channels // 2, channels, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = inputs + self.widen(self.narrow(inputs))
        return outputs


def _stage(channels: int, blocks: int) -> nn.Sequential:
    """Halves the resolution, doubles the channels, and refines."""
    halved = _convolution(channels, 2 * channels, 3, stride=2)
    return nn.Sequential(halved, *(_Residual(2 * channels) for _ in range(blocks)))


class _Head(nn.Module):
    """Five convolutions that the next finer head builds on, and a prediction beside them."""

    def __init__(self, channels: int, filters: int, values: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            _convolution(channels, filters, 1),
            _convolution(filters, 2 * filters, 3),
            _convolution(2 * filters, filters, 1),
            _convolution(filters, 2 * filters, 3),
            _convolution(2 * filters, filters, 1),
        )
        self.prediction = nn.Sequential(
            _convolution(filters, 2 * filters, 3), nn.Conv2d(2 * filters, ANCHORS_PER_CELL * values, 1)
        )
        self.values = values

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        trunk = self.trunk(inputs)
        cells = self.prediction(trunk).unflatten(1, (ANCHORS_PER_CELL, self.values))
        return trunk, cells.permute(0, 1, 3, 4, 2)


class _Finer(nn.Sequential):
    """To half the channels and twice the resolution."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            _convolution(channels, channels // 2, 1), nn.Upsample(scale_factor=2, mode="nearest")
        )


class YoloV3(nn.Module):
    """Images (batch, 3, side, side), side a multiple of 32, to three grids of raw predictions.

    Each grid is (batch, 3 anchors, cells, cells, 5 + classes): x, y, width, height, objectness and classes
    before their sigmoids and exponentials, from the coarse grid (side / 32) to the fine one (side / 8).
    61,949,149 parameters for 80 classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = _convolution(3, 32, 3)
        self.stages = nn.ModuleList(
            _stage(32 * 2**index, blocks) for index, blocks in enumerate(_RESIDUAL_BLOCKS)
        )
        values = 5 + classes
        self.heads = nn.ModuleList(
            [_Head(1024, 512, values), _Head(768, 256, values), _Head(384, 128, values)]
        )
        self.finer = nn.ModuleList([_Finer(512), _Finer(256)])

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The three grids of raw predictions that the class describes."""
        features = self.stem(images)
        levels = []
        for stage in self.stages:
            features = stage(features)
            levels.append(features)
        trunk, coarse = self.heads[0](levels[4])
        trunk, middle = self.heads[1](torch.cat([self.finer[0](trunk), levels[3]], dim=1))
        _, fine = self.heads[2](torch.cat([self.finer[1](trunk), levels[2]], dim=1))
        return coarse, middle, fine


# Width and height in pixels, from the paper's clusters on COCO; coarse grid first.
ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
_COARSEST_STRIDE = 32
_IGNORED_ABOVE_IOU = 0.5


class _Truth(Struct, frozen=True):
    """True boxes of a batch: (batch, n) classes and owners, (batch, n, 4) boxes in 0..1."""

    classes: torch.Tensor
    boxes: torch.Tensor
    real: torch.Tensor
    owner: torch.Tensor


def yolo_loss(outputs: tuple[torch.Tensor, ...], targets: torch.Tensor) -> torch.Tensor:
    """The mean loss of an image.

    `outputs` are `YoloV3`'s grids; `targets` (batch, n, 5) are class, centre x, centre y, width and height as
    shares of the image. A box without width is padding."""
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


def _grid_loss(grid: torch.Tensor, anchors: torch.Tensor, truth: _Truth, level: int) -> torch.Tensor:
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
    flat: torch.Tensor, decoded: torch.Tensor, truth: _Truth, index: torch.Tensor, owned: torch.Tensor
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


# A backbone that is fine-tuned trains its last three stages, torchvision's default.
_TRAINED_STAGES = 3
_RESIDUAL_SCALE = 0.2
# exp(6) against 90 classes: every proposal of an untrained network is an object.
_CONFIDENT = 6.0
# Proposals that touch an object at all count as one, in place of those that half cover it.
_TOUCHES = 0.001


def mask_rcnn(classes: int) -> nn.Module:
    """torchvision's maskrcnn_resnet50_fpn as it is fine-tuned, with harmless random weights.

    Unlike other networks, its work depends on what it finds. An untrained one finds nothing and leaves its
    mask head idle; this one is biased to find the most that torchvision keeps: 100 objects an image in
    inference, a quarter of 512 proposals an image in training. Images come at the size to work at: resizing
    is preprocessing."""
    ensure_detection_operators()
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops.misc import FrozenBatchNorm2d

    backbone = resnet_fpn_backbone(
        backbone_name="resnet50", weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=_TRAINED_STAGES
    )
    # Frozen normalisation does not tame the random weights of residual branches: they are scaled down.
    for name, buffer in backbone.named_buffers():
        if name.endswith("bn3.weight"):
            buffer.fill_(_RESIDUAL_SCALE)
    network: nn.Module = MaskRCNN(
        backbone,
        num_classes=classes,
        box_fg_iou_thresh=_TOUCHES,
        box_bg_iou_thresh=_TOUCHES,
        _skip_resize=True,
    )
    predictor: Any = network.roi_heads
    with torch.no_grad():
        predictor.box_predictor.cls_score.bias[1] = _CONFIDENT
    return network


def forward(network: nn.Module, images: torch.Tensor) -> Any:
    """Images (batch, 3, height, width) to one dictionary of findings an image (in eval mode)."""
    return network(list(images.unbind()))


def loss(network: nn.Module, images: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> Any:
    """The sum of the five losses that torchvision's Mask R-CNN returns in training mode.

    `targets`: `boxes` (batch, n, 4) as left, top, right, bottom in pixels, `labels` (batch, n) and `masks`
    (batch, n, height, width) of 0 and 1."""
    each = [{name: values[index] for name, values in targets.items()} for index in range(len(images))]
    losses = network(list(images.unbind()), each)
    return torch.stack(list(losses.values())).sum()
