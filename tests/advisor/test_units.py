"""Units are parsed once, at the edge, and printed in one way."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError, unknown_name
from advisor.quantities import (
    parse_memory_mib,
    parse_number,
    parse_positive,
    parse_rate_mib_per_second,
    write_number,
)
from advisor.units import (
    floor_rate,
    format_counted,
    format_duration,
    format_hours,
    format_mib,
    format_rate,
    format_target,
    format_usd,
)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512MiB", 512), ("2GiB", 2048), ("2 gib", 2048), ("0.5GB", 512), ("1TiB", 1024**2), (" 16g ", 16384)],
)
def test_sizes_are_binary_whatever_the_spelling(text, mib):
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "2", "GiB", "-1GiB", "0GiB", "1e999GiB", "2 lightyears", "nan"])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"512MiB|above 0"):
        parse_memory_mib(text)


@given(st.floats(min_value=0.01, max_value=1e6))
def test_a_size_survives_its_own_spelling(gib):
    assert math.isclose(parse_memory_mib(f"{gib:.6f}GiB"), gib * 1024, rel_tol=1e-3)


@given(st.text(max_size=12))
def test_any_text_is_a_size_above_0_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse_memory_mib(text) > 0


def test_a_rate_needs_its_per_second():
    assert parse_rate_mib_per_second("50MiB/s") == 50
    with pytest.raises(UsageError, match="50MiB/s"):
        parse_rate_mib_per_second("50MiB")


@pytest.mark.parametrize("text", ["0", "-5", "nan", "inf", "abc", ""])
def test_a_target_must_be_a_finite_number_above_0(text):
    with pytest.raises(UsageError, match="--target-throughput must be a number above 0"):
        parse_positive(text, "--target-throughput")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5000", 5000),
        ("5,000", 5000),
        ("5_000", 5000),
        ("5e3", 5000),
        (" 1,281,167.5 ", 1281167.5),
        ("1.624", 1.624),
        ("0.500", 0.5),
        ("1e8", 1e8),
    ],
)
def test_a_number_may_be_typed_with_its_thousands_divided(text, number):
    assert parse_number(text, "it") == parse_number(text.strip() + " ", "it") == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("50M", 50_000_000),
        ("5k", 5000),
        ("5 K", 5000),
        ("1.5B", 1_500_000_000),
        ("2.3m", 2_300_000),
        ("1.28 million", 1_280_000),
        ("3bn", 3_000_000_000),
        ("1,200k", 1_200_000),
        ("1e8", 10**8),
    ],
)
def test_what_is_counted_may_be_typed_in_thousands_millions_and_billions(text, number):
    assert parse_number(text, "it", counted=True, whole=True) == number


@pytest.mark.parametrize("text", ["30m", "5k", "1.5B"])
def test_hours_and_prices_have_no_millions(text):
    with pytest.raises(UsageError, match=r"a number above 0, not .*; write it like 5000, 5,000"):
        parse_number(text, "--max-hours")


@pytest.mark.parametrize(
    ("text", "counted", "way_out"),
    [
        ("5.000", False, "write 5 or 5000"),
        ("300.000", True, "write 300 or 300000"),
        ("5.000", True, "write 5 or 5000"),
        ("1.250", True, "write 1.25 or 1250"),
    ],
)
def test_a_point_that_may_divide_thousands_is_refused_with_both_readings(text, counted, way_out):
    with pytest.raises(UsageError, match=way_out):
        parse_number(text, "it", counted=counted)
    for reading in way_out.removeprefix("write ").split(" or "):
        assert parse_number(reading, "it", counted=counted) > 0


@pytest.mark.parametrize("text", ["5,00", "5,0000", ",500", "1.281.167", "1,28,167", "5 000", "5kk"])
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
def test_any_text_is_a_number_above_0_or_a_usage_error(text, counted):
    with contextlib.suppress(UsageError):
        assert 0 < parse_number(text, "it", counted=counted) < math.inf


@pytest.mark.parametrize(
    ("mib", "text"),
    [(512, "512 MiB"), (1024, "1 GiB"), (1536, "1.5 GiB"), (16384, "16 GiB"), (2 * 1024**2, "2 TiB")],
)
def test_sizes_are_printed_in_the_largest_unit(mib, text):
    assert format_mib(mib) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.789, "0.789"), (45.64, "45.6"), (612.4, "612"), (1234, "1,230"), (99.96, "100"), (12345, "12,300")],
)
def test_rates_are_printed_with_three_digits(rate, text):
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(1961.0, "1,961"), (0.25, "0.25"), (500, "500"), (1e6, "1,000,000")]
)
def test_a_target_is_printed_as_it_was_asked_for(rate, text):
    assert format_target(rate) == text


@given(st.floats(min_value=1e-3, max_value=1e7))
def test_a_bound_is_told_within_a_hundredth_and_never_rounded_up(rate):
    assert 0.99 * rate <= floor_rate(rate) <= rate * (1 + 1e-9)


def test_prices_keep_the_digits_that_matter():
    assert [format_usd(x) for x in (0.0042, 0.526, 12.239)] == ["$0.0042", "$0.526", "$12.24"]


@pytest.mark.parametrize(
    ("usd", "text"),
    [(9.9996, "$10.00"), (9.9994, "$9.999"), (-0.5, "-$0.500"), (-12, "-$12.00"), (0.09996, "$0.100")],
)
def test_a_price_has_the_digits_of_what_is_printed(usd, text):
    assert format_usd(usd) == text


@given(st.floats(min_value=-1e7, max_value=1e7))
def test_a_printed_price_is_the_price_and_prints_itself(usd):
    text = format_usd(usd)
    printed = float(text.replace("$", "").replace(",", ""))
    digits = len(text.partition(".")[2])
    assert abs(printed - usd) <= 0.5000001 * 10**-digits
    assert digits == {0: 0}.get(usd, 2 if abs(printed) >= 10 else 3 if abs(printed) >= 0.1 else 4)
    assert text.startswith("-") == (usd < 0)


def test_near_names_are_found_whatever_their_case():
    assert "did you mean A100?" in str(unknown_name("GPU", "a10o", ["A100", "T4"]))


@given(st.floats(1e-6, 1e9))
def test_a_bound_that_is_told_in_hours_really_holds(hours):
    number, unit = format_hours(hours, up=True).split()
    told = float(number.replace(",", "")) / {"h": 1, "min": 60, "s": 3600}[unit]
    assert hours * (1 - 1e-9) <= told <= hours * 1.011


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 epoch"), (2.5, "2.5 epochs"), (12_800, "12,800 epochs"), (1.28e8, "128 million epochs")],
)
def test_what_is_counted_has_its_plural(count, text):
    assert format_counted(count, "epoch") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(89.4, "89 s"), (90, "2 min"), (5340, "89 min"), (7200, "2 h"), (9000, "2 h 30 min")],
)
def test_durations_are_as_people_say_them(seconds, text):
    assert format_duration(seconds) == text
