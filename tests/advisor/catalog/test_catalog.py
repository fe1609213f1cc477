"""The catalogue as other rooms see it, and with one type as it is not."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import OfferQuery, load_catalog, resources_of
from advisor.catalog.load import WhatIfCatalog, with_host
from advisor.domain import Market
from advisor.errors import UsageError
from tests.advisor.catalog.builders import order

EAST = "us-east-1"


def test_date_and_sources_are_told(catalog):
    """The date is the prices'; every part names origin and licence."""
    assert catalog.as_of == date(2026, 7, 20)
    assert any("karpenter" in line and "2026-07-20" in line for line in catalog.sources)
    assert any("CC BY-SA 4.0" in line for line in catalog.sources)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"region": "us-esat-1"}, "did you mean.*us-east-1"),
        ({"gpus": ("RTX 9999",)}, "unknown GPU"),
        ({"cloud": "azur"}, "did you mean azure?"),
        ({"instances": ("g4dn.xlrge",)}, "did you mean.*g4dn.xlarge"),
    ],
)
def test_misspelt_names_are_usage_errors(catalog, query, words):
    """Near names are told."""
    with pytest.raises(UsageError, match=words):
        catalog.offers(OfferQuery(**query))


def test_every_region_of_aws_has_prices_of_its_own(catalog):
    """Also those that were opened since 2022."""
    assert set(catalog.regions()) == set(catalog.known_regions())
    offers = catalog.offers(OfferQuery(cloud="aws", region="ca-west-1", market=Market.ON_DEMAND))
    assert sum(offer.price.kind == "list" for offer in offers) > 150


def test_a_gpu_that_no_type_has_finds_nothing(catalog):
    """A known card that nobody sells is no spelling mistake."""
    assert catalog.offers(OfferQuery(gpus=("RTX 3070",))) == []


def test_offers_have_a_price_and_retired_types_are_among_them(catalog):
    """So that p2.xlarge can be rejected by name, however cheap it is listed."""
    result = catalog.offers(OfferQuery(cloud="aws", region=EAST, gpus=("K80",)))
    assert {offer.instance.name for offer in result} == {"p2.xlarge", "p2.8xlarge", "p2.16xlarge"}
    assert all(offer.price.usd_per_hour > 0 and not offer.instance.current for offer in result)


def test_types_without_a_price_are_listed_apart(catalog):
    """Offered in us-east-1, and in no list: the Macs, and bare metal that is like no other."""
    missing = catalog.unpriced(OfferQuery(cloud="aws", region=EAST))
    assert {item.reason for item in missing} == {"no_price"}
    macs = [item for item in missing if item.instance_type.startswith("mac")]
    assert len(macs) == 9
    assert [item.instance_type for item in missing if item not in macs] == ["m8gb.metal-24xl"]
    assert (
        catalog.unpriced(OfferQuery(cloud="aws", region=EAST, accelerated=True, max_usd_per_hour=0.1)) == []
    )


def test_prices_are_found_by_type_region_and_market(catalog):
    """None where a price is not known, and an error where the type is not."""
    assert catalog.price("g4dn.xlarge", EAST).usd_per_hour == 0.526
    assert catalog.price("g4dn.xlarge", EAST, Market.COMMITMENT_1Y).usd_per_hour == 0.331
    assert catalog.price("g4dn.xlarge", "ca-west-1") is None
    assert catalog.price("g4dn.xlarge", "basis") is None
    assert catalog.price("mac1.metal", EAST) is None
    with pytest.raises(UsageError, match="unknown instance type"):
        catalog.price("nope", EAST)


def test_resources_are_the_instances_own(catalog):
    """One GPU with its usable memory, physical cores, and the effective disk rate."""
    (offer,) = catalog.offers(OfferQuery(region=EAST, market=Market.ON_DEMAND, instances=("g4dn.12xlarge",)))
    disk = catalog.disks.attach(offer.instance, order("gp3", 200), EAST)
    got = resources_of(catalog, offer, disk)
    assert (got.vcpus, got.physical_cores, got.memory_mib) == (48, 24, 196608)
    assert (got.gpu.name, got.gpu.memory_mib) == ("T4", 15360)
    assert got.disk == disk.rate
    assert got.host_to_gpu_gb_per_second == 6.27
    assert got.cpu.model == "Intel Xeon Platinum 8259CL"
    assert resources_of(catalog, offer.instance, disk) == got


def test_a_cpu_type_has_no_gpu(catalog):
    """Preprocessing runs there."""
    instance = catalog.instance("m5.large")
    assert (
        resources_of(catalog, instance, catalog.disks.attach(instance, order("gp3", 200), EAST)).gpu is None
    )
    assert instance.cpu.single_thread_score > 1000


def test_two_cards_under_one_ec2_name_are_told_apart(catalog):
    """EC2 calls both A100 and both V100; their memory says which."""
    names = ("p4d.24xlarge", "p4de.24xlarge", "p3.2xlarge", "p3dn.24xlarge")
    assert [catalog.instance(name).gpu_name for name in names] == [
        "A100-SXM4-40GB",
        "A100-SXM4-80GB",
        "V100-SXM2-16GB",
        "V100-SXM2-32GB",
    ]
    offers = catalog.offers(OfferQuery(cloud="aws", region=EAST, gpus=("A100",)))
    assert {offer.instance.name for offer in offers} == {"p4d.24xlarge", "p4de.24xlarge"}


CATALOG = load_catalog()
TYPES = [CATALOG.instance(name) for name in ("g4dn.xlarge", "g5g.xlarge", "p3.8xlarge", "c5.large")]


@given(instance=st.sampled_from(TYPES), vcpus=st.integers(1, 1024))
def test_cores_go_with_the_vcpus_and_are_whole(instance, vcpus):
    changed = with_host(instance, vcpus=vcpus)
    threads = instance.vcpus / instance.physical_cores
    assert changed.vcpus == vcpus
    assert vcpus / threads <= changed.physical_cores < vcpus / threads + 1
    assert changed.memory_mib == instance.memory_mib


def test_what_it_has_is_what_it_is():
    for instance in TYPES:
        assert with_host(instance, instance.vcpus, instance.memory_mib) == instance == with_host(instance)


def test_only_the_changed_type_is_another_and_only_it_has_no_price():
    changed = with_host(TYPES[0], vcpus=16)
    catalog = WhatIfCatalog(CATALOG, changed)
    assert catalog.instance("g4dn.xlarge") == changed
    assert catalog.instance("g4dn.2xlarge") == CATALOG.instance("g4dn.2xlarge")
    query = OfferQuery(cloud="aws", region="us-east-1", instances=("g4dn.xlarge",))
    assert catalog.cheapest(query, 1) == ([], 0)
    other = OfferQuery(cloud="aws", region="us-east-1", instances=("g4dn.2xlarge",))
    assert catalog.cheapest(other, 1) == CATALOG.cheapest(other, 1)
    assert CATALOG.instance("g4dn.xlarge").vcpus == 4, "the real one is left alone"
