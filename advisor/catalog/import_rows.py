"""A user's CSV of offers -> checked rows. A bad row refuses the whole file, with line and reason.

Columns (docs/reference/catalog.md): `instance_type`, `region`, `market`, `price_per_hour`,
`currency`, `kind` and `as_of` are needed; the facts may be empty where nobody knows them: such a
type is listed and never ranked. Columns that are not known are refused: a misspelt one would be
lost.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from msgspec import Struct

from advisor.domain import FREE, PRICE_KINDS, Market
from advisor.errors import UsageError, one_line

NEEDED = ("instance_type", "region", "market", "price_per_hour", "currency", "kind", "as_of")
FACTS = (
    "vcpus",
    "physical_cores",
    "memory_gib",
    "cpu_architecture",
    "gpu_name",
    "gpu_count",
    "gpu_memory_gib",
    "local_disk_gib",
    "local_disk_read_iops",
)
OPTIONAL = ("cloud", "source", "terms", *FACTS)
CURRENCIES = ("USD", "CNY", "EUR")
# Means every cloud, and names none.
ANY_CLOUD = "any"
# Why a price is left out.
UNKNOWN_TYPE = "the type is not known"
ARCHITECTURES = ("x86_64", "arm64")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
_NUMBERS = {
    "vcpus": int,
    "physical_cores": int,
    "memory_gib": float,
    "gpu_count": int,
    "gpu_memory_gib": float,
    "local_disk_gib": float,
    "local_disk_read_iops": float,
}
# What no machine has and nothing costs: a slip of the decimal point, or of the unit. Wide enough
# for machines of the next years, and for what a fraction of a cent buys.
_SANE = {
    "vcpus": (1, 100_000),
    "physical_cores": (1, 100_000),
    "memory_gib": (1 / 64, 1_000_000),
    "gpu_count": (1, 10_000),
    "gpu_memory_gib": (1, 2_000),
    "local_disk_gib": (1, 10_000_000),
    "local_disk_read_iops": (1, 1_000_000_000),
    "price_per_hour": (1e-6, 1_000_000),
    # As SkyPilot writes them. No machine has more RAM than the largest of 2026, 32 TiB, twice.
    "vCPUs": (1 / 16, 100_000),
    "MemoryGiB": (1 / 16, 65_536),
    "AcceleratorCount": (1 / 64, 10_000),
    "SizeInMiB": (1, 2_048_000),
    "Price": (1e-6, 1_000_000),
    "SpotPrice": (1e-6, 1_000_000),
}


class BadRowError(UsageError):
    """A line that cannot be an offer; the message has its number and the reason, `line` and
    `reason` have them apart, and `column` what is wrong where that is one value."""

    line = 0
    reason = ""
    column = ""


class ImportRow(Struct, frozen=True, kw_only=True):
    """One checked offer. `price` is in `currency`; None where the source tells none.

    `facts` has a number or text for each of `FACTS` that is known.
    """

    line: int
    cloud: str
    instance_type: str
    region: str
    market: Market
    price: float | None
    currency: str
    kind: str
    as_of: date
    source: str
    terms: str
    facts: Mapping[str, float | str]


def read_rows(text: str, name: str) -> list[ImportRow]:
    """Every line of a CSV; rows without a `cloud` belong to `name`. `UsageError` for a bad one."""
    rows = [_row(line, cells, name) for line, cells in csv_lines(text, NEEDED, OPTIONAL)]
    if not rows:
        raise UsageError("the file has no offers: a header and nothing below it")
    return rows


def csv_lines(
    text: str,
    needed: tuple[str, ...],
    optional: tuple[str, ...] | None,
    broken: list[BadRowError] | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and stripped cells by column name, in any order of columns; `optional` None: any
    others may stand beside those that are needed. Lines of another length go to `broken`, where
    there is one."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header, needed, optional)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                error = bad(reader.line_num, f"has {len(cells)} cells, the header {len(header)}")
                if broken is None:
                    raise error
                broken.append(error)
                continue
            stripped = (cell.strip() for cell in cells)
            yield reader.line_num, dict(zip(header, stripped, strict=True))
    except csv.Error as error:
        raise bad(reader.line_num, f"is no CSV ({error})") from error


def bad(line: int, reason: str, column: str = "") -> BadRowError:
    """What refuses a file, or leaves out a line of it."""
    error = BadRowError(f"line {line} {one_line(reason)}; nothing was imported")
    error.line, error.reason, error.column = line, one_line(reason), column
    return error


def number(line: int, column: str, text: str, kind: type) -> float:
    """A finite number above 0, whole where `kind` is int."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0) or (kind is int and value != int(value)):
        what = "a whole number" if kind is int else "a number"
        raise bad(line, f"has {column} '{text}'; it must be {what} above 0, or empty", column)
    least, most = _SANE.get(column, (0.0, math.inf))
    if not least <= value <= most:
        raise bad(line, f"has {column} '{text}'; {least:,g} to {most:,.10g} can be believed", column)
    return kind(value)  # type: ignore[no-any-return]


