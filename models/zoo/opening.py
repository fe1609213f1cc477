"""One door to every network: of the zoo, or of the user's own."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from msgspec import Struct

from advisor.domain.workload import is_own_code
from advisor.errors import UsageError
from advisor.models.zoo import building, detectors
from advisor.models.zoo.networks import NO_TARGET, Kind, NetworkInfo, is_read_as_photographs, network_info
from advisor.models.zoo.own import load_own
from advisor.models.zoo.step_facts import Subject

_MASK_RCNN = "maskrcnn_resnet50_fpn"
# COCO's training images show 7.3 objects each (860,001 in 117,266 images that show any).
_OBJECTS = 7
# Sides of those objects, as shares of the image: a quarter to a fortieth of it for most.
_OBJECT_SHARES = (0.05, 0.6)
# Devlin et al., section 3.1: so many words of a text are hidden.
_HIDDEN_SHARE = 0.15


def _objects(info: NetworkInfo, inputs: torch.Tensor) -> Any:
    """For YOLOv3 (batch, 7, 5), class and box in 0..1; for Mask R-CNN a dictionary."""
    shape = (len(inputs), _OBJECTS)
    smallest, largest = _OBJECT_SHARES
    size = smallest * (largest / smallest) ** torch.rand(*shape, 2, device=inputs.device)
    centre = size / 2 + (1 - size) * torch.rand(*shape, 2, device=inputs.device)
    if info.name != "yolov3":
        corners = torch.cat([centre - size / 2, centre + size / 2], dim=-1)
        return _with_masks(info, inputs, corners)
    label = torch.randint(info.classes, (*shape, 1), device=inputs.device).float()
    return torch.cat([label, centre, size], dim=-1)


def _with_masks(info: NetworkInfo, inputs: torch.Tensor, corners: torch.Tensor) -> dict[str, torch.Tensor]:
    """Boxes in pixels, labels above the background's 0, and masks that fill their boxes."""
    height, width = inputs.shape[2:]
    scale = torch.tensor([width, height, width, height], device=inputs.device)
    boxes = corners * scale
    left, top, right, bottom = boxes[..., None, None].unbind(2)
    x = torch.arange(width, device=inputs.device)
    y = torch.arange(height, device=inputs.device)[:, None]
    masks = (x >= left) & (x < right) & (y >= top) & (y < bottom)
    labels = torch.randint(1, info.classes, boxes.shape[:2], device=inputs.device)
    return {"boxes": boxes, "labels": labels, "masks": masks.to(torch.uint8)}


def _sequence_targets(info: NetworkInfo, inputs: torch.Tensor) -> Any:
    rows, length, device = len(inputs), inputs.shape[-1], inputs.device
    if info.name == "bert_base_squad":
        return torch.randint(length, (rows, 2), device=device)
    tokens = torch.randint(info.classes, (rows, length), device=device)
    if info.name == "transformer_big":
        return tokens
    hidden = torch.rand(rows, length, device=device) < _HIDDEN_SHARE
    # One word is always hidden: the mean over none would not be a number.
    hidden[:, 0] = True
    return {"words": tokens.where(hidden, NO_TARGET), "is_next": torch.randint(2, (rows,), device=device)}


class Runnable(Subject, Protocol):
    """A network that can be built and run; batches are tensors, or containers of tensors."""

    @property
    def info(self) -> NetworkInfo:
        """The facts of the network."""

    @property
    def fingerprint(self) -> str:
        """12 hex digits of an own network's file; empty for one of the zoo."""

    @property
    def makes_batches(self) -> bool:
        """True if its batches are made in memory, and not read as photographs."""

    def synthetic_targets(self, inputs: Any) -> Any:
        """Targets that fit the inputs, on their device."""


class BuiltIn(Struct, frozen=True):
    """A network of the zoo."""

    info: NetworkInfo
    fingerprint: str = ""

    @property
    def makes_batches(self) -> bool:
        """Words and decoded thumbnails cost nothing to load: no photographs stand for them."""
        return not is_read_as_photographs(self.info)

    def build(self) -> torch.nn.Module:
        """A new network with random weights."""
        return building.build(self.info.name)

    def synthetic_batch(
        self, batch_size: int, device: str | torch.device = "cpu"
    ) -> tuple[torch.Tensor, Any]:
        """Inputs (batch_size, *input_shape) and targets as `training_loss` takes them."""
        info, shape = self.info, (batch_size, *self.info.input_shape)
        if info.takes_images:
            inputs = torch.rand(shape, device=device)
        else:
            inputs = torch.randint(info.classes, shape, device=device)
        return inputs, self.synthetic_targets(inputs)

    def synthetic_targets(self, inputs: torch.Tensor) -> Any:
        """A tensor, or a dictionary of tensors; each has the batch as its first dimension."""
        info = self.info
        if info.kind is Kind.DETECTION:
            return _objects(info, inputs)
        if info.kind is Kind.SEQUENCE:
            return _sequence_targets(info, inputs)
        # Of an image, of each pixel (batch, height, width), or of each word (batch, unroll).
        places = inputs.shape[2:] if info.takes_images else inputs.shape[1:]
        shape = (len(inputs), *(() if info.kind is Kind.IMAGE else places))
        return torch.randint(info.classes, shape, device=inputs.device)

    def forward(self, network: torch.nn.Module, inputs: torch.Tensor) -> Any:
        """The network's outputs for a batch of inputs, in its present mode."""
        return detectors.forward(network, inputs) if self.info.name == _MASK_RCNN else network(inputs)

    def training_loss(self, network: torch.nn.Module, inputs: torch.Tensor, targets: Any) -> torch.Tensor:
        """The scalar to send back through the network (in training mode), with its forward pass.

        `UsageError` for a batch too small for it to train on."""
        info = self.info
        if len(inputs) < info.min_training_batch:
            raise UsageError(
                f"{info.name} cannot train on a batch of {len(inputs)}: it normalises single "
                "values over the batch",
                hint=f"use --batch-size {info.min_training_batch} or more",
            )
        if info.name == _MASK_RCNN:
            summed: torch.Tensor = detectors.loss(network, inputs, targets)
            return summed
        outputs = network(inputs)
        if info.name == "yolov3":
            return detectors.yolo_loss(outputs, targets)
        if info.name == "bert_base":
            words, is_next = outputs
            hidden_words = _cross_entropy(words.flatten(0, 1), targets["words"].flatten())
            return hidden_words + _cross_entropy(is_next, targets["is_next"])
        if info.kind is Kind.SEGMENTATION:
            return _cross_entropy(outputs["out"], targets)
        if info.kind is Kind.IMAGE:
            return _cross_entropy(outputs, targets)
        # A class for each word; for SQuAD the mean of where the answer starts and where it ends.
        return _cross_entropy(outputs.flatten(0, 1), targets.flatten())


def _cross_entropy(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, classes, ignore_index=NO_TARGET)


def open_network(reference: str) -> Runnable:
    """The network of the zoo with that name, or the user's of `path/to/file.py:build`.

    Raises `UsageError` for an unknown name, and for a file that cannot be used."""
    return load_own(reference) if is_own_code(reference) else BuiltIn(network_info(reference))
