"""Constraints on the hardware, the disk and the quota: kept, by brute force, and never cheaper."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, Rejection, check, load_catalog, resources_of
from advisor.catalog.support import quota_code
from advisor.domain import ANY, IMAGENET, Range, Task
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import disks_for, workloads_of
from tests.builders import network_question

from .plain_model import PlainModel

TODAY = date(2026, 7, 21)
CATALOG = load_catalog()
SMALL = replace(IMAGENET, name="small", samples=50_000)
EAST = "us-east-1"
OFFERS = CATALOG.offers(OfferQuery(cloud="aws", region=EAST, accelerated=True))
OFFERS = [one for one in OFFERS if one.market == "on-demand"]
G, P = "L-DB2E81BA", "L-417A185B"


def ranges(least, most):
    ends = st.none() | st.floats(least, most)
    pairs = st.tuples(ends, ends)
    some = pairs.map(lambda pair: Range(*(pair if None in pair else sorted(pair))))
    return st.just(ANY) | st.just(ANY) | some


requests = st.builds(
    network_question,
    network=st.just("googlenet"),
    task=st.just(Task.INFERENCE),
    target_throughput=st.floats(min_value=1, max_value=6_000),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    batch_size=st.sampled_from([None, 8, 64]),
    vcpus=ranges(2, 100),
    memory_mib=ranges(8_000, 400_000),
    compute_capability=ranges(7, 10),
    min_gpu_memory_mib=st.none() | st.floats(8_000, 50_000),
    max_gpu_memory_mib=st.none() | st.floats(12_000, 200_000),
    vcpu_quota=st.sampled_from([(), ((G, 8.0),), ((G, 0.0),), ((G, 48.0), (P, 0.0))]),
    disk_types=st.sampled_from([(), ("gp3",), ("gp2", "io1"), ("io2", "st1"), ("instance_store",)]),
)


def asked_for(request, offer):
    """Every constraint, spelt out without the product's own words."""
    one, card = offer.instance, CATALOG.gpus.get(offer.instance.gpu_name or "")
    code, quota = quota_code(one.name, offer.market), dict(request.vcpu_quota)
    memory = one.gpu_memory_mib or 0
    numbers = [(request.vcpus, one.vcpus), (request.memory_mib, one.memory_mib)]
    version = float(card.compute_capability) if card and card.vendor == "NVIDIA" else None
    numbers.append((request.compute_capability, version))
    return (
        all(
            limits == ANY or (n is not None and (limits.least or 0) <= n <= (limits.most or float("inf")))
            for limits, n in numbers
        )
        and memory >= 0.93 * (request.min_gpu_memory_mib or 0)
        and memory <= (request.max_gpu_memory_mib or float("inf"))
        and quota.get(code, float("inf")) >= one.vcpus
    )


def cheapest_by_hand(request):
    """The least total of what is asked for, runs, and reaches the target; None for nothing."""
    model, found = PlainModel(), []
    for offer in OFFERS:
        gpu = CATALOG.gpu_of(offer.instance)
        verdict = check(offer.instance, gpu, needs_gpu=True, closed=offer.closed)
        if isinstance(verdict, Rejection) or not asked_for(request, offer):
            continue
        for disk in disks_for(request, CATALOG, offer.instance):
            resources = resources_of(CATALOG, offer, disk)
            fitting = [w for w in workloads_of(request) if model.gpu_memory_mib(w) <= gpu.memory_mib]
            predictions = model.predict([(w, resources) for w in fitting], confidence=0.9)
            if any(one.lower >= request.target_throughput for one in predictions):
                found.append(offer.price.usd_per_hour + disk.usd_per_hour)
    return min(found, default=None)


