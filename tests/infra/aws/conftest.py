"""A bed for each test; nothing of the person who runs it is read."""

from collections.abc import Iterator

import pytest

from tests.infra.aws.bed import Bed, prepared
from tests.infra.live.conftest import without_real_aws


@pytest.fixture
def bed(monkeypatch, tmp_path) -> Iterator[Bed]:
    without_real_aws(monkeypatch, tmp_path)
    with prepared(monkeypatch) as entry:
        yield entry


@pytest.fixture
def few_regions(monkeypatch) -> set[str]:
    """An account that may use three regions, as moto tells it: all of its 38 take seconds."""
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    names = {"us-east-1", "eu-west-1", "ap-southeast-2"}
    known = [region for region in RegionsAndZonesBackend.regions if region.name in names]
    monkeypatch.setattr(RegionsAndZonesBackend, "regions", known)
    return names
