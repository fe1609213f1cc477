"""An image that does not serve is told before anything is launched."""

from __future__ import annotations

import pytest

from advisor.catalog import load_catalog
from advisor.infra.aws.regions import unfit

PLAIN = {"ImageId": "ami-1", "Architecture": "x86_64", "PlatformDetails": "Linux/UNIX"}


def told(row: dict[str, object], name: str = "g4dn.xlarge", *, named: bool = False) -> str:
    found = unfit(PLAIN | row, (load_catalog().instance(name, "aws"),), named=named)
    return found.text if found else ""


def test_a_plain_image_serves() -> None:
    assert told({}) == ""
    assert unfit({"ImageId": "ami-1"}, (load_catalog().instance("g5.xlarge", "aws"),), named=True) is None


@pytest.mark.parametrize(
    "row",
    [
        {"PlatformDetails": "Windows"},
        {"PlatformDetails": "Red Hat Enterprise Linux"},
        {"ProductCodes": [{"ProductCodeId": "x", "ProductCodeType": "marketplace"}]},
    ],
)
def test_an_image_that_costs_by_itself_would_pass_the_budget(row: dict[str, object]) -> None:
    assert "which no budget counts" in told(row, named=True)


def test_an_image_for_another_cpu_is_told() -> None:
    assert "g5g.xlarge is arm64" in told({}, "g5g.xlarge")
    assert told({"Architecture": "arm64"}, "g5g.xlarge") == ""


@pytest.mark.parametrize("name", ["p3.2xlarge", "g3.4xlarge"])
def test_the_open_driver_knows_no_gpu_before_turing(name: str) -> None:
    """The instance would find no GPU, after minutes that are paid; one's own image may have it."""
    assert "does not know the" in told({}, name)
    assert told({}, name, named=True) == ""
