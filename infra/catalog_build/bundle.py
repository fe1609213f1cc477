"""All parts joined into one bundle: files by path, with the manifest that guards them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.files import MANIFEST, SCHEMA
from infra.catalog_build import disks, gpus, prices, provenance, sparecores, types
from infra.catalog_build.tables import OutputTable, sha256, table

SOURCES_FILE = "catalog/sources.csv"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything that is written: bytes by path below `advisor/data`, and what to tell."""

    files: dict[str, bytes]
    notes: tuple[str, ...]


def build() -> Bundle:
    """Build every file in memory, the same bytes every time."""
    type_tables, type_origins = types.build_types()
    known = frozenset(row[0] for row in type_tables[0].rows)
    priced = prices.build_prices(known)
    tables = [
        *type_tables,
        priced.table,
        *gpus.build_gpus(),
        *disks.build_disks(),
        *sparecores.build_sparecores(types.read_types()),
        _sources_table(type_origins),
    ]
    files = {one.path: one.encoded() for one in tables}
    files[MANIFEST] = _manifest(tables, files)
    notes = tuple(f"{one.path}: {len(one.rows)} rows" for one in tables)
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
    origins = {one.id: one for one in (*type_origins, *_PART_SOURCES.values())}
    rows = [(one.id, one.as_of, one.licence, one.origin) for one in origins.values()]
    return table(SOURCES_FILE, ("source", "as_of", "licence", "origin"), rows)


_CURRENT = provenance.moto(provenance.CURRENT_TYPES, "2026-08-02")
_PART_SOURCES = {
    "instance types": _CURRENT,
    "regions offered": provenance.OFFERINGS,
    "instance prices": provenance.PRICES,
    "disk types": provenance.DISK_RULES,
    "disk prices": provenance.DISK_PRICES,
    "GCP disk types": provenance.GCP_DISK_RULES,
    "GCP disk prices": provenance.GCP_DISK_PRICES,
    "Alibaba disk types": provenance.ALIBABA_DISK_RULES,
    "instance store read rates": provenance.STORE_IOPS,
    "GPU data sheets": provenance.GPU_SHEETS,
    "CPU and GPU measurements": provenance.SPARECORES,
}


def _manifest(tables: Iterable[OutputTable], files: dict[str, bytes]) -> bytes:
    content = {
        "schema": SCHEMA,
        "snapshot": max(one.as_of for one in _PART_SOURCES.values()),
        "clouds": ["aws"],
        "parts": {
            name: {"as_of": one.as_of, "source": one.origin, "licence": one.licence}
            for name, one in _PART_SOURCES.items()
        },
        "files": {
            one.path: {"rows": len(one.rows), "sha256": sha256(files[one.path])} for one in tables
        },
    }
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
