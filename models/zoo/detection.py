"""Mask R-CNN with a ResNet-50 and feature pyramid, from torchvision; torch lives here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from advisor.models.zoo.torchvision_operators import ensure_detection_operators

# A backbone that is fine-tuned trains its last three stages, torchvision's default.
_TRAINED_STAGES = 3
_RESIDUAL_SCALE = 0.2
# exp(6) against 90 classes: every proposal of an untrained network is an object.
_CONFIDENT = 6.0
# Proposals that touch an object at all count as one, in place of those that half cover it.
_TOUCHES = 0.001


def mask_rcnn(classes: int) -> nn.Module:
    """torchvision's maskrcnn_resnet50_fpn as it is fine-tuned, with harmless random weights.

    Unlike other networks, its work depends on what it finds. An untrained one finds nothing and
    leaves its mask head idle; this one is biased to find the most that torchvision keeps: 100
    objects an image in inference, a quarter of 512 proposals an image in training. Images come at
    the size to work at: resizing is preprocessing.
    """
    ensure_detection_operators()
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops.misc import FrozenBatchNorm2d

    backbone = resnet_fpn_backbone(
        backbone_name="resnet50", weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=_TRAINED_STAGES
    )
    _calm(backbone)
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

    `targets`: `boxes` (batch, n, 4) as left, top, right, bottom in pixels, `labels` (batch, n)
    and `masks` (batch, n, height, width) of 0 and 1.
    """
    each = [{name: values[index] for name, values in targets.items()} for index in range(len(images))]
    losses = network(list(images.unbind()), each)
    return torch.stack(list(losses.values())).sum()


def _calm(backbone: nn.Module) -> None:
    """Scale down residual branches: frozen normalisation does not tame random weights."""
    for name, buffer in backbone.named_buffers():
        if name.endswith("bn3.weight"):
            buffer.fill_(_RESIDUAL_SCALE)
