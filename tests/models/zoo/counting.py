"""How much a network computes, counted on the meta device without computing; needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.models.zoo.batches import synthetic_batch
from advisor.models.zoo.building import build
from advisor.models.zoo.lstm import SIZES
from advisor.models.zoo.networks import Kind, NetworkInfo, network_info
from advisor.models.zoo.steps import forward

if TYPE_CHECKING:
    import torch


def macs_per_token(hidden: int, vocabulary: int) -> int:
    """Multiply-accumulates of one token's forward pass.

    Four gates, each with an input and a recurrent product, in two layers, then the decoder.
    Needed because a fused LSTM hides its products from every operation counter.
    """
    return 2 * 8 * hidden**2 + hidden * vocabulary


@dataclass(frozen=True, slots=True)
class Size:
    """Trained values, and multiply-accumulates of the forward pass of one sample (not row)."""

    parameters: int
    macs_per_sample: float


# What torchvision keeps of each image in inference: proposals to look at, objects to outline.
_PROPOSALS, _FINDINGS = 1000, 100


def size_of(name: str) -> Size:
    """Parameters and work of a network of the zoo.

    Convolutions, matrix products and attention are counted; what is bound by memory is not.
    """
    import torch

    info = network_info(name)
    with torch.device("meta"):
        network = build(name).eval()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return Size(parameters, _macs_per_row(info, network) / info.samples_per_row)


def _macs_per_row(info: NetworkInfo, network: torch.nn.Module) -> float:
    if info.kind is Kind.TEXT:
        hidden, _ = SIZES[info.name]
        # A fused LSTM hides its products from every counter: four gates, each with an input and a
        # recurrent product, in two layers, then the decoder.
        return float(info.samples_per_row * (2 * 8 * hidden**2 + hidden * info.classes))
    if info.name == "maskrcnn_resnet50_fpn":
        return _mask_rcnn_macs(info, network)
    inputs, _ = synthetic_batch(info.name, 1, "meta")
    return count_macs(lambda: forward(info.name, network, inputs))


def _mask_rcnn_macs(info: NetworkInfo, network: Any) -> float:
    """Its parts, each on the most that reaches it: which boxes do so depends on the image."""
    import torch

    side, heads = info.input_pixels, network.roi_heads
    images = torch.empty(1, 3, side, side, device="meta")
    proposals = torch.empty(_PROPOSALS, 256, 7, 7, device="meta")
    findings = torch.empty(_FINDINGS, 256, 14, 14, device="meta")

    def parts() -> None:
        network.rpn.head(list(network.backbone(images).values()))
        heads.box_predictor(heads.box_head(proposals))
        heads.mask_predictor(heads.mask_head(findings))

    return count_macs(parts)


def count_macs(run: Callable[[], object]) -> float:
    """Multiply-accumulates of whatever `run` computes: half of what torch counts as FLOPs."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        run()
    return float(counter.get_total_flops()) / 2
