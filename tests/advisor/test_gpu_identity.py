"""Slices of a card never pass for it: names and sizes as drivers report them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain import Accelerator, Task
from advisor.domain.gpu_names import UNNAMED_SLICE, gpus_named, identified, is_card
from advisor.errors import UsageError
from tests.rows import table
from tests.sweeps.builders import trial

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


# What computes a trial's steps, and its written form.
TEXTS = st.one_of(
    st.sampled_from(["cpu", "cuda"]),
    st.builds("{}:{}".format, st.sampled_from(["cuda", "emulated"]), st.text(min_size=1)),
)


@given(TEXTS)
def test_every_accelerator_is_written_as_it_was_read(text):
    assert str(Accelerator.parse(text)) == text


@pytest.mark.parametrize(
    ("accelerator", "trial_id"),
    [
        ("cpu", "b81097c4dc9ecf73"),
        ("cuda", "63bbcc2b4d7bff43"),
        ("cuda:T4", "fa123f4bc2f90cf6"),
        ("cuda:A100-40GB", "11151dca248650f3"),
        ("emulated:T4", "978f90d38083ec3f"),
    ],
)
def test_trials_of_before_the_record_keep_their_ids(accelerator, trial_id):
    seconds = 0.03 if accelerator.startswith("emulated") else None
    one = trial(task=Task.TRAINING, accelerator=accelerator, emulated_step_seconds=seconds)
    assert one.trial_id == trial_id


def test_the_cpu_computes_a_network_but_none_is_computed_in_preprocessing():
    assert trial(task=Task.TRAINING).network_on_cpu
    assert not trial(task=Task.PREPROCESSING).network_on_cpu
    assert not trial(task=Task.TRAINING, accelerator="cuda").network_on_cpu