def plain_name(line: int, column: str, text: str) -> str:
    """A name that goes into a table unquoted."""
    if not _NAME.match(text):
        raise bad(line, f"has {column} '{text}'; use letters, digits and . _ + - only", column)
    return text


def plain_text(line: int, column: str, text: str) -> str:
    """Words for people; the tables are written without quotes."""
    if not text.isprintable() or '"' in text:
        raise bad(line, f"has a {column} with a quote or a line break")
    return text.replace(",", ";")


def is_to_come(day: date) -> bool:
    """Whether a day lies beyond what time zones explain."""
    return day > date.today() + timedelta(days=1)


def day(line: int, text: str) -> date:
    """A date such as 2026-07-20; one to come, beyond what time zones explain, is refused: its price
    would never count as old."""
    try:
        told = date.fromisoformat(text)
    except ValueError:
        raise bad(line, f"has as_of '{text}'; write a date like 2026-07-20") from None
    if is_to_come(told):
        raise bad(line, f"has as_of '{text}', which is in the future; write the day of the price")
    return told


def _check_header(header: list[str], needed: tuple[str, ...], optional: tuple[str, ...] | None) -> None:
    missing = [name for name in needed if name not in header]
    known = header if optional is None else (*needed, *optional)
    unknown = [name for name in header if name not in known]
    twice = sorted({name for name in header if header.count(name) > 1})
    if missing:
        raise UsageError(f"the file lacks the columns: {', '.join(missing)}")
    if unknown:
        raise UsageError(f"the file has unknown columns: {', '.join(unknown)}; known: {', '.join(known)}")
    if twice:
        raise UsageError(f"the file has columns twice: {', '.join(twice)}")


def _row(line: int, cells: Mapping[str, str], name: str) -> ImportRow:
    kind = _word(line, "kind", cells["kind"], PRICE_KINDS)
    return ImportRow(
        line=line,
        cloud=plain_name(line, "cloud", cells.get("cloud") or name).lower(),
        instance_type=plain_name(line, "instance_type", cells["instance_type"]),
        region=plain_name(line, "region", cells["region"]),
        market=Market(_word(line, "market", cells["market"], tuple(Market))),
        price=_price(line, cells["price_per_hour"], kind),
        currency=_word(line, "currency", cells["currency"].upper(), CURRENCIES),
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
    for column in FACTS:
        text = cells.get(column, "")
        if column in _NUMBERS and column == "gpu_count" and text == "0":
            facts[column] = 0
        elif text and column in _NUMBERS:
            facts[column] = number(line, column, text, _NUMBERS[column])
        elif text:
            facts[column] = plain_text(line, column, text)
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


def _word(line: int, column: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        what = f"'{text}'" if text else "nothing"
        raise bad(line, f"has {what} as {column}; known: {', '.join(known)}")
    return text
