"""A probe's document, short enough to be stored with every trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.probe.words import Document, is_figure

FINGERPRINT_SCHEMA = "advisor.fingerprint/1"
_MACHINE_FACTS = ("cpu_model", "architecture", "cpus", "physical_cores", "memory_mib", "versions")


def fingerprint(document: Mapping[str, Any]) -> Document:
    """Who the machine is and all its figures, flat, for a trial's environment.

    `figures` maps a dotted name (`gemm.cuda.fp16`) to `{"value", "unit"}`, unrounded; what was
    skipped is left out. Two machines may be compared by the names that they share.
    """
    machine = document["machine"]
    return {
        "schema": FINGERPRINT_SCHEMA,
        "probed_at": document["started_at"],
        "quick": document["quick"],
        **{name: machine[name] for name in _MACHINE_FACTS if name in machine},
        "gpus": [gpu["name"] for gpu in document["parts"].get("gpu", {}).get("devices", ())],
        "figures": {
            name: {"value": found["value"], "unit": found["unit"]}
            for name, found in figures(document["parts"])
        },
    }


def figures(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted name, figure) of every figure beneath a node, in the document's order."""
    for name, child in node.items():
        if is_figure(child):
            yield prefix + name, child
        elif isinstance(child, dict):
            yield from figures(child, f"{prefix}{name}.")
