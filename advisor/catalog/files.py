"""The bundle's files: found, hashed against the manifest, and cut into lines. Nothing else.

Format `advisor.catalog-bundle/3`: plain CSV without quoting (no cell holds a comma), one
header line; prices are coded, a file for each cloud and market (`stored_prices`).
`catalog/manifest.json` lists every file with its SHA-256, and holds its own. A file is read, and
checked, when it is first asked for: who asks about one cloud never waits for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from advisor.catalog.stored_prices import StoredPrices, unpacked
from advisor.errors import DataError

DATA_FOLDER = Path(__file__).parents[1] / "data"
MANIFEST = "catalog/manifest.json"
SCHEMA = "advisor.catalog-bundle/3"
REFRESHED_SUFFIX = ".refreshed.json"  # behind a cloud, in the user's folder: see `refreshed`
_OWN_DIGEST = b'"digest": "%s"'
_WAY_OUT = "reinstall the package, or rebuild it in a source checkout: python -m advisor.infra.build.catalog"


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


class Files(Protocol):
    """Where tables come from: the bundle that ships, or what a user imported."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Clouds with their price tables, parts with their dates."""

    def has(self, path: str) -> bool:
        """Whether there is this table."""

    def table(self, path: str) -> Table:
        """The table at `path`; `DataError` where it is not whole."""

    def prices(self, path: str) -> Sequence[StoredPrices]:
        """The prices at `path`, one entry a market; `DataError` as for a table."""


class BundleFiles:
    """The files of a bundle, each read and checked against the manifest when it is asked for.

    Raises `DataError` that names the file and the way out when one is missing, cut short,
    changed, or of another format version.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._manifest = _read_manifest(folder / MANIFEST)

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Clouds with their price tables, parts with their dates, files with their digests."""
        return self._manifest

    def has(self, path: str) -> bool:
        """Whether the bundle has this table."""
        return path in self.manifest["files"]

    def table(self, path: str) -> Table:
        """The table at `path`, relative to the data folder."""
        return Table(path, self._checked(path).decode())

    def prices(self, path: str) -> Sequence[StoredPrices]:
        """The prices at `path`, relative to the data folder: of one market."""
        return [unpacked(self._checked(path), path)]

    def verify(self) -> None:
        """Read and check every file now."""
        for path in self.manifest["files"]:
            self._checked(path)

    def _checked(self, path: str) -> bytes:
        if not self.has(path):
            raise DataError(f"the catalogue's manifest does not list {path}; {_WAY_OUT}")
        content = _read(self._folder / path)
        if hashlib.sha256(content).hexdigest() != self.manifest["files"][path]["sha256"]:
            raise DataError(
                f"the catalogue's {self._folder / path} is not the file its manifest lists "
                f"(changed or cut short); {_WAY_OUT}"
            )
        return content


def sealed(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as it is written: with the SHA-256 of all its other bytes in `digest`."""
    blank = (json.dumps(dict(manifest) | {"digest": ""}, indent=1, sort_keys=True) + "\n").encode()
    digest = hashlib.sha256(blank).hexdigest().encode()
    return blank.replace(_OWN_DIGEST % b"", _OWN_DIGEST % digest, 1)


def is_sealed(content: bytes, manifest: Mapping[str, Any]) -> bool:
    """Whether these bytes are what `sealed` wrote."""
    digest = str(manifest.get("digest")).encode()
    blank = content.replace(_OWN_DIGEST % digest, _OWN_DIGEST % b"", 1)
    return hashlib.sha256(blank).hexdigest().encode() == digest


def _read_manifest(path: Path) -> Mapping[str, Any]:
    content = _read(path)
    try:
        manifest: Any = json.loads(content)
    except ValueError as error:
        raise DataError(f"the catalogue's {path} is corrupt; {_WAY_OUT}") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise DataError(f"the catalogue's {path} has format {schema}, not {SCHEMA}; {_WAY_OUT}")
    if not is_sealed(content, manifest):
        raise DataError(f"the catalogue's {path} was changed or cut short; {_WAY_OUT}")
    if not _is_complete(manifest):
        raise DataError(f"the catalogue's {path} is incomplete; {_WAY_OUT}")
    return dict(manifest)


def _is_complete(manifest: Mapping[str, Any]) -> bool:
    try:
        return (
            all(entry["sha256"] for entry in manifest["files"].values())
            and all(part["as_of"] for part in manifest["parts"].values())
            and all(
                cloud["prices"] and cloud["as_of"] and "lacking" in cloud
                for cloud in manifest["clouds"].values()
            )
            and bool(manifest["snapshot"] and manifest["clouds"])
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _read(path: Path) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:  # nearly a hundred, each read at once
            return file.read()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"the catalogue's {path} cannot be read ({reason}); {_WAY_OUT}") from error
