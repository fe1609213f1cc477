"""The table of data sheets agrees with itself: rates follow from multiprocessors and clocks."""

import pytest

from advisor.catalog import load_catalog
from advisor.domain import Gpu
from advisor.infra.build.catalog.tables import read_source
from tests.rows import assert_each, table

SHEETS = load_catalog().gpu_sheets
CARDS = [sheet.gpu for sheet in SHEETS.values() if sheet.gpu.vendor == "NVIDIA"]
COUNTED = [card for card in CARDS if card.sms and card.boost_mhz]
NOTED = {row["gpu"] for row in read_source("catalog/gpu_specs.csv") if row["notes"]}
# Rates by architecture and card, of NVIDIA's guide and white papers.
RATES = table("gpu_rates")
# Told otherwise by their sheets; each has a note in the source.
ODD = {"TITAN V", "A10G", "L40", "L20", "H20-SXM5-96GB", "RTX 5090 D", "RTX 5090 D v2"}


def clock(card: Gpu) -> float:
    """Multiprocessors times TFLOPS of one result a clock in each."""
    assert card.sms is not None
    assert card.boost_mhz is not None
    return card.sms * card.boost_mhz * 1e-6


def is_geforce(card: Gpu) -> bool:
    """GeForce cards sum in fp32 at half the rate; so do their laptops', and no Titan."""
    words = card.name.split()
    return words[0] in ("GTX", "GT") or (words[0] == "RTX" and words[1].isdigit() and "Ada" not in words)


def test_there_are_the_cards_that_people_have() -> None:
    """From Pascal to Blackwell."""
    assert len(CARDS) >= 200
    assert {card.architecture for card in CARDS} >= {
        "Pascal",
        "Volta",
        "Turing",
        "Ampere",
        "Ada",
        "Hopper",
        "Blackwell",
    }
    assert [card.name for card in CARDS if card not in COUNTED] == ["B100-SXM-192GB"]
    assert all(card.l2_mib and card.watts for card in CARDS)


def test_fp32_is_two_results_a_core_and_clock() -> None:
    """At the boost clock, within 3 per cent."""

    def check(card: Gpu) -> None:
        cores = RATES["cores"][str(card.compute_capability)]
        assert card.fp32_tflops == pytest.approx(2 * cores * clock(card), rel=0.03)

    assert_each(check, COUNTED)


def test_fp16_is_what_the_architecture_does_a_clock_with_fp32_sums() -> None:
    """Within 6 per cent; Hopper's and Blackwell's sheets tell lower clocks for tensor cores."""

    def check(card: Gpu) -> None:
        capability = str(card.compute_capability)
        if capability not in RATES["fp16"]:
            assert card.capability is not None
            assert card.capability < 6
            return
        if card.name in ODD:
            assert card.name in NOTED
            return
        rate = RATES["fp16"][capability] * clock(card)
        if (
            card.name.startswith(("GTX 16", "T4", "T6", "T1"))
            and card.fp16_tflops is not None
            and card.name not in ("T4", "T4G")
        ):
            rate /= 4  # no tensor cores: two halves a core
        elif is_geforce(card) and card.capability is not None and card.capability >= 7.5:
            rate /= 2
        text = card.name.startswith(("H", "GH", "B300"))
        assert card.fp16_tflops == pytest.approx(rate, rel=0.14 if text else 0.06)
        assert not text or card.name in NOTED

    assert_each(check, COUNTED)


def test_formats_are_told_only_where_there_are_units() -> None:
    """bf16 and TF32 from Ampere on: as fast as fp16, and half of it."""

    def check(card: Gpu) -> None:
        new = card.capability is not None and card.capability >= 8
        assert (card.bf16_tflops is not None) == (card.tf32_tflops is not None) == new
        if new:
            assert card.fp16_tflops is not None
            assert card.bf16_tflops == card.fp16_tflops
            assert card.tf32_tflops == pytest.approx(card.fp16_tflops / 2, rel=0.02)

    assert_each(check, CARDS)


def test_half_rates_are_those_that_nvidia_tells() -> None:
    """Its white papers: fp16 with fp32 sums on GeForce cards, and whole rates on others."""
    text = RATES["told"]
    assert {name: SHEETS[name].gpu.fp16_tflops for name in text} == pytest.approx(text, rel=0.012)


def test_sheets_say_where_they_are_from() -> None:
    """With how sure that is."""
    assert all(
        sheet.gpu.sources.endswith((" (high confidence)", " (medium confidence)", " (low confidence)"))
        for sheet in SHEETS.values()
    )
