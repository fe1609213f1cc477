"""How the GPUs of instance types are joined."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.gpus import UNKNOWN, gpu_link


@pytest.mark.parametrize(
    ("name", "gpus", "link"),
    [
        ("p4d.24xlarge", 8, "nvlink"),
        ("p5.48xlarge", 2, "nvlink"),
        ("p6-b200.48xlarge", 8, "nvlink"),
        ("g5.48xlarge", 8, "pcie"),
        ("g6e.12xlarge", 4, "pcie"),
        ("g7e.48xlarge", 8, "pcie"),
        ("a2-megagpu-16g", 16, "nvlink"),
        ("g2-standard-24", 2, "pcie"),
        ("g5.xlarge", 1, "none"),
    ],
)
def test_known_types(name: str, gpus: int, link: str) -> None:
    """NVSwitch boards and cards without NVLink, and one GPU, which is joined to none."""
    assert gpu_link(load_catalog().instance(name)).among(gpus) == link


def test_bridges_join_pairs_alone() -> None:
    """Four GPUs of an NC A100 are two pairs: what crosses them goes over PCIe."""
    of_aws = load_catalog().instance("p5.48xlarge")
    four = replace(of_aws, cloud="azure", name="Standard_NC96ads_A100_v4")
    assert gpu_link(four).among(2) == "nvlink"
    assert gpu_link(four).among(4) == "pcie"


def test_an_unknown_type_counts_as_pcie_and_has_no_source() -> None:
    """The slower link, so that nothing is promised."""
    unknown = replace(load_catalog().instance("p5.48xlarge"), name="x9.48xlarge")
    assert gpu_link(unknown) == UNKNOWN
    assert gpu_link(unknown).among(2) == "pcie"


def test_where_no_table_names_a_cloud_the_card_tells_the_link() -> None:
    """Lambda's SXM boards have NVLink; of its PCIe cards nobody says it."""
    catalog = load_catalog()
    assert gpu_link(catalog.instance("gpu_8x_h100_sxm5", "lambda")).among(8) == "nvlink"
    assert gpu_link(catalog.instance("gpu_4x_a6000", "lambda")) == UNKNOWN


def test_every_type_with_several_nvidia_gpus_is_in_the_table() -> None:
    """A new family of a cloud that the table names is noticed here, not by a wrong answer."""
    catalog = load_catalog()
    several = [
        one
        for cloud in ("aws", "gcp", "azure", "alibaba")
        for one in catalog.instances(cloud)
        if one.gpu_vendor == "NVIDIA" and one.gpu_count > 1 and one.current and catalog.gpu_of(one)
    ]
    assert [one.name for one in several if not gpu_link(one).source] == []
