"""Facts and prices of the clouds, what may never pass for what, and one type as it is not."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import OfferQuery, Rejection, check, load_catalog
from advisor.catalog.bundle import DATA_FOLDER, MANIFEST, BundleFiles
from advisor.catalog.instances import InstanceTable
from advisor.catalog.load import WhatIfCatalog, with_host
from advisor.domain import Market


def all_of(catalog, **query):
    return catalog.offers(OfferQuery(**query))


def test_prices_of_the_clouds_are_listed_observed_or_estimated_and_never_zero(catalog):
    spot = all_of(catalog, cloud="aws", market=Market.SPOT)
    assert Counter(offer.price.kind for offer in spot).keys() == {"observed", "estimated"}
    for offer in spot:
        if offer.price.kind == "estimated":
            assert offer.price.terms.endswith("interrupted within a month")
    gcp = all_of(catalog, cloud="gcp", market=Market.SPOT)
    assert {offer.price.kind for offer in gcp} == {"observed"}
    # 238 of its rows have 0 on demand.
    assert catalog.is_offered("ecs.gn5-c4g1.xlarge", "us-east-1")
    result = all_of(catalog, cloud="alibaba")
    assert min(offer.price.usd_per_hour for offer in result) > 0
    missing = catalog.unpriced(OfferQuery(cloud="alibaba", market=Market.ON_DEMAND))
    assert {rejected.reason for rejected in missing} == {"no_price"}


def test_types_without_facts_are_never_offers_and_the_manifest_names_exactly_those(catalog):
    query = OfferQuery(cloud="azure", region="eastus", gpus=("K80",))
    assert catalog.offers(query) == []
    partial = catalog.partial_offers(query)
    assert {offer.type.name for offer in partial} >= {"Standard_NC6_Promo"}
    rejected = catalog.unpriced(query)
    assert {each.reason for each in rejected} == {"facts_missing"}
    assert "RAM" in str(rejected[0].detail)
    assert catalog.offers(OfferQuery(gpus=("RTX 3070",))) == [], "no type has it"
    for cloud, facts in json.loads((DATA_FOLDER / MANIFEST).read_text())["clouds"].items():
        names = InstanceTable(cloud, BundleFiles(DATA_FOLDER), {}).names
        lacking = [name for name in names if catalog.partial_type(name, cloud).missing]
        assert lacking == facts["lacking"]


def test_shares_of_a_gpu_are_never_taken_for_a_whole_one(catalog):
    """vgn6i sells a share of a T4 that its price list counts as one GPU."""
    sold = {offer.instance for offer in all_of(catalog, cloud="alibaba", gpus=("T4",))}
    whole = {instance.name for instance in sold if instance.gpu_fraction == 1}
    assert whole
    assert all(name.startswith(("ecs.gn6i", "ecs.ebmgn6i", "ecs.vgn6i-m16")) for name in whole)
    for name in ("ecs.vgn6i-m4-vws.xlarge", "g4-standard-12"):
        assert catalog.instance(name).gpu_fraction == 0.25


@pytest.mark.parametrize("name", ["ecs.t6-c1m1.large", "e2-micro", "ecs.n4.large"])
def test_vcpus_that_are_shared_are_no_fact(catalog, name):
    verdict = check(catalog.instance(name), None, needs_gpu=False)
    assert isinstance(verdict, Rejection)
    assert verdict.reason == "facts_missing"


CATALOG = load_catalog()
TYPES = [CATALOG.instance(name) for name in ("g4dn.xlarge", "g5g.xlarge", "p3.8xlarge", "c5.large")]


@given(instance=st.sampled_from(TYPES), vcpus=st.integers(1, 1024))
def test_cores_go_with_the_vcpus_and_are_whole(instance, vcpus):
    changed = with_host(instance, vcpus=vcpus)
    threads = instance.vcpus / instance.physical_cores
    assert changed.vcpus == vcpus
    assert vcpus / threads <= changed.physical_cores < vcpus / threads + 1
    assert changed.memory_mib == instance.memory_mib
    assert with_host(instance, instance.vcpus, instance.memory_mib) == instance == with_host(instance)


def test_only_the_changed_type_is_another_and_only_it_has_no_price():
    changed = with_host(TYPES[0], vcpus=16)
    catalog = WhatIfCatalog(CATALOG, changed)
    assert catalog.instance("g4dn.xlarge") == changed
    assert catalog.instance("g4dn.2xlarge") == CATALOG.instance("g4dn.2xlarge")
    query, other = (OfferQuery(cloud="aws", instances=(f"g4dn.{size}",)) for size in ("xlarge", "2xlarge"))
    assert catalog.cheapest(query, 1) == ([], 0)
    assert catalog.cheapest(other, 1) == CATALOG.cheapest(other, 1)
    assert CATALOG.instance("g4dn.xlarge").vcpus == 4, "the real one is left alone"
