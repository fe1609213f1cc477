"""Wrong measurements are found by what their machine and their workload say otherwise."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from models.performance.datasheet.contradictions import contradicts_its_source
from tests.models.performance.datasheet.rates import rows

EVERY = rows(compiled=(False,))


def test_right_rows_are_not_accused():
    assert not contradicts_its_source(EVERY).any()


@settings(max_examples=40)
@given(st.integers(0, len(EVERY) - 1), st.sampled_from([1 / 17, 1 / 5, 5, 17]))
def test_a_row_that_is_off_by_a_factor_is_found_alone(place, factor):
    spoilt = [*EVERY]
    spoilt[place] = EVERY[place].measured(EVERY[place].samples_per_second * factor)
    assert list(contradicts_its_source(spoilt).nonzero()[0]) == [place]


def test_a_machine_that_is_slow_throughout_contradicts_nothing():
    slow = [
        row.measured(row.samples_per_second / 10) if row.gpu_name == "old" else row for row in EVERY
    ]
    assert not contradicts_its_source(slow).any()


def test_too_few_rows_accuse_nobody():
    pair = [EVERY[0], EVERY[1].measured(1e-3)]
    assert not contradicts_its_source(pair).any()
    assert len(contradicts_its_source([])) == 0
