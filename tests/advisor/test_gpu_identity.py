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
REAL = [
    ("Tesla T4", 15360, 40, "T4", ""),
    ("Tesla T4", 15102, 40, "T4", ""),  # as torch counts it
    ("NVIDIA A10G", 23028, 80, "A10G", ""),
    ("NVIDIA A10", 23028, 72, "A10", ""),
    ("NVIDIA L4", 23034, 58, "L4", ""),
    ("NVIDIA L40S", 46068, 142, "L40S", ""),
    ("NVIDIA RTX 6000 Ada Generation", 49140, 142, "RTX 6000 Ada", ""),
    ("Tesla V100-SXM2-16GB", 16160, 80, "V100-SXM2-16GB", ""),
    ("Tesla V100-PCIE-32GB", 32510, 80, "V100-PCIE-32GB", ""),
    ("Tesla K80", 11441, 13, "K80", ""),
    ("NVIDIA A100-SXM4-40GB", 40536, 108, "A100-SXM4-40GB", ""),
    ("NVIDIA A100-SXM4-80GB", 81920, 108, "A100-SXM4-80GB", ""),
    ("NVIDIA A100 80GB PCIe", 81920, 108, "A100-PCIE-80GB", ""),
    ("NVIDIA H100 80GB HBM3", 81559, 132, "H100-SXM5-80GB", ""),
    ("NVIDIA H100 PCIe", 81559, 114, "H100-PCIE-80GB", ""),
    ("NVIDIA H100 NVL", 95830, 132, "H100-NVL-94GB", ""),
    ("NVIDIA GH200 480GB", 97871, 132, "GH200-96GB", ""),
    ("NVIDIA H200", 143771, 132, "H200-SXM-141GB", ""),
    ("NVIDIA B200", 183359, 148, "B200-SXM-180GB", ""),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, 14, "A100-SXM4-40GB", "1g.5gb"),
    ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968, 42, "A100-SXM4-40GB", "3g.20gb"),
    ("NVIDIA A100-SXM4-40GB MIG 7g.40gb", 40192, 98, "A100-SXM4-40GB", "7g.40gb"),
    ("NVIDIA A100 80GB PCIe MIG 1c.2g.20gb", 19968, 14, "A100-PCIE-80GB", "1c.2g.20gb"),
    ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", 81037, 132, "H100-SXM5-80GB", "7g.80gb"),
    ("NVIDIA A30 MIG 1g.6gb+me", 5952, 14, "A30", "1g.6gb+me"),
    ("GRID T4-16Q", 16384, 40, "T4", "16Q"),
    ("GRID T4-1B4", 1024, 40, "T4", "1B4"),
    ("NVIDIA A10-24Q", 24512, 72, "A10", "24Q"),
    ("NVIDIA A40-48Q", 49152, 84, "A40", "48Q"),
    ("NVIDIA A100-1-5C", 4864, 14, "A100-SXM4-40GB", "1-5C"),
    ("GRID A100D-20C", 20480, 108, "A100-SXM4-40GB", "20C"),
    ("GRID V100D-8Q", 8192, 80, "V100-SXM2-16GB", "8Q"),
    ("GRID V100DX-32Q", 32768, 80, "V100-SXM2-32GB", "32Q"),
    ("NVIDIA RTX6000-Ada-12Q", 12288, 142, "RTX 6000 Ada", "12Q"),
    ("Tesla T4", 7680, 40, "T4", UNNAMED_SLICE),
    ("NVIDIA A100-SXM4-40GB", 40192, 98, "A100-SXM4-40GB", UNNAMED_SLICE),
    ("NVIDIA RTX Virtual Workstation", 16384, 40, "NVIDIA RTX Virtual Workstation", ""),
    ("GRID K520", 4036, 8, "GRID K520", ""),
]


@pytest.mark.parametrize(("name", "mib", "sms", "card", "profile"), REAL)
def test_a_gpu_is_its_card_or_a_slice_of_it_which_the_name_alone_tells_where_it_names_one(
    name, mib, sms, card, profile
):
    found = identified(name, SHEETS, memory_mib=mib, sm_count=sms)
    assert (found.gpu, found.slice_profile) == (card, profile)
    assert found.is_slice == bool(profile)
    by_name_alone = "" if profile == UNNAMED_SLICE else profile
    assert identified(name, SHEETS).slice_profile == by_name_alone


def test_whole_cards_of_drivers_are_whole_without_their_size():
    for name, sheet in table("gpu_names")["drivers"].items():
        found = identified(name, SHEETS)
        assert (found.gpu, found.slice_profile) == (sheet, ""), name


@pytest.mark.parametrize(
    ("asked", "name", "mib", "sms", "is_it"),
    [
        ("T4", "Tesla T4", 15360, 40, True),
        ("T4", "GRID T4-16Q", 16384, 40, False),
        ("T4", "NVIDIA T4G", 15360, 40, False),
        ("A100", "NVIDIA A100-SXM4-40GB", 40536, 108, True),
        ("A100", "NVIDIA A100-PCIE-40GB", 40536, 108, True),
        ("A100", "NVIDIA A100-SXM4-80GB", 81920, 108, False),
        ("A100-80G", "NVIDIA A100-SXM4-80GB", 81920, 108, True),
        ("A100", "NVIDIA A100-SXM4-40GB MIG 7g.40gb", 40192, 98, False),
        ("H100", "NVIDIA H100 80GB HBM3", 81559, 132, True),
        ("H100", "NVIDIA H100 NVL", 95830, 132, False),
        ("H100-PCIE-80GB", "NVIDIA H100 NVL", 95830, 132, False),
        ("H100-NVL-94GB", "NVIDIA H100 NVL", 95830, 132, True),
        ("H100-PCIE-80GB", "NVIDIA H100 PCIe", 81559, 114, True),
        ("V100", "Tesla V100-PCIE-32GB", 32510, 80, False),
        ("L4", "NVIDIA L40S", 46068, 142, False),
        ("GRID K520", "GRID K520", 4036, 8, True),  # neither has a sheet
        ("T4", "GRID K520", 4036, 8, False),
    ],
)
def test_a_requested_card_is_that_whole_card(asked, name, mib, sms, is_it):
    present = identified(name, SHEETS, memory_mib=mib, sm_count=sms)
    assert is_card(asked, present, SHEETS) is is_it


@given(st.sampled_from(sorted(SHEETS)), st.floats(0.02, 0.8))
def test_a_part_of_a_cards_memory_never_passes_for_the_card(name, share):
    found = identified(name, SHEETS, memory_mib=share * SHEETS[name].memory_mib)
    assert found.is_slice or found.gpu != name


@given(st.text())
def test_any_name_is_some_gpu(name):
    found = identified(name, SHEETS)
    assert found.is_slice or found.gpu in gpus_named(name, SHEETS) or found.gpu == name


@pytest.mark.parametrize("told", ["RTX 2070 Ultra", "GRID K520", "", "T"])
def test_another_card_is_not_taken_for_a_like_one(told):
    with pytest.raises(UsageError, match="no data sheet"):
        sheet_of(told, SHEETS)
