"""The snapshot's files: read, checked against the manifest, and split into lines or prices.

Format `advisor.catalog-bundle/3`: plain CSV without quotes (no cell holds a comma), one header line.
`catalog/manifest.json` lists every file with its SHA-256, and has a digest of itself. A file is read and
checked on first use: a question about one cloud never waits for another.

The prices of one cloud on one market are three small arrays after a line of JSON, compressed: thousands of
cells share few prices, and fewer bases. A cell holds the index of its price among the distinct ones (0: no
price), and the index of its basis."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.errors import DataError
from advisor.files import system_errors

_ALIGNMENT = 8
_UNSIGNED = ("<u1", "<u2", "<u4")
# Type -> region -> the price in the currency of its basis, and the basis's id.
Cells = Mapping[str, Mapping[str, tuple[float, str]]]


class StoredPrices(Struct, frozen=True):
    """Prices of one market: a row per type, a column per region; `distinct[0]` is nan and means no price.

    `position` and `basis` have shape (types, regions) and index `distinct` and `bases`; without a price the
    basis has no meaning. Prices are in the currency of their basis."""

    market: str
    types: Sequence[str]
    regions: Sequence[str]
    bases: Sequence[str]
    distinct: NDArray[np.float64]
    position: NDArray[np.unsignedinteger[Any]]
    basis: NDArray[np.unsignedinteger[Any]]

    def without(self, gone: Iterable[tuple[str, str]]) -> StoredPrices:
        """A copy without the prices of these (type, region) pairs."""
        rows = {name: row for row, name in enumerate(self.types)}
        columns = {name: column for column, name in enumerate(self.regions)}
        position = self.position.copy()
        for name, region in gone:
            if name in rows and region in columns:
                position[rows[name], columns[region]] = 0
        return replace(self, position=position)

    def packed(self) -> bytes:
        """The stored bytes, always the same for the same prices; `unpacked` reads them."""
        arrays = {"distinct": self.distinct, "position": self.position, "basis": self.basis}
        head = {
            "market": self.market,
            "types": list(self.types),
            "regions": list(self.regions),
            "bases": list(self.bases),
            "dtypes": {name: array.dtype.str for name, array in arrays.items()},
            "distinct": len(self.distinct),
        }
        line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        line = line.rjust(-(-len(line) // _ALIGNMENT) * _ALIGNMENT)
        return zlib.compress(line + b"".join(array.tobytes() for array in arrays.values()), 9)


def stored_prices(market: str, cells: Cells) -> StoredPrices:
    """Prices of one market in their stored form; types and regions in the order of their names."""
    types = sorted(name for name, row in cells.items() if row)
    regions = sorted({region for row in cells.values() for region in row})
    bases = sorted({basis for row in cells.values() for _, basis in row.values()})
    distinct = sorted({price for row in cells.values() for price, _ in row.values()})
    price_at = {price: index for index, price in enumerate(distinct, 1)}
    basis_at = {basis: index for index, basis in enumerate(bases)}
    column_of = {region: column for column, region in enumerate(regions)}
    position = np.zeros((len(types), len(regions)), _smallest_dtype(len(distinct) + 1))
    basis = np.zeros((len(types), len(regions)), _smallest_dtype(len(bases)))
    for row, name in enumerate(types):
        for region, (price, known_by) in cells[name].items():
            position[row, column_of[region]] = price_at[price]
            basis[row, column_of[region]] = basis_at[known_by]
    return StoredPrices(market, types, regions, bases, np.array([math.nan, *distinct]), position, basis)


def stored_by_market(prices: Iterable[tuple[str, str, str, float, str]]) -> list[StoredPrices]:
    """Stored prices, one per market, from tuples of market, type, region, price and basis."""
    cells: dict[str, dict[str, dict[str, tuple[float, str]]]] = defaultdict(lambda: defaultdict(dict))
    for market, name, region, price, basis in prices:
        cells[market][name][region] = price, basis
    return [stored_prices(market, of_types) for market, of_types in cells.items()]


def unpacked(content: bytes) -> StoredPrices:
    """The prices whose bytes `packed` wrote."""
    plain = zlib.decompress(content)
    start = plain.index(b"\n") + 1
    head: Any = json.loads(plain[:start])
    shape = len(head["types"]), len(head["regions"])
    counts = {"distinct": head["distinct"], **dict.fromkeys(("position", "basis"), math.prod(shape))}
    arrays = {}
    for name, count in counts.items():
        kind = np.dtype(head["dtypes"][name])
        arrays[name] = np.frombuffer(plain, kind, count, start)
        start += count * kind.itemsize
    market, types, regions, bases = (head[name] for name in ("market", "types", "regions", "bases"))
    position, basis = (arrays[name].reshape(shape) for name in ("position", "basis"))
    return StoredPrices(market, types, regions, bases, arrays["distinct"], position, basis)


def _smallest_dtype(count: int) -> np.dtype[Any]:
    return next(kind for kind in map(np.dtype, _UNSIGNED) if count - 1 <= np.iinfo(kind).max)


DATA_FOLDER = Path(__file__).parents[1] / "data"
MANIFEST = "catalog/manifest.json"
SCHEMA = "advisor.catalog-bundle/3"
_OWN_DIGEST = b'"digest": "%s"'
_WAY_OUT = "reinstall the package, or rebuild it in a source checkout: python -m advisor.infra.build.catalog"


class Table:
    """One CSV file: column positions by name, and lines that are split only on use."""

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
    """A set of tables: the bundle that ships, or a user's import."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Clouds with their price tables, parts with their dates."""

    def has(self, path: str) -> bool:
        """True if there is this table."""

    def table(self, path: str) -> Table:
        """The table at `path`; `DataError` where it is not whole."""

    def prices(self, path: str) -> Sequence[StoredPrices]:
        """The stored prices at `path`, one per market; `DataError` where the file is not whole."""


def table_if_any(files: Files, path: str) -> Table:
    """The table at `path`; an empty one where the files have none."""
    return files.table(path) if files.has(path) else Table(path, "")


class BundleFiles:
    """The files of a bundle, each read and checked against the manifest on first use.

    `DataError` names the file and the way out when one is missing, cut short, changed, or of another format
    version."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Clouds with their price tables, parts with their dates, files with their digests.
        self.manifest: Mapping[str, Any] = _read_manifest(folder / MANIFEST)

    def has(self, path: str) -> bool:
        """True if the bundle has this table."""
        return path in self.manifest["files"]

    def table(self, path: str) -> Table:
        """The table at `path`, relative to the data folder."""
        return Table(path, self._checked(path).decode())

    def prices(self, path: str) -> Sequence[StoredPrices]:
        """The prices at `path`, relative to the data folder: one market's."""
        return [unpacked(self._checked(path))]

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
    """The bytes of a manifest to write, with the SHA-256 of all other bytes in `digest`."""
    blank = (json.dumps(dict(manifest) | {"digest": ""}, indent=1, sort_keys=True) + "\n").encode()
    digest = hashlib.sha256(blank).hexdigest().encode()
    return blank.replace(_OWN_DIGEST % b"", _OWN_DIGEST % digest, 1)


def is_sealed(content: bytes, manifest: Mapping[str, Any]) -> bool:
    """True if `sealed` wrote these bytes."""
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
    return dict(manifest)


def _read(path: Path) -> bytes:
    with (
        system_errors(DataError, f"the catalogue's {path} cannot be read", hint=_WAY_OUT),
        path.open("rb", buffering=0) as file,  # nearly a hundred files, each read whole
    ):
        return file.read()
