"""The words of a probe: parts, figures, and what could not be measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
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
    """Whether a node of the document tells why there is nothing."""
    return isinstance(node, dict) and set(node) == {"skipped"}
