"""Values find their places: in order, within the ends, with round ticks among them."""

from hypothesis import given
from hypothesis import strategies as st

from advisor.render.paper import scale_of

VALUES = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20)


@given(VALUES, st.booleans())
def test_places_keep_the_order_and_stay_on_the_paper(values, from_zero):
    scale = scale_of(values, 40.0, 400.0, from_zero=from_zero)
    places = [scale.at(one) for one in sorted(values)]
    assert places == sorted(places)
    assert all(40.0 <= one <= 400.0 for one in places)


@given(VALUES, st.booleans())
def test_ticks_are_few_and_within_the_scale(values, from_zero):
    scale = scale_of(values, 0.0, 100.0, from_zero=from_zero)
    ticks = scale.ticks()
    assert len(ticks) <= 12
    assert all(scale.least * 0.999 <= one <= scale.most * 1.001 for one in ticks)
    assert ticks == sorted(ticks)


def test_a_wide_range_goes_by_ratios():
    """Prices from 50 cents to 100 dollars would else crowd in a corner."""
    assert scale_of([0.5, 100.0], 0, 1).logarithmic
    assert not scale_of([0.5, 2.0], 0, 1).logarithmic
    assert scale_of([1.0, 1000.0], 0, 1).ticks() == [1.0, 10.0, 100.0, 1000.0]
