"""Joins the networks and the layer-wise model: operations of a network, captured by torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.domain import Precision, Task
from models.performance.layerwise.operations import NetworkKey, StepOperations, step_operations

if TYPE_CHECKING:
    from models.zoo.kernels import Kernel


def capture_step(
    reference: str, task: Task, precision: Precision = Precision.FP32, *, compiled: bool = False
) -> StepOperations:
    """Operations of a step of a network of the zoo, or of one's own (`path/file.py:build`).

    Raises `UsageError` for an unknown name, for a file that cannot be used, and for a network
    that torch cannot follow without computing.
    """
    from models.zoo.capture import network_kernels, operation_rows
    from models.zoo.opening import open_network

    kernels = network_kernels(
        open_network(reference),
        training=task is Task.TRAINING,
        autocast=precision is not Precision.FP32,
        compiled=compiled,
    )
    return step_operations(operation_rows(kernels))


def capture_library_rows(key: NetworkKey) -> tuple[list[Any], list[Any]]:
    """Rows of the eager and of the compiled step of a network of torchvision or timm.

    Raises `UsageError` where the library does not know it, or torch cannot follow it.
    """
    from models.zoo.capture import operation_rows
    from models.zoo.fusing import fused

    kernels = _library_kernels(key)
    compiled = [] if key.task is Task.TRAINING else fused(kernels)
    return operation_rows(kernels), operation_rows(compiled)


def _library_kernels(key: NetworkKey) -> list[Kernel]:
    from models.zoo.capture import classifier_kernels, told_as_usage
    from models.zoo.libraries import build_library_network

    network = build_library_network(key.library, key.network, key.pixels)
    with told_as_usage(key.network):
        return classifier_kernels(
            network,
            key.pixels,
            training=key.task is Task.TRAINING,
            autocast=key.autocast,
        )
