"""Charts are the same bytes for the same values, draw anything, and are small."""

import copy
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.render import paper as style
from advisor.render.charts import SHAPES, curves_picture, price_picture
from advisor.render.i18n.catalogue import report_texts
from advisor.render.paper import scale_of
from tests.advisor.render.sizing.reports import golden_report

T = report_texts("en")
NAMES = st.one_of(
    st.sampled_from(["<b>&amp;", "$x^2$ \\frac{1}{2}", "=1+1", "]]>", "-->", "训练", "🎉", "x" * 300]),
    st.text(st.characters(exclude_categories=("C",)), max_size=40),
)
RATES = st.floats(1e-3, 1e7)
SVG = "{http://www.w3.org/2000/svg}"
SECTION = golden_report()["workloads"][0]


def _svg(chart):
    return ET.fromstring(unquote(chart.src.partition(",")[2]))


def _texts(chart):
    return ["".join(element.itertext()) for element in _svg(chart).iter(f"{SVG}text")]


def _with_target(target):
    return {**SECTION, "answer": {**SECTION["answer"], "target_throughput": target}}


def _row(name, usd, rate, front=False):
    row = SECTION["price_throughput"][0]
    rates = {"lower": rate, "median": rate, "upper": rate, "on_front": front, "chosen": False}
    return row | rates | {"instance_type": name, "total_usd_per_hour": usd}


def _priced(rows, target=None):
    return {**_with_target(target), "price_throughput": rows}


@given(st.lists(st.tuples(NAMES, RATES, RATES, st.booleans()), min_size=1, max_size=6), RATES)
def test_any_names_and_rates_can_be_drawn(rows, target):
    _svg(price_picture(_priced([_row(*row) for row in rows], target), T))


def _contrast(colour, other):
    light, dark = sorted((_lightness(colour), _lightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_measured_and_emulated_look_different_in_grey_too():
    assert len(set(SHAPES.values())) == len(SHAPES)
    section = copy.deepcopy(_with_target(400.0))
    ids = section["curves"]["vcpus"]["measured"]
    first, *_ = (row for row in section["measured"] if row["trial_id"] in ids)
    first["accelerator"] = "cuda"
    known = {"measured", "measured, GPU emulated"}
    assert known | {"this machine", "target 400/s"} <= set(_texts(curves_picture(section, T)))
    # Neighbours in a bar or a band differ by 2 to 1 at least; text by the 4.5 that WCAG wants.
    assert _contrast(style.BLUE, style.LIGHT_BLUE) > 2
    assert _contrast(style.BLUE, style.PALE_BLUE) > 4
    assert min(_contrast(colour, "#ffffff") for colour in (style.INK, style.FAINT)) > 4.5


def test_a_far_target_flattens_nothing_and_a_wide_range_goes_by_ratios():
    assert curves_picture(_with_target(1e9), T) == curves_picture(_with_target(None), T)
    assert "target 500/s" in _texts(price_picture(_with_target(500.0), T))
    assert "target 1,000,000,000/s" not in _texts(price_picture(_with_target(1e9), T))
    # Prices from 50 cents to 100 dollars would else crowd in a corner.
    assert scale_of([0.5, 100.0], 0, 1).logarithmic
    assert not scale_of([0.5, 2.0], 0, 1).logarithmic
    assert scale_of([1.0, 1000.0], 0, 1).ticks() == [1.0, 10.0, 100.0, 1000.0]


VALUES = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20)


@given(VALUES, st.booleans())
def test_places_keep_the_order_and_stay_on_the_paper(values, from_zero):
    scale = scale_of(values, 40.0, 400.0, from_zero=from_zero)
    places = [scale.position(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(40.0 <= point <= 400.0 for point in places)


@given(VALUES, st.booleans())
def test_ticks_are_few_and_within_the_scale(values, from_zero):
    scale = scale_of(values, 0.0, 100.0, from_zero=from_zero)
    ticks = scale.ticks()
    assert len(ticks) <= 12
    assert all(scale.least * 0.999 <= tick <= scale.most * 1.001 for tick in ticks)
    assert ticks == sorted(ticks)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_points_are_drawn_too(count):
    section = copy.deepcopy(SECTION)
    for curve in section["curves"].values():
        curve["points"] = curve["points"][:count]
    _svg(curves_picture(section, T))


def _lightness(colour):
    """Relative luminance (WCAG 2.2): what is left of a colour in grey."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
