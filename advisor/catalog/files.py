"""The bundle's files: found, hashed against the manifest, and cut into lines. Nothing else.

Format `advisor.catalog-bundle/1`: plain CSV without quoting (no cell holds a comma), one
header line; `catalog/manifest.json` lists every file with its SHA-256. Prices are wide, one
column a region, so that 20,000 offers stay small and a region is read without the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from advisor.errors import DataError

DATA_FOLDER = Path(__file__).parents[1] / "data"
MANIFEST = "catalog/manifest.json"
SCHEMA = "advisor.catalog-bundle/1"
_WAY_OUT = (
    "reinstall the package, or rebuild it in a source checkout: python -m infra.build_catalog"
)


class Table:
    """One CSV file: column positions by name, and lines that are split only when asked for."""

    __slots__ = ("column", "header", "lines", "path")

    def __init__(self, path: str, text: str) -> None:
        first, *lines = text.splitlines() or [""]
        self.path = path
        self.lines = lines
        self.header = first.split(",")
        self.column = {name: position for position, name in enumerate(self.header)}

    def __iter__(self) -> Iterator[list[str]]:
        """Every row as cells, in file order."""
        return (line.split(",") for line in self.lines)

    def records(self) -> Iterator[dict[str, str]]:
        """Every row by column name: for the small tables."""
        return (dict(zip(self.header, cells, strict=True)) for cells in self)

    def lines_by_key(self) -> dict[str, str]:
        """First cell -> unsplit line; the first cell must be unique."""
        return {line[: line.index(",")]: line for line in self.lines}

    def record(self, line: str) -> dict[str, str]:
        """One unsplit line by column name."""
        return dict(zip(self.header, line.split(","), strict=True))


class BundleFiles:
    """Every file of a bundle, read once and checked against the manifest.

    Raises `DataError` that names the file and the way out when one is missing, cut short,
    changed, or of another format version.
    """

    def __init__(self, folder: Path) -> None:
        self.manifest = _read_manifest(folder / MANIFEST)
        self._texts = {
            path: _read_checked(folder / path, facts["sha256"])
            for path, facts in self.manifest["files"].items()
        }

    def table(self, path: str) -> Table:
        """The table at `path`, relative to the data folder."""
        if path not in self._texts:
            raise DataError(f"the catalogue's manifest does not list {path}; {_WAY_OUT}")
        return Table(path, self._texts[path])


def _read_manifest(path: Path) -> Mapping[str, Any]:
    try:
        manifest: Any = json.loads(_read(path))
    except ValueError as error:
        raise DataError(f"the catalogue's {path} is corrupt; {_WAY_OUT}") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise DataError(f"the catalogue's {path} has format {schema}, not {SCHEMA}; {_WAY_OUT}")
    try:
        complete = all(entry["sha256"] for entry in manifest["files"].values())
        complete = complete and bool(manifest["clouds"] and manifest["snapshot"])
        complete = complete and all(part["as_of"] for part in manifest["parts"].values())
    except (KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise DataError(f"the catalogue's {path} is incomplete; {_WAY_OUT}")
    return dict(manifest)


def _read_checked(path: Path, digest: str) -> str:
    content = _read(path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(
            f"the catalogue's {path} is not the file its manifest lists (changed or cut short); "
            f"{_WAY_OUT}"
        )
    return content.decode()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"the catalogue's {path} cannot be read ({reason}); {_WAY_OUT}") from error