@given(requests)
def test_what_is_chosen_keeps_every_constraint_and_nothing_cheaper_does(request):
    answer = recommend(request, Preparations(CATALOG, PlainModel()), today=TODAY)
    least = cheapest_by_hand(request)
    if answer.chosen is None:
        assert least is None
        return
    spec = answer.chosen.spec
    assert asked_for(request, spec.offer)
    assert not request.disk_types or spec.disk.rate.type in request.disk_types
    # The coarse steps by hand; the advisor may find a smaller order between them.
    assert least is None or spec.total_usd_per_hour <= least


@given(requests, st.data())
def test_a_tighter_constraint_is_never_cheaper(request, data):
    tighter = data.draw(
        st.sampled_from(
            [
                {"vcpus": Range(max(8, request.vcpus.least or 0), None)},
                {"memory_mib": Range(max(64_000, request.memory_mib.least or 0), None)},
                {"compute_capability": Range(max(8.0, request.compute_capability.least or 0), None)},
                {"vcpu_quota": ((G, min(4.0, dict(request.vcpu_quota).get(G, 4.0))), (P, 0.0))},
                {"disk_types": request.disk_types[:1] or ("gp3",)},
                {"min_gpu_memory_mib": max(24_000, request.min_gpu_memory_mib or 0)},
            ]
        )
    )
    (name,) = tighter
    if name in ("vcpus", "memory_mib", "compute_capability"):
        request = replace(request, **{name: Range(getattr(request, name).least, None)})
    first, second = (
        recommend(one, Preparations(CATALOG, PlainModel()), today=TODAY).chosen
        for one in (request, replace(request, **tighter))
    )
    if second is not None:
        assert first is not None
        assert second.spec.total_usd_per_hour >= first.spec.total_usd_per_hour - 1e-12


@given(requests)
def test_a_quota_rejects_only_what_it_does_not_hold(request):
    answer = recommend(request, Preparations(CATALOG, PlainModel()), today=TODAY)
    for one in answer.rejected:
        if one.reason == "quota":
            needed, code, allowed = (
                str(one.detail).split()[1],
                str(one.detail).split()[5],
                str(one.detail).split()[-1],
            )
            assert int(needed) == CATALOG.instance(one.instance_type).vcpus > float(allowed)
            assert dict(request.vcpu_quota)[code] == float(allowed)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"min_gpu_memory_mib": 24 * 1024.0}, "g5.xlarge"),  # 22.5 of 24 GiB are left
        ({"max_gpu_memory_mib": 16 * 1024.0}, "g4dn.xlarge"),
        ({"compute_capability": Range(8.9, 8.9)}, "g6.xlarge"),
    ],
)
def test_a_card_counts_as_it_is_sold(changes, kept):
    request = network_question(network="googlenet", task=Task.INFERENCE, max_results=500, **changes)
    answer = recommend(request, Preparations(CATALOG, PlainModel()), today=TODAY)
    assert kept in [one.spec.offer.instance.name for one in answer.ranked]


def test_a_share_of_a_gpu_and_a_chip_of_a_card_count_as_what_they_are():
    """A g6f.large has an eighth of an L4, a p2.xlarge one of the two chips of a K80."""
    eighth = CATALOG.offers(OfferQuery(cloud="aws", region=EAST, max_gpu_memory_mib=4096.0))
    assert "g6f.large" in [one.instance.name for one in eighth]
    chips = OfferQuery(cloud="aws", gpus=("K80",), min_gpu_memory_mib=13000.0)
    assert not CATALOG.offers(chips)


def test_a_disk_type_that_no_instance_has_says_so():
    answer = recommend(
        network_question(network="googlenet", task=Task.INFERENCE, disk_types=("instance_store",)),
        Preparations(CATALOG, PlainModel()),
        today=TODAY,
    )
    (bare,) = [one for one in answer.rejected if one.instance_type == "g4dn.xlarge"]
    assert bare.reason == "no_disk"  # 116 GiB are too few
    assert str(bare.detail) == "no local disk of known rate and price holds the data set"
    assert all(one.spec.disk.rate.type == "instance_store" for one in answer.ranked)
