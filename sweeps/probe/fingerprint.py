"""A probe's document, short enough to be stored with every trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.probe.figures import Document, is_figure

FINGERPRINT_SCHEMA = "advisor.fingerprint/1"
_MACHINE_FACTS = ("cpu_model", "architecture", "cpus", "physical_cores", "memory_mib", "versions")


def fingerprint(document: Mapping[str, Any]) -> Document:
    """Who the machine is and all its figures, flat, for a trial's environment.

    `figures` maps a dotted name (`gemm.cuda.fp16`) to `{"value", "unit"}`, unrounded; what was
    skipped is left out. Two machines may be compared by the names that they share. `sizes` maps
    the matrices and layers (`operations.conv3x3.wide`) to their sizes; layers were timed on
    `operations_device`.
    """
    machine, parts = document["machine"], document["parts"]
    return {
        "schema": FINGERPRINT_SCHEMA,
        "probed_at": document["started_at"],
        "quick": document["quick"],
        **{name: machine[name] for name in _MACHINE_FACTS if name in machine},
        "gpus": [gpu["name"] for gpu in parts.get("gpu", {}).get("devices", ())],
        "operations_device": parts.get("operations", {}).get("device"),
        "sizes": dict(_sizes(parts)),
        "figures": {
            name: {"value": result["value"], "unit": result["unit"]}
            for name, result in figures(parts)
        },
    }


def _sizes(parts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Sizes of what was timed; those of a layer are the same in every precision."""
    for device, products in parts.get("gemm", {}).items():
        for precision, product in products.items() if isinstance(products, dict) else ():
            if isinstance(product, dict) and "sizes" in product:
                yield f"gemm.{device}.{precision}", product["sizes"]
    for precision in ("fp32", "amp"):
        for name, layers in parts.get("operations", {}).get(precision, {}).items():
            for size, product in layers.items():
                if "sizes" in product:
                    yield f"operations.{name}.{size}", product["sizes"]


def figures(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted name, figure) of every figure beneath a node, in the document's order."""
    for name, child in node.items():
        if is_figure(child):
            yield prefix + name, child
        elif isinstance(child, dict):
            yield from figures(child, f"{prefix}{name}.")
