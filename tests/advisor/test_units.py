"""Units are parsed once, at the edge, and printed in one way: tests/data/tables/units.json has examples."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import messages
from advisor.errors import UsageError
from advisor.messages import floor_rate, format_counted, format_span, format_usd
from advisor.quantities import (
    parse_memory_mib,
    parse_number,
    parse_positive,
    parse_rate_mib_per_second,
    write_number,
)
from tests.rows import assert_each, table

EXAMPLES = table("units")


def test_sizes_are_binary_whatever_the_spelling_and_a_rate_needs_its_per_second():
    for text, mib in EXAMPLES["sizes"]:
        assert parse_memory_mib(text) == mib
    assert parse_rate_mib_per_second("50MiB/s") == 50
    with pytest.raises(UsageError, match="50MiB/s"):
        parse_rate_mib_per_second("50MiB")


@pytest.mark.parametrize("text", EXAMPLES["no_sizes"])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"512MiB|above 0"):
        parse_memory_mib(text)


@pytest.mark.parametrize("text", EXAMPLES["no_targets"])
def test_a_target_must_be_a_finite_number_above_0(text):
    with pytest.raises(UsageError, match="--target-throughput must be a number above 0"):
        parse_positive(text, "--target-throughput")


def test_a_number_may_have_its_thousands_divided_and_a_count_its_unit():
    for text, number in EXAMPLES["numbers"]:
        assert parse_number(text, "it") == parse_number(text.strip() + " ", "it") == number
    for text, number in EXAMPLES["counts"]:
        assert parse_number(text, "it", counted=True, whole=True) == number


@pytest.mark.parametrize("text", ["30m", "5k", "1.5B"])
def test_hours_and_prices_have_no_millions(text):
    with pytest.raises(UsageError, match=r"a number above 0, not .*; write it like 5000, 5,000"):
        parse_number(text, "--max-hours")


@pytest.mark.parametrize(("text", "counted", "way_out"), EXAMPLES["two_readings"])
def test_a_point_that_may_divide_thousands_is_refused_with_both_readings(text, counted, way_out):
    with pytest.raises(UsageError, match=way_out):
        parse_number(text, "it", counted=counted)
    for reading in way_out.removeprefix("write ").split(" or "):
        assert parse_number(reading, "it", counted=counted) > 0


@pytest.mark.parametrize("text", EXAMPLES["no_thousands"])
def test_thousands_that_are_divided_otherwise_are_refused_with_the_way_to_write_them(text):
    with pytest.raises(UsageError, match=r"write it like 5000, 5,000, 5k or 1.5M"):
        parse_number(text, "it", counted=True)


@given(st.integers(1, 10**15))
def test_a_whole_number_is_the_same_with_and_without_its_commas(number):
    for text in (f"{number}", f"{number:,}", f"{number:_}"):
        assert parse_number(text, "it", whole=True, counted=True) == number


@given(st.integers(1, 10**6), st.sampled_from([("k", 3), ("M", 6), ("B", 9)]))
def test_a_scaled_count_is_exact(thousandths, unit):
    letter, power = unit
    text = f"{thousandths / 1000:.3f}{letter}"
    assert parse_number(text, "it", counted=True) == thousandths * 10 ** (power - 3)


@given(st.floats(1e-6, 1e15), st.booleans())
def test_a_number_is_read_as_it_is_written(value, counted):
    assert parse_number(write_number(value), "it", counted=counted) == value


@given(st.text(max_size=12), st.booleans())
def test_any_text_is_a_number_or_a_size_above_0_or_a_usage_error(text, counted):
    with contextlib.suppress(UsageError):
        assert 0 < parse_number(text, "it", counted=counted) < math.inf
    with contextlib.suppress(UsageError):
        assert parse_memory_mib(text) > 0


def test_every_quantity_is_printed_in_its_one_way():
    def check(function, value, text):
        assert getattr(messages, function)(value) == text

    assert_each(check, EXAMPLES["printed"])
    for count, text in EXAMPLES["counted"]:
        assert format_counted(count, "epoch") == text


@given(st.floats(min_value=1e-3, max_value=1e7))
def test_a_bound_is_told_within_a_hundredth_and_never_rounded_up(rate):
    assert 0.99 * rate <= floor_rate(rate) <= rate * (1 + 1e-9)


@given(st.floats(min_value=-1e7, max_value=1e7))
def test_a_printed_price_is_the_price_and_prints_itself(usd):
    text = format_usd(usd)
    printed = float(text.replace("$", "").replace(",", ""))
    digits = len(text.partition(".")[2])
    assert abs(printed - usd) <= 0.5000001 * 10**-digits
    least = ((100, 0), (10, 2), (0.1, 3), (0, 4))
    assert digits == {0: 0}.get(usd, next(many for most, many in least if abs(printed) >= most))
    assert text.startswith("-") == (usd < 0)


@given(st.floats(1e-6, 1e9))
def test_a_bound_that_is_told_in_hours_really_holds(hours):
    words = format_span(hours, up=True).partition(" (")[0].replace(",", "").split()
    each = [
        float(number) / {"h": 1, "min": 60, "s": 3600}[unit]
        for number, unit in zip(words[::2], words[1::2], strict=True)
    ]
    step = {"h": 1 if hours > 47 else 1 / 60, "min": 1 / 60, "s": 1 / 3600}[words[-1]]
    assert hours * (1 - 1e-9) <= sum(each) <= hours * (1 + 1e-9) + step
