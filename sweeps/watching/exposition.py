"""Prometheus' text format, version 0.0.4: a page of rules, so no library is needed.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its samples are (labels, value)."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(families: Iterable[Family]) -> str:
    """The families as a page that Prometheus scrapes."""
    return "".join(line + "\n" for family in families for line in _lines(family))


def _lines(family: Family) -> list[str]:
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    return [
        f"# HELP {family.name} {text}",
        f"# TYPE {family.name} {family.kind}",
        *(f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples),
    ]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
