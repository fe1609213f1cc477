"""The words of the comparison: a claim of an article, and what is found about it here."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, field

DATA = Path(__file__).parents[1] / "data"


class Kind(StrEnum):
    """How a figure of ours came about. A worse kind never passes for a better one."""

    MEASURED = "measured"
    PUBLISHED = "published"
    MODELLED = "modelled"
    OUT_OF_SCOPE = "out of scope"
    NOT_MEASURED = "not measured"


class Verdict(StrEnum):
    """How ours stands to the article's."""

    AGREES = "agrees"
    PARTLY = "partly"
    DIFFERS = "differs"
    UNKNOWN = "not told"


class Claim(Struct, frozen=True, kw_only=True):
    """One row of benchmarks/data/claims.csv."""

    id: str
    article: str
    claim: str
    value: str
    unit: str
    condition: str


class Finding(Struct, frozen=True, kw_only=True):
    """What is found about a claim. `ours` is the answer in one line, `why` what explains a
    difference or what limits the answer, `numbers` everything that the line rests on. `scale` is
    the factor by which accelerator and disk were slowed for it (1: not at all)."""

    kind: Kind
    verdict: Verdict
    ours: str
    why: str = ""
    scale: int = 1
    numbers: Mapping[str, Any] = field(default_factory=dict)


def out_of_scope(reason: str) -> Finding:
    """A claim that nothing here can tell about, with the reason."""
    return Finding(kind=Kind.OUT_OF_SCOPE, verdict=Verdict.UNKNOWN, ours="-", why=reason)


def not_measured(reason: str) -> Finding:
    """A claim whose trials are not there or did not end well; `reason` says which."""
    return Finding(kind=Kind.NOT_MEASURED, verdict=Verdict.UNKNOWN, ours="-", why=reason)


def agrees_if(true: bool) -> Verdict:
    """`agrees` or `differs`."""
    return Verdict.AGREES if true else Verdict.DIFFERS


def read_claims() -> dict[str, Claim]:
    """All claims by id, in the order of the file."""
    with (DATA / "claims.csv").open(newline="") as file:
        return {row["id"]: Claim(**row) for row in csv.DictReader(file)}


def published_points() -> dict[str, float]:
    """Cited figures by key."""
    with (DATA / "published_points.csv").open(newline="") as file:
        return {row["key"]: float(row["value"]) for row in csv.DictReader(file)}
