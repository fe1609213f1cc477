"""Constraints on cards and disks that the oracle's worlds do not show."""

import pytest

from advisor.catalog import OfferQuery
from advisor.domain import Range

from .asking import CATALOG, answered, question


def test_a_quota_rejects_only_what_it_does_not_hold():
    """And says so: vCPUs that are needed, of which quota, and how many it lets start."""
    quotas = {"L-DB2E81BA": 8.0, "L-417A185B": 0.0}
    answer = answered(question(vcpu_quota=tuple(quotas.items())))
    details = [
        (rejection.instance_type, str(rejection.detail).split())
        for rejection in answer.rejected
        if rejection.reason == "quota"
    ]
    assert {words[5] for _, words in details} == set(quotas)
    for name, words in details:
        assert int(words[1]) == CATALOG.instance(name).vcpus > float(words[-1]) == quotas[words[5]]


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"min_gpu_memory_mib": 24 * 1024.0}, "g5.xlarge"),  # 22.5 of 24 GiB are left
        ({"max_gpu_memory_mib": 16 * 1024.0}, "g4dn.xlarge"),
        ({"compute_capability": Range(8.9, 8.9)}, "g6.xlarge"),
    ],
)
def test_a_card_counts_as_it_is_sold(changes, kept):
    answer = answered(question(max_results=500, **changes))
    assert kept in [candidate.spec.offer.instance.name for candidate in answer.ranked]


def test_a_share_of_a_gpu_and_a_chip_of_a_card_count_as_what_they_are():
    """A g6f.large has an eighth of an L4, a p2.xlarge one of the two chips of a K80."""
    eighth = CATALOG.offers(OfferQuery(cloud="aws", region="us-east-1", max_gpu_memory_mib=4096.0))
    assert "g6f.large" in [candidate.instance.name for candidate in eighth]
    chips = OfferQuery(cloud="aws", gpus=("K80",), min_gpu_memory_mib=13000.0)
    assert not CATALOG.offers(chips)


def test_a_disk_type_that_no_instance_has_says_so():
    answer = answered(question(disk_types=("instance_store",)))
    (bare,) = [rejection for rejection in answer.rejected if rejection.instance_type == "g4dn.xlarge"]
    assert bare.reason == "no_disk"  # 116 GiB are too few
    assert str(bare.detail) == "no local disk of known rate and price holds the data set"
    assert all(candidate.spec.disk.rate.type == "instance_store" for candidate in answer.ranked)
