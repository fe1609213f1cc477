"""Prices of one cloud on one market as they are stored: three small arrays behind a line of JSON.

A cell holds the position of its price among the distinct ones (0: no price) and that of its basis.
The whole is compressed: thousands of cells share few prices, and fewer bases.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.errors import DataError

_ALIGNMENT = 8
_UNSIGNED = ("<u1", "<u2", "<u4")
# Type -> region -> the price in the currency of its basis, and the basis's id.
Cells = Mapping[str, Mapping[str, tuple[float, str]]]


class StoredPrices(Struct, frozen=True):
    """A row a type, a column a region; `distinct[0]` is nan and stands for no price.

    `position` and `basis` are of shape (types, regions) and index `distinct` and `bases`; a basis
    means nothing where there is no price. Prices are in the currency of their basis.
    """

    market: str
    types: Sequence[str]
    regions: Sequence[str]
    bases: Sequence[str]
    distinct: NDArray[np.float64]
    position: NDArray[np.unsignedinteger[Any]]
    basis: NDArray[np.unsignedinteger[Any]]

    def without(self, gone: Iterable[tuple[str, str]]) -> StoredPrices:
        """The same with no price for these pairs of a type and a region."""
        rows = {name: at for at, name in enumerate(self.types)}
        columns = {name: at for at, name in enumerate(self.regions)}
        position = self.position.copy()
        for name, region in gone:
            if name in rows and region in columns:
                position[rows[name], columns[region]] = 0
        return StoredPrices(
            self.market, self.types, self.regions, self.bases, self.distinct, position, self.basis
        )

    def packed(self) -> bytes:
        """The same bytes every time, which `unpacked` reads."""
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
        return zlib.compress(line + b"".join(one.tobytes() for one in arrays.values()), 9)


def stored_prices(market: str, cells: Cells) -> StoredPrices:
    """Prices of one market in their stored form; types and regions in the order of their names."""
    types = sorted(name for name, row in cells.items() if row)
    regions = sorted({region for row in cells.values() for region in row})
    bases = sorted({basis for row in cells.values() for _, basis in row.values()})
    distinct = sorted({price for row in cells.values() for price, _ in row.values()})
    price_at = {price: at for at, price in enumerate(distinct, 1)}
    basis_at = {basis: at for at, basis in enumerate(bases)}
    column_of = {region: at for at, region in enumerate(regions)}
    position = np.zeros((len(types), len(regions)), _smallest(len(distinct) + 1))
    basis = np.zeros((len(types), len(regions)), _smallest(len(bases)))
    for row, name in enumerate(types):
        for region, (price, known_by) in cells[name].items():
            position[row, column_of[region]] = price_at[price]
            basis[row, column_of[region]] = basis_at[known_by]
    return StoredPrices(market, types, regions, bases, np.array([math.nan, *distinct]), position, basis)


def unpacked(content: bytes, path: str) -> StoredPrices:
    """What `packed` wrote; `DataError` that names `path` for anything else."""
    try:
        plain = zlib.decompress(content)
        start = plain.index(b"\n") + 1
        head: Any = json.loads(plain[:start])
        shape = len(head["types"]), len(head["regions"])
        counts = {"distinct": head["distinct"], "position": math.prod(shape)}
        counts["basis"] = counts["position"]
        arrays = {}
        for name, count in counts.items():
            kind = np.dtype(head["dtypes"][name])
            arrays[name] = np.frombuffer(plain, kind, count, start)
            start += count * kind.itemsize
        if start != len(plain):
            raise ValueError("there is more than the head tells")
        found = StoredPrices(
            head["market"],
            head["types"],
            head["regions"],
            head["bases"],
            arrays["distinct"],
            arrays["position"].reshape(shape),
            arrays["basis"].reshape(shape),
        )
        _require_whole(found)
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise DataError(f"the catalogue's {path} is no table of prices: {error}") from error
    return found


def _require_whole(found: StoredPrices) -> None:
    """`ValueError` where a cell points nowhere, or at what is no price."""
    if found.position.size and (
        int(found.position.max()) >= len(found.distinct) or int(found.basis.max()) >= len(found.bases)
    ):
        raise ValueError("a cell points at no price")
    if not (found.distinct[1:] >= 0).all() or not np.isfinite(found.distinct[1:]).all():
        raise ValueError("what it holds is no price")


def _smallest(count: int) -> np.dtype[Any]:
    """The smallest type that numbers so many things."""
    return next(kind for kind in map(np.dtype, _UNSIGNED) if count - 1 <= np.iinfo(kind).max)
