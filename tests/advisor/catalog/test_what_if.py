"""A type as it is not: its host alone is another, and it has no price."""

from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.what_if import WhatIfCatalog, with_host

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
    for one in TYPES:
        assert with_host(one, one.vcpus, one.memory_mib) == one == with_host(one)


def test_only_the_changed_type_is_another_and_only_it_has_no_price():
    changed = with_host(TYPES[0], vcpus=16)
    asked = WhatIfCatalog(CATALOG, changed)
    assert asked.instance("g4dn.xlarge") == changed
    assert asked.instance("g4dn.2xlarge") == CATALOG.instance("g4dn.2xlarge")
    query = OfferQuery(cloud="aws", region="us-east-1", instances=("g4dn.xlarge",))
    assert asked.cheapest(query, 1) == ([], 0)
    other = OfferQuery(cloud="aws", region="us-east-1", instances=("g4dn.2xlarge",))
    assert asked.cheapest(other, 1) == CATALOG.cheapest(other, 1)
    assert CATALOG.instance("g4dn.xlarge").vcpus == 4, "the real one is left alone"
