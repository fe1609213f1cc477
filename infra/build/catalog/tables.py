"""What all parts of the build share: reading sources, and tables that are written plainly."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

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
    """A number as short as it can be written exactly: '118.750' -> '118.75', '' -> ''."""
    return f"{float(text):.10g}" if text else ""


def flag(text: str) -> str:
    """'True' -> '1', anything else -> '0'."""
    return "1" if text == "True" else "0"


def sha256(content: bytes) -> str:
    """The digest the manifest records."""
    return hashlib.sha256(content).hexdigest()
