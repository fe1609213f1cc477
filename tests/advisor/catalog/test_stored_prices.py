"""Prices in their stored form: what is written is what is read, and small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.bundle import stored_prices, unpacked

NAMES = st.text("abc.-1", min_size=1, max_size=4)
CELLS = st.dictionaries(
    NAMES,
    st.dictionaries(NAMES, st.tuples(st.floats(1e-9, 1e6), st.sampled_from("xyz")), max_size=3),
    max_size=5,
)


def cells_of(stored):
    """Type -> region -> price and basis, as they went in."""
    return {
        name: {
            region: (stored.distinct[stored.position[row, at]], stored.bases[stored.basis[row, at]])
            for at, region in enumerate(stored.regions)
            if stored.position[row, at]
        }
        for row, name in enumerate(stored.types)
    }


@given(CELLS)
def test_every_price_is_read_back_to_the_bit_with_its_basis(cells):
    """Types without a price are left out."""
    stored = unpacked(stored_prices("spot", cells).packed(), "x")
    assert stored.market == "spot"
    assert cells_of(stored) == {name: row for name, row in cells.items() if row}


@given(CELLS, st.data())
def test_what_is_taken_out_is_gone_and_nothing_else(cells, data):
    """Pairs that nobody knows change nothing."""
    pairs = [(name, region) for name, row in cells.items() for region in row] + [("?", "?")]
    gone = data.draw(st.sets(st.sampled_from(pairs)))
    left = cells_of(stored_prices("spot", cells).without(gone))
    assert {(name, region) for name, row in left.items() for region in row} == set(pairs[:-1]) - gone


def test_positions_take_two_bytes_until_there_are_more_prices_than_that_numbers():
    """One byte, two, four: the smallest that will do."""
    kinds = []
    for count in (255, 256, 65_535, 65_536):
        row = {str(at): (float(at + 1), "b") for at in range(count)}
        kinds.append(stored_prices("spot", {"a": row}).position.dtype)
    assert kinds == [np.uint8, np.uint16, np.uint16, np.uint32]
