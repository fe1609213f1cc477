"""The parts of a probe, its figures, the figures that could not be measured, and the machine's
fingerprint."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SCHEMA = "advisor.probe/1"
# In the order of measuring: what starts processes comes before torch is loaded, and the disk
# before a GPU warms the machine.
PARTS = {
    "cpu": "model, cores, hardware threads, caches, NUMA, limits of a container",
    "decode": "JPEG decoding with 1 to all hardware threads",
    "ram": "memory bandwidth of one and of all threads",
    "disk": "sequential and random reads past the page cache",
    "gpu": "driver, clocks, memory, PCI Express and copy bandwidth",
    "gemm": "matrix products by precision",
    "operations": "classes of layers, forward and backward",
}
Document = dict[str, Any]


def figure(values: Sequence[float], unit: str, method: str) -> Document:
    """A measured figure: the median of `values` (at least one), with how it came about.

    `spread` is the interquartile range over the median, 0.0 for a single value; the values
    themselves are kept, unrounded.
    """
    middle = statistics.median(values)
    spread = 0.0
    if len(values) > 1 and middle:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        spread = (high - low) / middle
    return {
        "value": middle,
        "unit": unit,
        "method": method,
        "repeats": len(values),
        "spread": spread,
        "values": list(values),
    }


def skipped(reason: object) -> Document:
    """In the place of what could not be measured, or is not known: one line of why."""
    return {"skipped": " ".join(str(reason).split())[:400]}


def is_figure(node: object) -> bool:
    """Whether a node of the document is a measured figure."""
    return isinstance(node, dict) and "value" in node and "unit" in node


def is_skipped(node: object) -> bool:
    """Whether a node of the document says why there is nothing."""
    return isinstance(node, dict) and set(node) == {"skipped"}


FINGERPRINT_SCHEMA = "advisor.fingerprint/1"
_MACHINE_FACTS = ("cpu_model", "architecture", "cpus", "physical_cores", "memory_mib", "versions")


def fingerprint(document: Mapping[str, Any]) -> Document:
    """The machine's identity and all its figures, flat, for a trial's environment.

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
            name: {"value": result["value"], "unit": result["unit"]} for name, result in figures(parts)
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
