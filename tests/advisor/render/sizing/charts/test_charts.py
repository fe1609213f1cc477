"""Charts are the same bytes for the same values, draw anything, and are small."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.render.sizing.charts import paper as style
from advisor.render.sizing.charts.bars import (
    CostBar,
    MemoryPoint,
    MemoryWords,
    StageBar,
    memory_chart,
    stages_chart,
    totals_chart,
)
from advisor.render.sizing.charts.curves import (
    SHAPES,
    CurvePanel,
    CurvePoint,
    CurveWords,
    MeasuredPoint,
    curves_chart,
)
from advisor.render.sizing.charts.price import PriceDot, PriceWords, price_chart

PRICE = PriceWords("price, $/h", "images/s", "target 400", "recommended", "front", "others")
CURVE = CurveWords("images/s", "here", "target 400", {name: name for name in SHAPES})
MEMORY = MemoryWords("batch size", "GiB", "T4 has 15 GiB")
NAMES = st.one_of(
    st.sampled_from(
        ["<b>&amp;", "$x^2$ \\frac{1}{2}", "=1+1", "]]>", "-->", "训练", "🎉", "x" * 300]
    ),
    st.text(st.characters(exclude_categories=("C",)), max_size=40),
)
RATES = st.floats(1e-3, 1e7)
SVG = "{http://www.w3.org/2000/svg}"


def _texts(svg):
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def _price_dots():
    return [
        PriceDot(f"g{n}", usd, 180 * usd, 260 * usd, 300 * usd, on_front=n % 2 == 0, chosen=n == 4)
        for n, usd in enumerate(0.5 * 1.3**n for n in range(12))
    ]  # fmt: skip


def _ladder():
    return [CurvePoint(n, 80.0 * n, 100.0 * n, 120.0 * n) for n in (1, 2, 4, 8)]


def test_a_chart_holds_its_texts_as_texts():
    """So that a reader's own fonts draw them, Chinese too, and nothing of them is a formula."""
    words = PRICE._replace(chosen="推荐 $1 $2", rate="张/秒")
    assert {"推荐 $1 $2", "张/秒", "target 400", "g4"} <= set(
        _texts(price_chart(_price_dots(), 400.0, words))
    )


@given(st.lists(st.tuples(NAMES, RATES, RATES, st.booleans()), min_size=1, max_size=6), RATES)
def test_any_names_and_rates_can_be_drawn(rows, target):
    """Whatever somebody calls a workload, the picture is well-formed and says it as it is."""
    dots = [PriceDot(name, usd, rate, rate, rate, front, False) for name, usd, rate, front in rows]
    ET.fromstring(price_chart(dots, target, PRICE))
    bars = [CostBar(name, usd, "$1") for name, usd, _, _ in rows]
    told = _texts(totals_chart(bars))
    for name, *_ in rows:
        line = " ".join(name.split())
        if line and len(line) <= 32:
            assert any(" ".join(one.split()) == line for one in told)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_points_are_drawn_too(count):
    points = _ladder()[:1] * count
    ET.fromstring(curves_chart([CurvePanel("vCPUs", points)], None, CURVE))
    ET.fromstring(curves_chart([], 5.0, CURVE))
    ET.fromstring(memory_chart([MemoryPoint(1, 0.0, True)], None, MEMORY))
    ET.fromstring(totals_chart([CostBar("nothing", 0.0, "$0")] * count))


def test_measured_and_emulated_and_published_look_different_without_colour():
    """By shape and filling: print may be grey."""
    assert len(set(SHAPES.values())) == len(SHAPES)
    measured = [MeasuredPoint(n, 90.0 * n, known) for n, known in enumerate(SHAPES, start=1)]
    told = _texts(
        curves_chart([CurvePanel("vCPUs", _ladder(), measured, _ladder()[2])], 400.0, CURVE)
    )
    assert {"measured", "emulated", "published", "here", "target 400"} <= set(told)


def _bold(svg):
    """The texts in bold."""
    texts = ET.fromstring(svg).iter(f"{SVG}text")
    return {text.text for text in texts if text.get("font-weight") == "bold"}


def test_the_stage_that_binds_is_bold_and_darker():
    bars = [StageBar("GPU", 0.7, "70 %", False), StageBar("disk", 0.95, "95 %: binds", True)]
    svg = stages_chart(bars)
    assert _bold(svg) == {"disk", "95 %: binds"}
    assert {style.BLUE, style.LIGHT_BLUE} <= set(re.findall(r'fill="(#\w+)"', svg))


def _lightness(colour):
    """Relative luminance (WCAG 2.2): what is left of a colour in grey."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_what_colour_tells_is_told_in_grey_too():
    """Neighbours in a bar or a band differ by 2 to 1 at least; text by the 4.5 that WCAG wants."""

    def contrast(one, other):
        light, dark = sorted((_lightness(one), _lightness(other)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    assert contrast(style.BLUE, style.LIGHT_BLUE) > 2
    assert contrast(style.BLUE, style.PALE_BLUE) > 4
    assert contrast(style.INK, "#ffffff") > 4.5
    assert contrast(style.FAINT, "#ffffff") > 4.5


def test_a_bar_is_never_longer_than_all_of_its_stage():
    assert stages_chart([StageBar("x", 7.5, "750 %", True)]) == stages_chart(
        [StageBar("x", 1.0, "750 %", True)]
    )


def test_a_target_far_beyond_reach_flattens_nothing():
    panel = [CurvePanel("vCPUs", _ladder())]
    assert curves_chart(panel, 1e6, CURVE) == curves_chart(panel, None, CURVE)
    assert "target 400" in _texts(price_chart(_price_dots(), 800.0, PRICE))
    assert "target 400" not in _texts(price_chart(_price_dots(), 1e9, PRICE))


def test_charts_are_small():
    """A report of fifty workloads has two hundred of them in 1.5 MB."""
    assert len(price_chart(_price_dots(), 400.0, PRICE)) < 5_000
    assert len(curves_chart([CurvePanel("vCPUs", _ladder())] * 3, 400.0, CURVE)) < 5_000


def test_the_same_values_give_the_same_bytes_whatever_was_drawn_before():
    first = price_chart(_price_dots(), 400.0, PRICE)
    memory_chart([MemoryPoint(n, n / 8, n < 64) for n in (1, 8, 64)], 15.0, MEMORY)
    assert price_chart(_price_dots(), 400.0, PRICE) == first


@pytest.mark.slow
def test_another_process_draws_the_same_bytes():
    code = (
        "from tests.advisor.render.sizing.charts import test_charts as t; import sys;"
        "sys.stdout.write(t.price_chart(t._price_dots(), 400.0, t.PRICE))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == price_chart(_price_dots(), 400.0, PRICE)


def _place(svg, words):
    """How far from the left a text begins or ends, in points."""
    text = next(
        one for one in ET.fromstring(svg).iter(f"{SVG}text") if words in "".join(one.itertext())
    )
    return float(text.get("x"))


@pytest.mark.parametrize(("target", "right"), [(60.0, True), (900.0, False)])
def test_a_high_target_has_its_words_where_no_front_rises(target, right):
    dots = [
        PriceDot("a", 1, 50, 60, 70, on_front=True),
        PriceDot("b", 9, 800, 900, 990, on_front=True),
    ]
    place = _place(price_chart(dots, target, PRICE), "target 400")
    assert (place > style.WIDTH / 2) == right
