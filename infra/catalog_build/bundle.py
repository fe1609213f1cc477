"""All parts joined into one bundle: files by path, with the manifest that guards them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.files import MANIFEST, SCHEMA, Table, sealed
from advisor.catalog.instances import NEEDED_FACTS
from advisor.catalog.prices import KEYS, array_path, price_rows
from infra.catalog_build import (
    disks,
    gpus,
    other_clouds,
    prices,
    provenance,
    sparecores,
    types,
)
from infra.catalog_build.tables import OutputTable, read_source, sha256, table
from infra.catalog_build.wide import ALL_BASES, basis_table

SOURCES_FILE = "catalog/sources.csv"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything that is written: bytes by path below `advisor/data`, and what to report."""

    files: dict[str, bytes]
    notes: tuple[str, ...]


def build() -> Bundle:
    """Build every file in memory, the same bytes every time."""
    type_tables, type_origins = types.build_types()
    priced = prices.build_prices(types.offered_regions())
    others = (other_clouds.build_gcp(), other_clouds.build_azure(), other_clouds.build_alibaba())
    tables = [
        *type_tables,
        *priced.tables,
        *(entry for cloud in others for entry in cloud.tables),
        *gpus.build_gpus(),
        *disks.build_disks(),
        *sparecores.build_sparecores(types.read_types()),
        _sources_table(type_origins),
        _currencies(),
        basis_table(ALL_BASES),
    ]
    files = {entry.path: entry.encoded() for entry in tables}
    for cloud in _CLOUDS:
        for path in [path for path in files if path.startswith(f"catalog/{cloud}_prices")]:
            files[array_path(path)] = _as_array(path, files[path])
    files[MANIFEST] = sealed(_manifest(tables, files))
    notes = tuple(f"{entry.path}: {len(entry.rows)} rows" for entry in tables)
    skipped = ", ".join(priced.unknown)
    return Bundle(files, (*notes, f"left out, priced but with no known facts: {skipped or 'none'}"))


def write(bundle: Bundle, folder: Path) -> None:
    """Write each file whole or not at all, the manifest last."""
    for path in sorted(bundle.files, key=lambda name: (name == MANIFEST, name)):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        part.write_bytes(bundle.files[path])
        part.replace(target)


def differences(bundle: Bundle, folder: Path) -> list[str]:
    """Paths whose bytes in `folder` are not what the build gives."""
    return [
        path
        for path, content in sorted(bundle.files.items())
        if not (folder / path).is_file() or (folder / path).read_bytes() != content
    ]


def _sources_table(type_origins: Iterable[provenance.Source]) -> OutputTable:
    origins = {entry.id: entry for entry in (*type_origins, *_PART_SOURCES.values())}
    rows = [(origin.id, origin.as_of, origin.licence, origin.origin) for origin in origins.values()]
    return table(SOURCES_FILE, ("source", "as_of", "licence", "origin"), rows)


_CURRENT = provenance.moto(provenance.CURRENT_TYPES, "2026-08-02")
_PART_SOURCES = {
    "instance types": _CURRENT,
    "regions offered": provenance.OFFERINGS,
    "instance prices": provenance.PRICES,
    "instance prices outside us-east-1 (estimated)": provenance.REGIONAL,
    "spot prices (estimated)": provenance.SPOT,
    "spot prices outside us-east-1 (estimated)": provenance.REGIONAL_SPOT,
    "GCP types and prices": provenance.GCP,
    "Azure sizes and prices": provenance.AZURE,
    "Alibaba types and prices": provenance.ALIBABA,
    "disk types": provenance.DISK_RULES,
    "disk prices": provenance.DISK_PRICES,
    "GCP disk types": provenance.GCP_DISK_RULES,
    "GCP disk prices": provenance.GCP_DISK_PRICES,
    "Alibaba disk types": provenance.ALIBABA_DISK_RULES,
    "instance store read rates": provenance.STORE_IOPS,
    "GPU data sheets": provenance.GPU_SHEETS,
    "CPU and GPU measurements": provenance.SPARECORES,
}


def _currencies() -> OutputTable:
    rows = read_source("catalog/currencies.csv")
    header = ("currency", "per_usd", "as_of", "note")
    return table("catalog/currencies.csv", header, [[row[c] for c in header] for row in rows])


_CLOUDS = {
    "aws": provenance.PRICES,
    "gcp": provenance.GCP,
    "azure": provenance.AZURE,
    "alibaba": provenance.ALIBABA,
}


def _manifest(tables: Sequence[OutputTable], files: dict[str, bytes]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "snapshot": max(entry.as_of for entry in _PART_SOURCES.values()),
        "clouds": {cloud: _cloud(cloud, source, tables) for cloud, source in _CLOUDS.items()},
        "parts": {
            name: {"as_of": entry.as_of, "source": entry.origin, "licence": entry.licence}
            for name, entry in _PART_SOURCES.items()
        },
        "files": {
            entry.path: {"rows": len(entry.rows), "sha256": sha256(files[entry.path])}
            for entry in tables
        }
        | {
            path: {"sha256": sha256(content)}
            for path, content in files.items()
            if path.endswith(".npy")
        },
    }


def _as_array(path: str, content: bytes) -> bytes:
    """A table of prices as the array that is read in its place."""
    written = io.BytesIO()
    np.save(written, price_rows(Table(path, content.decode())), allow_pickle=False)
    return written.getvalue()


def _cloud(cloud: str, source: provenance.Source, tables: Iterable[OutputTable]) -> dict[str, Any]:
    """The date of its list prices, types that lack facts, price tables with their regions."""
    own = [entry for entry in tables if entry.path.startswith(f"catalog/{cloud}_prices")]
    (types,) = [entry for entry in tables if entry.path == f"catalog/{cloud}_instance_types.csv"]
    needed = [types.header.index(column) for column in NEEDED_FACTS]
    return {
        "lacking": [row[0] for row in types.rows if not all(row[at] for at in needed)],
        "as_of": source.as_of,
        "prices": {entry.path: list(entry.header[len(KEYS) :]) for entry in own},
    }
