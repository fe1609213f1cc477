"""Shared by clouds that list prices and sizes: columns of types, and facts by family.

A fact that no source file gives stays empty, and a type that lacks one is listed but never ranked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from advisor.catalog.instances import TYPE_COLUMNS
from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table
from advisor.infra.build.catalog.wide import Basis, CloudPart, PriceRow, Source, region_sets

Row = Mapping[str, str]
# A GPU that no source file names.
UNNAMED = "unnamed GPU"


def cloud_part(
    name: str,
    source: Source,
    types: Iterable[Row],
    prices: Iterable[PriceRow],
    bases: Iterable[Basis],
    *,
    apart: Iterable[Row] = (),
    more: Iterable[OutputTable] = (),
    sources: Iterable[Source] = (),
) -> CloudPart:
    """A cloud whose types and list prices come from one source; `sources` are those of the `more` tables.

    A type is offered where it has a price; types without a price are left out. The types in `apart` have
    facts under CC BY-SA 4.0: they go to a separate file, priced or not."""
    rows = tuple(prices)
    offered: dict[str, set[str]] = {}
    for row in rows:
        offered.setdefault(row.instance_type, set()).update(row.cells)
    listed = {name: regions for name, regions in offered.items() if regions}
    sets, set_of = region_sets(f"catalog/{name}_region_sets.csv", listed)
    shared = list(apart)
    own = [row for row in types if row["instance_type"] in offered]
    tables = [_types(f"catalog/{name}_instance_types.csv", own, set_of, source), sets, *more]
    if shared:
        path = f"sparecores/{name}_instance_types.csv"
        tables.append(_types(path, shared, set_of, source))
    return CloudPart(name, source.as_of, tuple(tables), rows, tuple(bases), (source, *sources))


def _types(path: str, rows: Iterable[Row], set_of: Mapping[str, str], source: Source) -> OutputTable:
    """The table of types with their region sets; rows without a source get `source`."""
    placed = [
        {"source": source.id, "region_set": set_of.get(row["instance_type"], "")} | dict(row) for row in rows
    ]
    return table(path, TYPE_COLUMNS, [[row.get(c, "") for c in TYPE_COLUMNS] for row in placed])


def host(cloud: str, name: str, keys: Iterable[str], vcpus: str, memory_gib: str) -> dict[str, str]:
    """Host columns of a type; `keys` are families that may determine its CPU, most specific first."""
    families = _cpu_families()
    family = next((families[cloud, key] for key in keys if (cloud, key) in families), {})
    threads = int(family.get("threads_per_core", 2))
    whole = max(1, int(float(vcpus)))
    return {
        "instance_type": name,
        "vcpus": str(whole),
        "physical_cores": str(max(1, whole // threads)),
        "memory_mib": str(round(float(memory_gib) * 1024)),
        "cpu_architecture": family.get("cpu_architecture", "x86_64"),
        "burstable": family.get("shared", "0"),
        "current": "1",
    }


def gpu(cloud: str, key: str, count: str, share: float = 1.0) -> dict[str, str]:
    """GPU columns of a type; a GPU without a data sheet keeps the cloud's name for it."""
    known = gpu_families().get((cloud, key))
    facts = {"gpu_vendor": "NVIDIA", "gpu_count": count, "gpu_fraction": number(str(share))}
    if known is None:
        return facts | {"gpu_name": key}
    memory = round(sheet_gib()[known["sheet"]] * 1024 * share)
    return facts | {"gpu_name": known["sheet"], "gpu_memory_mib": str(memory)}


def no_gpu() -> dict[str, str]:
    """GPU columns of a type without GPUs."""
    return {"gpu_count": "0"}


@cache
def _cpu_families() -> dict[tuple[str, str], dict[str, str]]:
    rows = read_source("catalog/cpu_families.csv")
    return {(row["cloud"], row["family"]): row for row in rows}


@cache
def gpu_families() -> dict[tuple[str, str], dict[str, str]]:
    """Facts of the GPU of each family, by cloud and family."""
    rows = read_source("catalog/gpu_families.csv")
    return {(row["cloud"], row["family"]): row for row in rows}


@cache
def sheet_gib() -> dict[str, float]:
    """GPU memory in GiB by the name of its data sheet."""
    rows = read_source("catalog/gpu_specs.csv")
    return {row["gpu"]: float(row["memory_gb"]) for row in rows}
