"""Reads AWS prices from the `instances.json` of ec2instances.info (Linux; on demand, spot, commitments)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from msgspec.structs import replace

from advisor.catalog.believed import contradiction
from advisor.catalog.catalog import Catalog
from advisor.catalog.overlay import Overlay, PriceKey
from advisor.catalog.providers.rows import UNKNOWN_TYPE, Contents, PriceFile, Row
from advisor.domain import LIST, OBSERVED, Market, Price
from advisor.domain.machines import is_positive
from advisor.errors import UsageError

CLOUD = "aws"
SOURCE = "ec2instances.info (imported)"
# The cheapest zone's price where the file has it, as `catalog refresh` keeps it.
_SPOT = ("spotmin", "spotavg")
_ON_DEMAND = ("ondemand",)
_FACTS = {"vcpus": "vCPU", "memory_gib": "memory", "gpu_count": "GPU"}
_MARKETS = frozenset(map(str, Market))
_RESERVED = {
    "yrTerm1Standard.noUpfront": "commitment-1y",
    "yrTerm3Standard.noUpfront": "commitment-3y",
    "yrTerm1Convertible.noUpfront": "commitment-1y-convertible",
    "yrTerm3Convertible.noUpfront": "commitment-3y-convertible",
}


def reads(file: PriceFile) -> bool:
    """True if a file is a JSON list of types with prices by region."""
    document = file.document
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(entry, dict) for entry in document)
        and any("instance_type" in entry and "pricing" in entry for entry in document)
    )


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """Prices of the types in the catalogue."""
    as_of = file.required_date("ec2instances.info's file")
    known = {instance.name: instance for instance in catalog.instances(CLOUD)}
    contents, overlay = Contents(), Overlay()
    for position, entry in enumerate(file.document):
        name = entry.get("instance_type")
        if not isinstance(name, str) or name not in known:
            contents.leave_out(UNKNOWN_TYPE)
            continue
        if why := contradiction(_facts(entry), known[name], catalog.gpus):
            contents.leave_out(why, name)
            continue
        for region, linux in _linux_prices(entry, f"[{position}]"):
            path = f"[{position}].pricing.{region}.linux"
            overlay.prices.update(_prices(Row(path, linux), name, region, as_of))
    if not overlay:
        raise UsageError("the file has no Linux price of a type that is known", field="file")
    return replace(contents, overlays={CLOUD: overlay})


def _facts(entry: Mapping[str, Any]) -> dict[str, float | str]:
    """The facts of an entry that can be checked against the catalogue; a 0 is left out."""
    facts: dict[str, float | str] = {
        key: entry[name] for key, name in _FACTS.items() if is_positive(entry.get(name))
    }
    model = entry.get("GPU_model")
    return facts | ({"gpu_name": model} if isinstance(model, str) and model else {})


def _linux_prices(entry: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pricing = entry.get("pricing", {})
    if not isinstance(pricing, dict):
        raise Row(path, {}).bad("has a pricing that is no object")
    for region, systems in pricing.items():
        linux = systems.get("linux") if isinstance(systems, dict) else None
        if isinstance(linux, dict):
            plain = {name.replace("_", "").casefold(): value for name, value in linux.items()}
            yield region, plain


def _prices(row: Row, name: str, region: str, as_of: date) -> dict[PriceKey, Price]:
    reserved = row.fields.get("reserved")
    terms = Row(f"{row.path}.reserved", reserved if isinstance(reserved, dict) else {})
    rates = {Market.ON_DEMAND: row.number(_ON_DEMAND), Market.SPOT: row.number(_SPOT)}
    rates |= {Market(on): terms.number((term,)) for term, on in _RESERVED.items() if on in _MARKETS}
    return {
        (name, region, market): Price(
            usd_per_hour=usd, kind=OBSERVED if market is Market.SPOT else LIST, as_of=as_of, source=SOURCE
        )
        for market, usd in rates.items()
        if usd is not None
    }
