"""The networks that are measured, by name; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from advisor.domain import require_positive
from advisor.errors import unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInfo:
    """What must be known of a network before it is built.

    `input_pixels` is the side of its square RGB input, `unit` what one sample is called.
    """

    name: str
    title: str
    input_pixels: int
    unit: str = "image"

    def __post_init__(self) -> None:
        require_positive(input_pixels=self.input_pixels)


NETWORKS: Mapping[str, NetworkInfo] = MappingProxyType(
    {
        "alexnet": NetworkInfo(name="alexnet", title="AlexNet", input_pixels=224),
        "googlenet": NetworkInfo(name="googlenet", title="GoogLeNet", input_pixels=224),
        "resnet50": NetworkInfo(name="resnet50", title="ResNet-50", input_pixels=224),
        "vgg16": NetworkInfo(name="vgg16", title="VGG-16", input_pixels=224),
        "inception_v3": NetworkInfo(name="inception_v3", title="Inception v3", input_pixels=299),
    }
)


def network_info(name: str) -> NetworkInfo:
    """The network of that name; a `UsageError` with near names for an unknown one."""
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    return NETWORKS[name]
