"""GPU names as people, drivers and public tables write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.gpu_names import sheet_name, sheet_names, usual_sheet_name
from advisor.domain.gpu_names import gpus_named
from advisor.errors import UsageError
from tests.advisor.catalog.public_gpu_names import DRIVERS, OTHERS, PEOPLES, PUBLIC
from tests.rows import assert_each

KNOWN = tuple(load_catalog().gpu_sheets)


def test_names_of_drivers_and_people_mean_one_sheet() -> None:
    """Brands, blanks, hyphens and case do not matter; form and memory do where they are told."""

    def check(told: str, sheet: str) -> None:
        assert usual_sheet_name(told, KNOWN) == sheet

    assert_each(check, [*DRIVERS.items(), *PEOPLES.items()])


def test_names_of_public_tables_mean_one_sheet() -> None:
    """All that rates were published under."""

    def check(sheet: str) -> None:
        assert {told: usual_sheet_name(told, KNOWN) for told in PUBLIC[sheet]} == dict.fromkeys(
            PUBLIC[sheet], sheet
        )

    assert_each(check, PUBLIC)


@given(st.sampled_from(KNOWN), st.sampled_from([str.upper, str.lower, str.title, str.strip]))
def test_every_sheet_is_found_by_its_own_name(name: str, written: object) -> None:
    """However it is capitalised."""
    assert callable(written)
    assert sheet_names(written(name), KNOWN) == [name]


@given(st.sampled_from(KNOWN), st.sampled_from(["NVIDIA {}", "{} GPU", "nvidia-{}", "{}?"]))
def test_words_around_a_name_change_nothing(name: str, around: str) -> None:
    """As tables have them."""
    assert usual_sheet_name(around.format(name), KNOWN) == name


def test_a_card_of_several_kinds_is_each_of_them_and_first_the_usual_one() -> None:
    """Where many are wanted, all are meant; where one is, its memory must be told."""
    assert sheet_names("A100", KNOWN) == [
        "A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB",
    ]  # fmt: skip
    assert sheet_names("A100 PCIe", KNOWN) == ["A100-PCIE-40GB", "A100-PCIE-80GB"]
    assert sheet_name("A100 80GB", KNOWN) == usual_sheet_name("A100 80GB", KNOWN)
    assert sheet_name("h200", KNOWN) == "H200-SXM-141GB"
    with pytest.raises(UsageError, match="A100-PCIE-40GB, A100-PCIE-80GB"):
        sheet_name("A100", KNOWN)


def test_what_is_no_whole_card_of_the_table_means_none() -> None:
    """A slice of a card is another GPU."""

    def check(told: str) -> None:
        assert gpus_named(told, KNOWN) == []

    assert_each(check, OTHERS)


@pytest.mark.parametrize(
    ("asked", "near"),
    [("", "known"), ("nvidia", "known"), ("RTX 800O", "did you mean RTX"), ("Voodoo", "known"),
     ("RTX 4090 Ti", "RTX 4090"), ("A100-SXM4-90GB", "A100-SXM4-80GB"), ("GTX 2070", "RTX 2070")],
)  # fmt: skip
def test_what_no_card_is_called_is_refused(asked: str, near: str) -> None:
    """With names that are near, or known."""
    with pytest.raises(UsageError, match=f"unknown GPU.*{near}"):
        sheet_name(asked, KNOWN)
