"""A user's CSV of offers. A bad row refuses the whole file, with line and reason.

Columns (docs/reference/catalog.md): `instance_type`, `region`, `market`, `price_per_hour`, `currency`, `kind`
and `as_of` are needed; unknown facts may be empty: such a type is listed and never ranked. Unknown columns
are refused, since a misspelt one would be lost."""

from __future__ import annotations

from advisor.catalog.catalog import Catalog
from advisor.catalog.providers.rows import Contents, Line, PriceFile, PriceRow, bad, lines_of
from advisor.catalog.providers.tables import why_no_card
from advisor.domain import FREE, PRICE_KINDS, Market
from advisor.messages import Message

NEEDED = ("instance_type", "region", "market", "price_per_hour", "currency", "kind", "as_of")
# Fact of a type -> its Python type.
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
    """True if a file is a CSV, of any columns."""
    return not file.is_json


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """An offer per line; rows without `cloud` take the file's name. `UsageError` for a bad line."""
    rows = [_row(line, file.name) for line in lines_of(file, NEEDED, OPTIONAL, _EMPTY)]
    for row in rows:
        if why := why_no_card(row.facts, catalog.gpus):
            raise bad(row.line, f"has a gpu_memory_gib that cannot be: {why}")
    return Contents(rows=rows)


def _row(line: Line, name: str) -> PriceRow:
    kind = line.word("kind", PRICE_KINDS)
    return PriceRow(
        line=line.number,
        cloud=line.name("cloud", name).lower(),
        instance_type=line.name("instance_type"),
        region=line.name("region"),
        market=Market(line.word("market", tuple(Market))),
        price=_price(line, kind),
        currency=line.word("currency", CURRENCIES),
        kind=kind,
        as_of=line.day("as_of"),
        source=line.words("source"),
        terms=line.words("terms"),
        facts=_facts(line),
    )


def _price(line: Line, kind: str) -> float | None:
    """The price of a line, None if empty; only a free offer may cost 0, and it has to say so."""
    text = line.text("price_per_hour")
    if not text:
        if kind == FREE:
            raise line.bad("is free and has no price_per_hour; write 0")
        return None
    if kind == FREE:
        if text.strip("0.") or not text.strip("."):
            raise line.bad(f"is free and costs '{text}'; write 0, or another kind")
        return 0.0
    if not text.strip("0."):
        raise line.bad("costs 0 and its kind is not 'free'; leave an unknown price empty")
    return line.amount("price_per_hour")


def _facts(line: Line) -> dict[str, float | str]:
    facts: dict[str, float | str] = {}
    for column, kind in FACTS.items():
        text = line.text(column)
        if column == "gpu_count" and text == "0":
            facts[column] = 0
        elif text:
            facts[column] = line.words(column) if kind is str else line.amount(column, kind)
    vcpus, cores = facts.get("vcpus"), facts.get("physical_cores")
    if isinstance(cores, int) and isinstance(vcpus, int) and cores > vcpus:
        raise line.bad(f"has more physical_cores ({cores}) than vcpus ({vcpus})")
    if "cpu_architecture" in facts:
        line.word("cpu_architecture", ARCHITECTURES)
    if facts.get("gpu_count") and not facts.get("gpu_name"):
        raise line.bad("has GPUs without a gpu_name")
    if facts.get("gpu_name") and facts.get("gpu_count") == 0:
        raise line.bad(f"has a gpu_name ({facts['gpu_name']}) and no GPU")
    return facts
