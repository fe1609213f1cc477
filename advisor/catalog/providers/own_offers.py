"""A user's own CSV of offers. A bad row refuses the whole file, with line and reason.

Columns (docs/reference/catalog.md): `instance_type`, `region`, `market`, `price_per_hour`, `currency`, `kind`
and `as_of` are needed; the facts may be empty where nobody knows them: such a type is listed and never
ranked. Columns that are not known are refused: a misspelt one would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.catalog import Catalog
from advisor.catalog.providers.rows import (
    Contents,
    PriceFile,
    PriceRow,
    bad,
    day,
    lines_of,
    number,
    plain_name,
    plain_text,
    word,
)
from advisor.catalog.providers.tables import why_no_card
from advisor.domain import FREE, PRICE_KINDS, Market
from advisor.messages import Message

NEEDED = ("instance_type", "region", "market", "price_per_hour", "currency", "kind", "as_of")
# Facts of a type; those that are numbers are whole (int) or not (float).
FACTS = {
    "vcpus": int,
    "physical_cores": int,
    "memory_gib": float,
    "cpu_architecture": str,
    "gpu_name": str,
    "gpu_count": int,
    "gpu_memory_gib": float,
    "local_disk_gib": float,
    "local_disk_read_iops": float,
}
OPTIONAL = ("cloud", "source", "terms", *FACTS)
CURRENCIES = ("USD", "CNY", "EUR")
ARCHITECTURES = ("x86_64", "arm64")
_EMPTY = Message("the file has no offers: a header and nothing below it")


def reads(file: PriceFile) -> bool:
    """Any CSV."""
    return not file.is_json


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """Every line; rows without a `cloud` belong to the file's name. `UsageError` for a bad one, and for a
    GPU that cannot be."""
    rows = [_row(line, cells, file.name) for line, cells in lines_of(file, NEEDED, OPTIONAL, _EMPTY)]
    for row in rows:
        if why := why_no_card(row.facts, catalog.gpus):
            raise bad(row.line, f"has a gpu_memory_gib that cannot be: {why}")
    return Contents(rows=rows)


def _row(line: int, cells: Mapping[str, str], name: str) -> PriceRow:
    kind = word(line, "kind", cells["kind"], PRICE_KINDS)
    return PriceRow(
        line=line,
        cloud=plain_name(line, "cloud", cells.get("cloud") or name).lower(),
        instance_type=plain_name(line, "instance_type", cells["instance_type"]),
        region=plain_name(line, "region", cells["region"]),
        market=Market(word(line, "market", cells["market"], tuple(Market))),
        price=_price(line, cells["price_per_hour"], kind),
        currency=word(line, "currency", cells["currency"].upper(), CURRENCIES),
        kind=kind,
        as_of=day(line, cells["as_of"]),
        source=plain_text(line, "source", cells.get("source", "")),
        terms=plain_text(line, "terms", cells.get("terms", "")),
        facts=_facts(line, cells),
    )


def _price(line: int, text: str, kind: str) -> float | None:
    """0 is a price of what is free, and says so; anything else that costs 0 is a mistake."""
    if not text:
        if kind == FREE:
            raise bad(line, "is free and has no price_per_hour; write 0")
        return None
    if kind == FREE:
        if text.strip("0.") or not text.strip("."):
            raise bad(line, f"is free and costs '{text}'; write 0, or another kind")
        return 0.0
    if not text.strip("0."):
        raise bad(line, "costs 0 and its kind is not 'free'; leave an unknown price empty")
    return number(line, "price_per_hour", text, float)


def _facts(line: int, cells: Mapping[str, str]) -> dict[str, float | str]:
    facts: dict[str, float | str] = {}
    for column, kind in FACTS.items():
        text = cells.get(column, "")
        if column == "gpu_count" and text == "0":
            facts[column] = 0
        elif text:
            facts[column] = (
                plain_text(line, column, text) if kind is str else number(line, column, text, kind)
            )
    _check_facts(line, facts)
    return facts


def _check_facts(line: int, facts: Mapping[str, float | str]) -> None:
    vcpus, cores = facts.get("vcpus"), facts.get("physical_cores")
    if isinstance(cores, int) and isinstance(vcpus, int) and cores > vcpus:
        raise bad(line, f"has more physical_cores ({cores}) than vcpus ({vcpus})")
    architecture = facts.get("cpu_architecture", "x86_64")
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise bad(line, f"has cpu_architecture '{architecture}'; known: {known}")
    if facts.get("gpu_count") and not facts.get("gpu_name"):
        raise bad(line, "has GPUs without a gpu_name")
    if facts.get("gpu_name") and facts.get("gpu_count") == 0:
        raise bad(line, f"has a gpu_name ({facts['gpu_name']}) and no GPU")
