"""Constraints on cards and disks that the oracle's worlds do not show, and what is said where nothing
even runs."""

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.catalog import OfferQuery
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import Range
from advisor.engine.assumptions import warnings
from advisor.engine.no_offer import no_offer
from advisor.errors import NoIntervalError
from tests.builders import candidate, recommendation, rejected

from .asking import CATALOG, answered, names, question
from .plain_model import PlainModel


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
    assert kept in names(answer.ranked)


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


def test_a_guess_is_refused_unless_it_is_allowed():
    guessing, limits = PlainModel(calibrated=False), {"target_throughput": 100, "accelerated_only": True}
    with pytest.raises(NoIntervalError, match="--allow-extrapolation"):
        answered(question(**limits), guessing)
    assert answered(question(**limits, allow_extrapolation=True), guessing).chosen is not None


def test_a_missing_disk_price_can_be_imported():
    reasons = (rejected(reason="too_slow"), rejected("gn5", reason="no_disk"))
    said = str(no_offer(recommendation(ranked=(), rejected=reasons)))
    assert "none of the 2 types" in said
    assert "1 without a fitting disk, 1 too slow" in said
    assert "advisor catalog import" in said


def test_where_no_fact_is_known_another_cloud_may_answer():
    answer = recommendation(ranked=(), rejected=(rejected(reason="facts_missing"),))
    said = str(no_offer(answer))
    assert "--explain-rejected says why; --cloud any looks elsewhere" in said


def test_constraints_that_leave_no_type_are_not_counted_as_rejections():
    said = str(no_offer(recommendation(ranked=(), rejected=())))
    assert said.startswith("no type of aws ")


def test_a_local_disk_does_not_care_for_limits_to_network_disks():
    network = candidate(notes=(UNLIMITED_NOTE,))
    disk = replace(network.spec.disk, price=None)
    local = replace(network, spec=replace(network.spec, disk=disk))
    assert UNLIMITED_NOTE in warnings(network, date(2026, 7, 20))
    assert UNLIMITED_NOTE not in warnings(local, date(2026, 7, 20))
