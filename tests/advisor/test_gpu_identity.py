"""Slices of a card never pass for it: names and sizes as drivers report them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain.gpu_names import UNNAMED_SLICE, gpus_named, identified, is_card
from advisor.errors import UsageError
from tests.rows import table

SHEETS = load_catalog().gpus

# Name, MiB, multiprocessors; the card, and what part of it. As public listings of nvidia-smi and
# NVIDIA's manuals of MIG and vGPU have them; none was read on hardware here.
REAL = table("gpu_names")["identified"]


@pytest.mark.parametrize(("name", "mib", "sms", "card", "profile"), REAL)
def test_a_gpu_is_its_card_or_a_slice_of_it_which_the_name_alone_tells_where_it_names_one(
    name, mib, sms, card, profile
):
    present = identified(name, SHEETS, memory_mib=mib, sm_count=sms)
    assert (present.gpu, present.slice_profile) == (card, profile)
    assert present.is_slice == bool(profile)
    by_name_alone = "" if profile == UNNAMED_SLICE else profile
    assert identified(name, SHEETS).slice_profile == by_name_alone


def test_whole_cards_of_drivers_are_whole_without_their_size():
    for name, sheet in table("gpu_names")["drivers"].items():
        present = identified(name, SHEETS)
        assert (present.gpu, present.slice_profile) == (sheet, ""), name


@pytest.mark.parametrize(("wanted", "name", "mib", "sms", "is_it"), table("gpu_names")["requested"])
def test_a_requested_card_is_that_whole_card(wanted, name, mib, sms, is_it):
    present = identified(name, SHEETS, memory_mib=mib, sm_count=sms)
    assert is_card(wanted, present, SHEETS) is is_it


@given(st.sampled_from(sorted(SHEETS)), st.floats(0.02, 0.8))
def test_a_part_of_a_cards_memory_never_passes_for_the_card(name, share):
    present = identified(name, SHEETS, memory_mib=share * SHEETS[name].memory_mib)
    assert present.is_slice or present.gpu != name


@given(st.text())
def test_any_name_is_some_gpu(name):
    present = identified(name, SHEETS)
    assert present.is_slice or present.gpu in gpus_named(name, SHEETS) or present.gpu == name


@pytest.mark.parametrize("name", ["RTX 2070 Ultra", "GRID K520", "", "T"])
def test_another_card_is_not_taken_for_a_like_one(name):
    with pytest.raises(UsageError, match="no data sheet"):
        sheet_of(name, SHEETS)
