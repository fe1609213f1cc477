"""One door to every network: of the zoo, or of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from msgspec import Struct

from advisor.domain.workload import is_own
from advisor.errors import UsageError
from advisor.models.zoo import building, capture
from advisor.models.zoo.networks import NO_TARGET, Kind, NetworkInfo, is_read_as_photographs, network_info
from advisor.models.zoo.own import load_own

# COCO's training images show 7.3 objects each (860,001 in 117,266 images that show any).
_OBJECTS = 7
# Sides of those objects, as shares of the image: a quarter to a fortieth of it for most.
_OBJECT_SHARES = (0.05, 0.6)
# Devlin et al., section 3.1: so many words of a text are hidden.
_HIDDEN_SHARE = 0.15


def synthetic_batch(
    name: str, batch_size: int, device: str | torch.device = "cpu", *, pixels: int | None = None
) -> tuple[torch.Tensor, Any]:
    """Inputs (batch_size, *input_shape) and targets as `training_loss` takes them.

    `pixels` asks for images of another side than the network's own (fully convolutional ones
    take many). Raises `UsageError` for an unknown network, or `pixels` where words are taken.
    """
    info = network_info(name)
    inputs = _inputs(info, batch_size, device, pixels)
    return inputs, synthetic_targets(name, inputs)


def synthetic_targets(name: str, inputs: torch.Tensor) -> Any:
    """Targets for `inputs`, on their device: for data sets whose own labels are of another kind.

    A tensor, or a dictionary of tensors; each has the batch as its first dimension.
    """
    info = network_info(name)
    by_kind: Mapping[Kind, Callable[[NetworkInfo, torch.Tensor], Any]] = {
        Kind.IMAGE: _image_classes,
        Kind.TEXT: _class_everywhere,
        Kind.SEGMENTATION: _class_everywhere,
        Kind.DETECTION: _objects,
        Kind.SEQUENCE: _sequence_targets,
    }
    return by_kind[info.kind](info, inputs)


def _inputs(
    info: NetworkInfo, batch_size: int, device: str | torch.device, pixels: int | None
) -> torch.Tensor:
    if info.takes_images:
        side = pixels or info.input_pixels
        return torch.rand(batch_size, 3, side, side, device=device)
    if pixels is not None:
        raise UsageError(
            "{info} takes words, not images", hint="leave out the number of pixels", info=info.name
        )
    return torch.randint(info.classes, (batch_size, *info.input_shape), device=device)


def _image_classes(info: NetworkInfo, inputs: torch.Tensor) -> torch.Tensor:
    return torch.randint(info.classes, (len(inputs),), device=inputs.device)


def _class_everywhere(info: NetworkInfo, inputs: torch.Tensor) -> torch.Tensor:
    """A class for each pixel (batch, height, width), or for each word (batch, unroll)."""
    places = inputs.shape[2:] if info.takes_images else inputs.shape[1:]
    return torch.randint(info.classes, (len(inputs), *places), device=inputs.device)


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


class Runnable(Protocol):
    """A network that can be built and run; batches are tensors, or containers of tensors."""

    @property
    def info(self) -> NetworkInfo:
        """The facts of the network."""

    @property
    def fingerprint(self) -> str:
        """12 hex digits of an own network's file; empty for one of the zoo."""

    @property
    def makes_batches(self) -> bool:
        """Whether its batches are made in memory, and not read as photographs."""

    def build(self) -> torch.nn.Module:
        """A new network on the CPU."""

    def synthetic_batch(self, batch_size: int, device: str | torch.device = "cpu") -> tuple[Any, Any]:
        """Inputs and targets on the device."""

    def synthetic_targets(self, inputs: Any) -> Any:
        """Targets that fit the inputs, on their device."""

    def forward(self, network: torch.nn.Module, inputs: Any) -> Any:
        """The network's outputs for the inputs."""

    def training_loss(self, network: torch.nn.Module, inputs: Any, targets: Any) -> torch.Tensor:
        """The scalar to send back through the network, with its forward pass."""


class BuiltIn(Struct, frozen=True):
    """A network of the zoo: its functions with its name filled in."""

    info: NetworkInfo
    fingerprint: str = ""

    @property
    def makes_batches(self) -> bool:
        """Words and decoded thumbnails cost nothing to load: no photographs stand for them."""
        return not is_read_as_photographs(self.info)

    def build(self) -> torch.nn.Module:
        """See `advisor.models.zoo.build`."""
        return building.build(self.info.name)

    def synthetic_batch(
        self, batch_size: int, device: str | torch.device = "cpu"
    ) -> tuple[torch.Tensor, Any]:
        """See `advisor.models.zoo.synthetic_batch`."""
        return synthetic_batch(self.info.name, batch_size, device)

    def synthetic_targets(self, inputs: torch.Tensor) -> Any:
        """See `advisor.models.zoo.synthetic_targets`."""
        return synthetic_targets(self.info.name, inputs)

    def forward(self, network: torch.nn.Module, inputs: torch.Tensor) -> Any:
        """See `advisor.models.zoo.forward`."""
        return capture.forward(self.info.name, network, inputs)

    def training_loss(self, network: torch.nn.Module, inputs: torch.Tensor, targets: Any) -> torch.Tensor:
        """See `advisor.models.zoo.training_loss`."""
        return capture.training_loss(self.info.name, network, inputs, targets)


def open_network(reference: str) -> Runnable:
    """The network of the zoo with that name, or the own one of `path/to/file.py:build`.

    Raises `UsageError` for an unknown name, and for a file that cannot be used.
    """
    return load_own(reference) if is_own(reference) else BuiltIn(network_info(reference))
