"""Tables of an import in the bundle's form, and their manifest, from checked rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.catalog.gpus import is_whole
from advisor.catalog.instances import TYPE_COLUMNS
from advisor.catalog.overlay import PRICE_KEYS
from advisor.catalog.prices import BASES_FILE, ECC_SHARE, SOURCES_FILE, is_gpu
from advisor.catalog.providers.rows import PriceRow, Tables, bad, require_first
from advisor.domain import Gpu
from advisor.domain.gpu_names import WHOLE_SHARE

Sheets = Mapping[str, Gpu]
SOURCE_COLUMNS = ("source", "as_of", "licence", "origin", "terms")
# Why a line is left out whose GPU memory fits no card of that name.
NO_CARD = "the memory of its GPU is that of no whole card of the name"
# (date, source, terms) -> the id that other tables use.
Ids = Mapping[tuple[str, str, str], str]


def build_tables(rows: Sequence[PriceRow], sheets: Sheets) -> Tables:
    """Manifest and tables of checked rows; refuses two prices, or two sets of facts, for one thing."""
    ids: dict[tuple[str, str, str], str] = {}
    for row in rows:
        ids.setdefault(_origin(row), f"s{len(ids) + 1}")
    tables = {
        SOURCES_FILE: csv_text(
            SOURCE_COLUMNS, [(i, as_of, "the user's", text, terms) for (as_of, text, terms), i in ids.items()]
        )
    }
    bases: dict[tuple[str, ...], str] = {}
    clouds: dict[str, Any] = {}
    for cloud in sorted({row.cloud for row in rows}):
        own = [row for row in rows if row.cloud == cloud]
        tables |= _type_tables(cloud, own, sheets, ids)
        path = f"catalog/{cloud}_prices.csv"
        tables[path], regions = _prices(own, ids, bases)
        currencies = {row.currency for row in own}
        clouds[cloud] = {
            "currency": currencies.pop() if len(currencies) == 1 else "USD",
            "as_of": min(row.as_of for row in own).isoformat(),
            "prices": {path: regions},
            "lacking": sorted({row.instance_type for row in own if _lacks_facts(row)}),
        }
    columns = ("basis", "market", "kind", "currency", "source")
    tables[BASES_FILE] = csv_text(columns, [(name, *key) for key, name in bases.items()])
    return {"clouds": clouds}, tables


def card_name(name: str, memory_gib: float | None, sheets: Sheets) -> str:
    """The data sheet that a card's name means ('A100-80GB', 'V100'), or the name itself without a sheet.

    Of several that fit (PCIe and SXM) it is the slower one: an answer must not promise more than the card
    does."""
    named, memory_gib = _sheets_and_memory(name, memory_gib, sheets)
    fitting = [sheet for sheet in named if _same_size(memory_gib, sheet.memory_mib / 1024)]
    exact = [sheet for sheet in fitting if sheet.name.casefold() == name.casefold()]
    slow_first = sorted(exact or fitting, key=lambda sheet: (sheet.memory_gb_per_second, sheet.fp32_tflops))
    return slow_first[0].name if fitting else name


def why_no_card(facts: Mapping[str, float | str], sheets: Sheets) -> str:
    """The reason why a row's GPU name and memory fit no whole card; "" where one may fit."""
    memory_gib, name = facts.get("gpu_memory_gib"), str(facts.get("gpu_name", ""))
    named, gib = _sheets_and_memory(name, float(memory_gib) if memory_gib else None, sheets)
    if not named or any(_same_size(gib, sheet.memory_mib / 1024) for sheet in named):
        return ""
    sizes = ", ".join(f"{gib:g}" for gib in sorted({sheet.memory_mib / 1024 for sheet in named}))
    return f"{gib:.4g} GiB is the memory of no whole {name} ({sizes} GiB)"


def _sheets_and_memory(name: str, memory_gib: float | None, sheets: Sheets) -> tuple[list[Gpu], float | None]:
    """The sheets that a name means, and its GiB ('A100-80GB'); a slice of a card has no sheet."""
    head, _, tail = name.rpartition("-")
    bare = head if tail.removesuffix("GB").isdigit() else name
    if bare != name and memory_gib is None:
        memory_gib = float(tail.removesuffix("GB"))
    whole = is_whole(name, sheets)
    return [sheet for sheet in sheets.values() if whole and is_gpu(sheet.name, bare)], memory_gib


