"""Parses disk limits as users write them: `slow=20MiB/s`, `slow=20MiB/s,500iops,2ms`, `unlimited`."""

from __future__ import annotations

import re

from advisor.domain import DiskRate
from advisor.errors import UsageError
from advisor.quantities import parse_positive, parse_rate_mib_per_second

UNLIMITED = DiskRate(type="unlimited")
_UNLIMITED_NAMES = frozenset({"unlimited", "host"})
_IOPS = re.compile(r"^\s*([^\s]+?)\s*iops\s*$", re.IGNORECASE)
_LATENCY = re.compile(r"^\s*([^\s]+?)\s*ms\s*$", re.IGNORECASE)


def split_disks(text: str) -> list[str]:
    """The disks of a list: 'gp3,slow=20MiB/s,500iops' -> ['gp3', 'slow=20MiB/s,500iops']. Commas also
    separate the limits of one disk."""
    pieces: list[str] = []
    for piece in text.split(","):
        if pieces and "=" in pieces[-1] and (_IOPS.match(piece) or _LATENCY.match(piece)):
            pieces[-1] += f",{piece}"
        else:
            pieces.append(piece)
    return [piece.strip() for piece in pieces if piece.strip()]


def parse_named_rate(text: str) -> DiskRate | None:
    """The disk whose limits the text gives; None if the text is the name of a disk type."""
    if text.strip().lower() in _UNLIMITED_NAMES:
        return UNLIMITED
    name, equals, rates = text.partition("=")
    if not equals:
        return None
    if not name.strip():
        raise UsageError(f"'{text}' names no disk", hint="write it like slow=20MiB/s,500iops")
    limits = dict(map(_limit, filter(None, map(str.strip, rates.split(",")))))
    if not limits:
        raise UsageError(f"'{text}' has no rate", hint="write it like slow=20MiB/s,500iops")
    return DiskRate(type=name.strip(), **limits)


def _limit(text: str) -> tuple[str, float]:
    if match := _IOPS.match(text):
        return "read_iops", parse_positive(match.group(1), "IOPS")
    if match := _LATENCY.match(text):
        return "read_latency_seconds", parse_positive(match.group(1), "latency") / 1000
    return "read_mib_per_second", parse_rate_mib_per_second(text)
