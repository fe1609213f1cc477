"""Facts of networks for the performance model: `python -m models.zoo.facts [FILE]`.

Writes advisor/data/performance/networks.json: `networks` has for each image classifier its
weights, saved activations and the operations of inference and training (equal operations are one
row with a count); `sizes` has for each network of the zoo its parameters and its work.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.zoo.building import build_torchvision
from models.zoo.capture import OPERATION_CLASSES, Operation, capture_operations
from models.zoo.counting import size_of
from models.zoo.networks import NETWORKS
from models.zoo.sizes import PATH

if TYPE_CHECKING:
    import torch

SCHEMA = "advisor.networks/2"
MIB = 2**20
# Networks of the zoo whose operations the performance model computes with.
_IMAGE_CLASSIFIERS = ("alexnet", "googlenet", "inception_v3", "resnet50", "vgg16")
# Networks that are not offered but were measured by others, so the model learns from them.
_PUBLISHED_ONLY = (
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
    "mobilenet_v2",
    "resnet18",
    "resnet34",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "wide_resnet50_2",
    "wide_resnet101_2",
)


def network_facts(name: str) -> dict[str, Any]:
    """Sizes and operations of one torchvision network, computed on the meta device."""
    import torch

    side = NETWORKS[name].input_pixels if name in NETWORKS else 224
    with torch.device("meta"):
        network = build_torchvision(name)
    parameters = list(network.parameters())
    elements = sum(parameter.numel() for parameter in parameters)
    saved, largest = _activation_bytes(network, side)
    return {
        "input_pixels": side,
        "parameters": elements,
        "weight_tensors": len(parameters),
        "weight_mib": round(4 * elements / MIB, 3),
        "saved_activation_mib": round(saved / MIB, 3),
        "largest_activation_mib": round(largest / MIB, 3),
        "inference": _rows(capture_operations(network, side, training=False)),
        "training": _rows(capture_operations(network, side, training=True)),
    }


def _activation_bytes(network: torch.nn.Module, side: int) -> tuple[float, float]:
    """Bytes per sample that autograd saves beside weights, and the largest saved tensor."""
    import torch

    weights = {id(value) for value in (*network.parameters(), *network.buffers())}
    saved: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in weights:
            saved[tensor.untyped_storage()._cdata] = tensor
        return tensor

    batch = 2
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = network.train()(torch.empty(batch, 3, side, side, device="meta"))
        logits.sum()
    sizes = [
        t.numel() * t.element_size() / batch for t in saved.values() if t.shape[:1] == (batch,)
    ]
    return sum(sizes), max(sizes)


def _rows(operations: Sequence[Operation]) -> list[list[float]]:
    """[class index, FLOPs, sample bytes, fixed bytes, count] of each distinct operation."""
    counted = Counter(operations)
    return [
        [
            OPERATION_CLASSES.index(operation.kind),
            round(operation.flops),
            round(operation.sample_bytes),
            round(operation.fixed_bytes),
            count,
        ]
        for operation, count in counted.items()
    ]


def table_text(document: Mapping[str, Any]) -> str:
    """The table as JSON in which every network has a line of its own, so that one can be read."""
    head = {key: value for key, value in document.items() if key != "networks"}
    lines = [
        f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
        for name, one in document["networks"].items()
    ]
    opened = json.dumps(head, separators=(",", ":")).removesuffix("}")
    return opened + ',"networks":{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: Sequence[str]) -> None:
    """Write the facts of all networks to the file named, or to the bundled place."""
    path = Path(arguments[0]) if arguments else PATH
    facts = {name: network_facts(name) for name in sorted([*_IMAGE_CLASSIFIERS, *_PUBLISHED_ONLY])}
    document = {
        "schema": SCHEMA,
        "operation_classes": OPERATION_CLASSES,
        "networks": facts,
        "sizes": {name: asdict(size_of(name)) for name in NETWORKS},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table_text(document))


if __name__ == "__main__":
    main(sys.argv[1:])