def _lacks_facts(row: PriceRow) -> bool:
    """True if a row lacks vCPUs, RAM or the number of its GPUs."""
    facts = row.facts
    return not ("vcpus" in facts and "memory_gib" in facts) or (
        "gpu_name" in facts and "gpu_count" not in facts
    )


def _same_size(gib: float | None, nominal: float) -> bool:
    return gib is None or WHOLE_SHARE * nominal <= gib <= nominal / ECC_SHARE


def _origin(row: PriceRow) -> tuple[str, str, str]:
    return row.as_of.isoformat(), row.source or "imported by the user", row.terms


def _type_tables(cloud: str, rows: Sequence[PriceRow], sheets: Sheets, ids: Ids) -> dict[str, str]:
    first: dict[str, PriceRow] = {}
    regions: dict[str, set[str]] = {}
    for row in rows:
        seen = first.setdefault(row.instance_type, row)
        if seen.facts != row.facts:
            raise bad(row.line, f"has other facts of {row.instance_type} than line {seen.line}")
        regions.setdefault(row.instance_type, set()).add(row.region)
    sets = {name: f"r{number}" for number, name in enumerate(first)}
    types = [_type_cells(row, sheets, sets[name], ids) for name, row in first.items()]
    places = [(sets[name], " ".join(sorted(where))) for name, where in regions.items()]
    return {
        f"catalog/{cloud}_instance_types.csv": csv_text(TYPE_COLUMNS, types),
        f"catalog/{cloud}_region_sets.csv": csv_text(("region_set", "regions"), places),
        f"catalog/{cloud}_disk_types.csv": "type\n",
        f"catalog/{cloud}_disk_prices.csv": "region,type\n",
    }


def _type_cells(row: PriceRow, sheets: Sheets, region_set: str, ids: Ids) -> tuple[str, ...]:
    facts = row.facts
    vcpus, memory = facts.get("vcpus"), facts.get("memory_gib")
    cells = {
        "instance_type": row.instance_type,
        "vcpus": _text(vcpus),
        # Clouds sell hardware threads, two of a core, unless they say otherwise.
        "physical_cores": _text(facts.get("physical_cores") or (vcpus and max(1, int(vcpus) // 2))),
        "memory_mib": str(round(float(memory) * 1024)) if memory else "",
        "cpu_architecture": str(facts.get("cpu_architecture", "x86_64")),
        "instance_store_gb": _text(float(facts.get("local_disk_gib", 0)) * 2**30 / 1e9 or None),
        "instance_store_read_iops": _text(facts.get("local_disk_read_iops")),
        "burstable": "0",
        "current": "1",
        "region_set": region_set,
        "source": ids[_origin(row)],
    } | _gpu_cells(facts, sheets)
    return tuple(cells.get(column, "") for column in TYPE_COLUMNS)


def _gpu_cells(facts: Mapping[str, float | str], sheets: Sheets) -> dict[str, str]:
    if "gpu_name" not in facts:
        return {"gpu_count": _text(facts.get("gpu_count")) or "0"}
    memory_gib = facts.get("gpu_memory_gib")
    name = card_name(str(facts["gpu_name"]), float(memory_gib) if memory_gib else None, sheets)
    sheet = sheets.get(name)
    memory = float(memory_gib) * 1024 if memory_gib else (sheet.memory_mib if sheet else None)
    return {
        "gpu_name": name,
        "gpu_vendor": sheet.vendor if sheet else "NVIDIA",
        "gpu_count": _text(facts.get("gpu_count")),
        "gpu_fraction": "1",
        "gpu_memory_mib": str(round(memory)) if memory else "",
    }


def _prices(rows: Sequence[PriceRow], ids: Ids, bases: dict[tuple[str, ...], str]) -> tuple[str, list[str]]:
    regions = sorted({row.region for row in rows})
    lines: dict[tuple[str, str], dict[str, str]] = {}
    seen: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = (str(row.market), row.kind, row.currency, ids[_origin(row)])
        basis = bases.setdefault(key, f"b{len(bases) + 1}")
        what = f"is a second price of {row.instance_type} in {row.region} ({row.market})"
        require_first(seen, (row.instance_type, str(row.market), row.region), row.line, what)
        if row.price is not None:
            lines.setdefault((row.instance_type, basis), {})[row.region] = f"{row.price:.10g}"
    body = [(*key, *(cells.get(r, "") for r in regions)) for key, cells in lines.items()]
    return csv_text((*PRICE_KEYS, *regions), body), regions


def _text(value: float | str | None) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as text in the bundle's form: no cell holds a comma."""
    return "".join(",".join(row) + "\n" for row in (header, *rows))
