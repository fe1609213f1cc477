"""Builds networks as torch modules; torch is imported when the first one is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from models.zoo.networks import network_info
from models.zoo.torchvision_import import import_torchvision

if TYPE_CHECKING:
    import torch

# The auxiliary heads serve convergence, not the classifier whose speed is asked for.
_WITHOUT_AUXILIARY_HEADS = frozenset({"googlenet", "inception_v3"})


def build(name: str) -> torch.nn.Module:
    """The network `name` with random weights: speed does not depend on their values.

    Takes float tensors of shape (batch, 3, input_pixels, input_pixels) and returns logits of
    shape (batch, 1000). Raises `UsageError` for an unknown name.
    """
    return build_torchvision(network_info(name).name)


def build_torchvision(name: str) -> torch.nn.Module:
    """Any classification network of torchvision by its torchvision name, random weights."""
    import_torchvision()
    from torchvision.models import get_model

    options: dict[str, Any] = {"weights": None}
    if name in _WITHOUT_AUXILIARY_HEADS:
        options |= {"aux_logits": False, "init_weights": False}
    module: torch.nn.Module = get_model(name, **options)
    return module
