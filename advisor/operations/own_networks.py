"""Facts of a user's own network for the performance model, found by torch without computing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain import Precision, Task, Workload
from advisor.errors import UsageError
from advisor.operations.their_output import their_output_aside
from models.performance.anchoring import OwnSizes, facts_of_own
from models.performance.memory import Conditions, MemoryProfile, gpu_peak
from models.performance.memory.peak import card_mib
from models.performance.networks import NetworkFacts, Operations

if TYPE_CHECKING:
    from models.zoo.capture import Operation


def captured_facts(reference: str, task: Task) -> NetworkFacts:
    """Sizes and operations of `path/file.py:build`. Imports torch and the user's file.

    Raises `UsageError` where torch is missing, the file cannot be used, the network takes no
    images, or torch cannot follow it.
    """
    try:
        import models.zoo.capture
        import models.zoo.opening  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"what {reference} computes is found with torch, which is not here ({error.name}); "
            "install instance-sizing-advisor[sweep], or give an --anchor that was measured with it"
        ) from error
    with their_output_aside():
        return _facts(reference, task)


def _facts(reference: str, task: Task) -> NetworkFacts:
    import torch

    from models.zoo.capture import in_classes, network_kernels
    from models.zoo.opening import open_network

    network = open_network(reference)
    shape = network.info.input_shape
    if not network.info.takes_images:
        raise UsageError(f"{reference} takes no RGB images (its input is {shape}), and only "
                         "networks that take images can be recommended for")  # fmt: skip
    kernels = network_kernels(network, training=task is Task.TRAINING, autocast=False)
    with torch.device("meta"):
        weights = list(network.build().parameters())
    mib = sum(one.numel() * one.element_size() for one in weights) / 2**20
    sizes = OwnSizes(input_shape=shape, weight_mib=mib, weight_tensors=len(weights))
    return facts_of_own(reference, sizes, {task: _columns(in_classes(kernels))})


def traced_memory(reference: str, task: Task, precision: Precision) -> Callable[[Workload], float]:
    """The card in MiB that a workload of an own network surely fits, as `advisor memory` says.

    Raises what `advisor memory` raises.
    """
    from advisor.operations.memory import traced_profile

    step = Conditions(task=task, batch_size=1, precision=precision).step
    profile = traced_profile(reference, [step])

    def needed(workload: Workload) -> float:
        return _needed(profile, workload)

    return needed


def _needed(profile: MemoryProfile, workload: Workload) -> float:
    conditions = Conditions(
        task=workload.task, batch_size=workload.batch_size, precision=workload.precision
    )
    return card_mib(gpu_peak(profile, conditions).upper_mib)


def _columns(operations: Sequence[Operation]) -> Operations:
    """Equal operations once, with how often they run."""
    counted = Counter(operations)
    rows = np.array(
        [[one.flops, one.sample_bytes, one.fixed_bytes, n] for one, n in counted.items()],
        dtype=float,
    ).reshape(-1, 4)
    return Operations(
        tuple(one.kind for one in counted), rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]
    )
