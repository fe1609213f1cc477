"""Data sheets by what CUDA calls a card."""

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.errors import UsageError

GPUS = load_catalog().gpus


@pytest.mark.parametrize(
    ("told", "sheet"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX 3080 Laptop"),
        ("RTX 2070 Super", "RTX 2070 Super"),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
    ],
)
def test_drivers_names_find_their_sheet(told, sheet):
    assert sheet_of(told, GPUS).name == sheet


def test_every_sheet_is_found_by_its_own_name():
    assert all(sheet_of(name, GPUS) is sheet for name, sheet in GPUS.items())


@pytest.mark.parametrize("told", ["NVIDIA A100 MIG 1g.5gb", "GRID T4-16Q"])
def test_a_slice_of_a_card_is_not_taken_for_the_card(told):
    with pytest.raises(UsageError, match="is a slice"):
        sheet_of(told, GPUS)


@pytest.mark.parametrize("told", ["RTX 2070 Ultra", "GRID K520", "", "T"])
def test_another_card_is_not_taken_for_a_like_one(told):
    with pytest.raises(UsageError, match="no data sheet"):
        sheet_of(told, GPUS)
