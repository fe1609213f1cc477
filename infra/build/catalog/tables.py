"""Helpers shared by all parts of the build: reading sources and writing plain tables."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from advisor.catalog.disk_orders import LISTED_COLUMNS

SOURCES = Path(__file__).parents[2] / "sources"
_FORBIDDEN = frozenset(',"\r\n')


class OutputTable(Struct, frozen=True):
    """One CSV file of the bundle: path below `advisor/data`, header, rows in order."""

    path: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def encoded(self) -> bytes:
        """The file's bytes; refuses cells that would need quoting (the reader splits at commas)."""
        text = io.StringIO()
        for row in (self.header, *self.rows):
            if len(row) != len(self.header) or _FORBIDDEN & set("".join(row)):
                raise ValueError(f"{self.path}: row {row} does not fit the header or needs quotes")
            text.write(",".join(row) + "\n")
        return text.getvalue().encode()


def read_source(name: str) -> list[dict[str, str]]:
    """All rows of `infra/sources/<name>` by column name; a name in `.gz` is unpacked."""
    packed = (SOURCES / name).read_bytes()
    text = (gzip.decompress(packed) if name.endswith(".gz") else packed).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def write_source(extract: OutputTable) -> None:
    """Write an extract to `infra/sources`, packed where its name ends in `.gz`."""
    content = extract.encoded()
    if extract.path.endswith(".gz"):
        content = gzip.compress(content, 9, mtime=0)
    (SOURCES / extract.path).write_bytes(content)


def table(path: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> OutputTable:
    """A table sorted by its first columns, so that every build writes the same bytes."""
    return OutputTable(path, tuple(header), tuple(sorted(tuple(row) for row in rows)))


def number(text: str) -> str:
    """The shortest exact form of a number: '118.750' -> '118.75', '' -> ''."""
    return f"{float(text):.10g}" if text else ""


def flag(text: str) -> str:
    """'True' -> '1', anything else -> '0'."""
    return "1" if text == "True" else "0"


def sha256(content: bytes) -> str:
    """The digest the manifest records."""
    return hashlib.sha256(content).hexdigest()


RULES_FILE = "catalog/{}_disk_types.csv"
# For rules under CC BY-SA 4.0.
SHARED_RULES_FILE = "sparecores/{}_disk_types.csv"
PRICES_FILE = "catalog/{}_disk_prices.csv"
# The last four: kind of price, lower and upper factor to the true price, and the price of each available size
# of the type.
PRICE_COLUMNS = (*LISTED_COLUMNS, "kind", "low", "high", "usd_per_size_month")
RULE_COLUMNS = tuple(read_source("sparecores/ebs_volume_rules.csv")[0])


def disk_tables(
    cloud: str,
    rules: Iterable[dict[str, str]],
    prices: Iterable[tuple[str, ...]],
    rules_file: str = RULES_FILE,
) -> list[OutputTable]:
    """Tables of a cloud's volume types and of their known prices, which have the first columns of
    `PRICE_COLUMNS`."""
    rows = [tuple(rule[column] for column in RULE_COLUMNS) for rule in rules]
    costs = list(prices)
    header = PRICE_COLUMNS[: max(map(len, costs), default=len(LISTED_COLUMNS))]
    return [
        table(rules_file.format(cloud), RULE_COLUMNS, rows),
        table(PRICES_FILE.format(cloud), header, costs),
    ]
