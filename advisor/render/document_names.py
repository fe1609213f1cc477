"""Specs and places of a document as texts name them; `naming` does the same of the engine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]


def spec_name(spec: Record) -> str:
    """'g4dn.xlarge', '2 x g4dn.xlarge': of a spec, a row of one, or an end of a break-even."""
    count = spec.get("count", 1)
    name = str(spec["instance_type"])
    return name if count == 1 else f"{count} x {name}"


def covers_clouds(document: Record) -> bool:
    """Whether a recommendation's document answers a question about more than one cloud."""
    return bool(document["request"]["cloud"] == "any")


def place_name(spec: Record, *, clouds: bool) -> str:
    """'us-central1', with `clouds` 'gcp us-central1'."""
    return f"{spec['cloud']} {spec['region']}" if clouds else str(spec["region"])


def type_name(record: Record, *, clouds: bool) -> str:
    """'g2-standard-4', with `clouds` 'g2-standard-4 (gcp)', of a record that has no place.

    Documents of earlier versions tell no cloud there.
    """
    cloud = record.get("cloud") if clouds else None
    name = str(record["instance_type"])
    return f"{name} ({cloud})" if cloud else name
