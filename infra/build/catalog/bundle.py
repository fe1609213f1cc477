"""Joins all parts into one bundle: files by path, with a manifest of their digests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.catalog.bundle import MANIFEST, SCHEMA, sealed
from advisor.catalog.instances import NEEDED_FACTS, ORDERABLE_COLUMNS, ORDERABLE_FILE, STATUSES, TYPE_COLUMNS
from advisor.infra.build.catalog import alibaba, aws, azure, gcp, gpus, neo, sparecores
from advisor.infra.build.catalog.aws.sources import OFFERINGS
from advisor.infra.build.catalog.aws.types import read_types
from advisor.infra.build.catalog.tables import OutputTable, read_source, sha256, table
from advisor.infra.build.catalog.wide import (
    CloudPart,
    PriceFile,
    Source,
    basis_table,
    price_files,
    sources_table,
)

_TYPES_FILE = "catalog/aws_instance_types.csv"


def build_orderable(parts: Iterable[CloudPart]) -> OutputTable:
    """Who may order a type: rows from the sources, and each AWS type that is listed in no region."""
    told = read_source(ORDERABLE_FILE)
    rows = [[row[column] for column in ORDERABLE_COLUMNS] for row in told]
    starts = tuple(row["types"].rstrip("*") for row in told if row["cloud"] == "aws")
    (types,) = (one for part in parts for one in part.tables if one.path == _TYPES_FILE)
    current = types.header.index("current")
    rows += [
        ["aws", row[0], "", "", "unlisted", OFFERINGS.as_of, OFFERINGS.origin]
        for row in types.rows
        if row[current] == "0" and not row[0].startswith(starts)
    ]
    if unknown := {row[4] for row in rows} - STATUSES.keys():
        raise ValueError(f"{ORDERABLE_FILE}: no such status: {unknown}")
    return table(ORDERABLE_FILE, ORDERABLE_COLUMNS, rows)


PROVIDERS = (aws, gcp, azure, alibaba)


class Bundle(Struct, frozen=True):
    """All output: bytes by path below `advisor/data`, and a report."""

    files: dict[str, bytes]
    notes: tuple[str, ...]


def build() -> Bundle:
    """Build every file in memory; the bytes are the same each time."""
    parts = [*(provider.build() for provider in PROVIDERS), *neo.build()]
    sources = [*(one for part in parts for one in part.sources), gpus.SOURCE, sparecores.SOURCE]
    tables = [
        *(entry for part in parts for entry in part.tables),
        neo.build_assumed(),
        build_orderable(parts),
        *gpus.build_gpus(),
        *sparecores.build_sparecores(read_types()),
        sources_table(sources),
        _currencies(),
        basis_table(basis for part in parts for basis in part.bases),
    ]
    prices = {part.name: price_files(part.name, part.prices) for part in parts}
    files = {entry.path: entry.encoded() for entry in tables}
    files |= {one.path: one.content for own in prices.values() for one in own}
    files[MANIFEST] = sealed(
        {
            "schema": SCHEMA,
            "snapshot": max(one.as_of for one in sources),
            "clouds": {part.name: _cloud(part, prices[part.name]) for part in parts},
            "parts": _parts(sources),
            "files": _entries(tables, prices, files),
        }
    )
    notes = [f"{entry.path}: {len(entry.rows)} rows" for entry in tables]
    notes += [f"{one.path}: {one.offers} offers" for own in prices.values() for one in own]
    return Bundle(files, (*notes, *(note for part in parts for note in part.notes)))


def write(bundle: Bundle, folder: Path) -> None:
    """Write each file atomically, the manifest last."""
    for path in sorted(bundle.files, key=lambda name: (name == MANIFEST, name)):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        part.write_bytes(bundle.files[path])
        part.replace(target)


def differences(bundle: Bundle, folder: Path) -> list[str]:
    """Paths whose bytes in `folder` differ from the build's."""
    return [
        path
        for path, content in sorted(bundle.files.items())
        if not (folder / path).is_file() or (folder / path).read_bytes() != content
    ]


def _currencies() -> OutputTable:
    rows = read_source("catalog/currencies.csv")
    header = ("currency", "per_usd", "as_of", "note")
    return table("catalog/currencies.csv", header, [[row[c] for c in header] for row in rows])


def _cloud(part: CloudPart, prices: Sequence[PriceFile]) -> dict[str, Any]:
    """A cloud's manifest entry: date of list prices, types without facts, and price files."""
    name = f"/{part.name}_instance_types.csv"
    types = [row for entry in part.tables if entry.path.endswith(name) for row in entry.rows]
    needed = [TYPE_COLUMNS.index(column) for column in NEEDED_FACTS]
    currencies = {basis.currency for basis in part.bases}
    one = {"currency": currencies.pop()} if len(currencies) == 1 else {}
    return one | {
        "lacking": [row[0] for row in types if not all(row[at] for at in needed)],
        "as_of": part.as_of,
        "prices": {one.path: list(one.regions) for one in prices},
        "markets": {one.path: one.market for one in prices},
    }


def _parts(sources: Iterable[Source]) -> dict[str, dict[str, str]]:
    """Each part with its sources, their licences, and the date of the oldest source."""
    of_part: dict[str, list[Source]] = {}
    for one in sources:
        of_part.setdefault(one.part, []).append(one)
    return {
        part: {
            "as_of": min(one.as_of for one in some),
            "source": "; ".join(dict.fromkeys(one.origin for one in some)),
            "licence": "; ".join(dict.fromkeys(one.licence for one in some)),
        }
        for part, some in of_part.items()
    }


def _entries(
    tables: Iterable[OutputTable], prices: dict[str, list[PriceFile]], files: dict[str, bytes]
) -> dict[str, dict[str, Any]]:
    """Each file's digest and number of rows or offers."""
    counts = {entry.path: {"rows": len(entry.rows)} for entry in tables}
    counts |= {one.path: {"offers": one.offers} for own in prices.values() for one in own}
    return {path: count | {"sha256": sha256(files[path])} for path, count in counts.items()}
