"""GPU names as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.gpu_names import sheet_name, sheet_names
from advisor.errors import UsageError

KNOWN = tuple(load_catalog().gpu_sheets)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("RTX8000", "Quadro RTX 8000"),
        ("NVIDIA Tesla T4", "T4"),
        ("geforce rtx-2080 ti", "RTX 2080 Ti"),
        ("t4g", "T4G"),
        ("a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("h200", "H200-SXM-141GB"),
    ],
)
def test_brands_blanks_and_case_do_not_matter(asked: str, name: str) -> None:
    """People write what stands on the box."""
    assert sheet_name(asked, KNOWN) == name


@given(st.sampled_from(KNOWN), st.sampled_from([str.upper, str.lower, str.title, str.strip]))
def test_every_sheet_is_found_by_its_own_name(name: str, written: object) -> None:
    """However it is capitalised."""
    assert callable(written)
    assert sheet_name(written(name), KNOWN) == name


def test_a_card_of_several_kinds_must_be_named_in_full() -> None:
    """An A100 of 40 GB is not one of 80 GB; where many are wanted, all of them are meant."""
    assert len(sheet_names("A100", KNOWN)) == 4
    with pytest.raises(UsageError, match="A100-PCIE-40GB, A100-PCIE-80GB"):
        sheet_name("A100", KNOWN)


@pytest.mark.parametrize("asked", ["", "nvidia", "RTX 800O", "Voodoo"])
def test_what_no_card_is_called_is_refused(asked: str) -> None:
    """With names that are near, or known."""
    with pytest.raises(UsageError, match="unknown GPU"):
        sheet_name(asked, KNOWN)
