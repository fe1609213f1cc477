"""Several identical instances: as few as will do, and never dearer than without the choice."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog, resources_of
from advisor.catalog.support import quota_code
from advisor.domain import IMAGENET, DiskChoice, Market, Task
from advisor.engine import Preparations, recommend
from advisor.engine.assumptions import warnings
from advisor.engine.candidates import Runnable, disks_for, query_of, runnable
from advisor.engine.no_offer import no_offer
from advisor.engine.relax import relaxations
from advisor.engine.single import predict_instance
from advisor.engine.tasks.network import NetworkTask
from advisor.errors import UsageError
from tests.builders import candidate, network_question

from .plain_model import PlainModel

TODAY = date(2026, 7, 21)
CATALOG = load_catalog()
SMALL = replace(IMAGENET, name="small", samples=50_000)


def at_count(one, count):
    """A candidate on another number of instances, worked out by hand."""
    factor = count / one.spec.count
    return replace(
        one,
        spec=replace(one.spec, count=count),
        prediction=one.prediction.times(factor),
        run=one.run.shared_by(factor) if one.run else None,
    )


requests = st.builds(
    network_question,
    network=st.just("googlenet"),
    task=st.sampled_from([Task.INFERENCE, Task.PREPROCESSING]),
    target_throughput=st.floats(min_value=1, max_value=60_000),
    region=st.sampled_from(CATALOG.regions()),
    batch_size=st.one_of(st.none(), st.integers(1, 512)),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(min_value=0.3, max_value=200)),
    disk=st.sampled_from([None, DiskChoice(type="gp3"), DiskChoice(type="st1", size_gib=500.0)]),
    max_gpus=st.sampled_from([None, 1, 2]),
    max_count=st.integers(1, 30),
)


def ask(request):
    return recommend(request, Preparations(CATALOG, PlainModel()), today=TODAY)


def by_brute_force(request):
    """Total prices of every spec, batch and count that meets the target within the price."""
    model, limit = PlainModel(), request.max_usd_per_hour or math.inf
    for option in runnable(request, CATALOG, model, CATALOG.offers(query_of(request))):
        if not isinstance(option, Runnable):
            continue
        for disk in disks_for(request, CATALOG, option.offer.instance):
            has = resources_of(CATALOG, option.offer, disk, request.max_gpus)
            pairs = [(workload, has) for workload in option.workloads]
            each = option.offer.price.usd_per_hour + disk.usd_per_hour
            for one in model.predict(pairs, confidence=0.9):
                for count in range(1, request.max_count + 1):
                    if count * one.lower >= request.target_throughput and count * each <= limit:
                        yield count * each


@pytest.mark.slow
@given(requests)
def test_no_cheaper_number_of_instances_that_meets_the_target_is_passed_over(request):
    answer, prices = ask(request), list(by_brute_force(request))
    if answer.chosen is None:
        assert not prices
        return
    chosen = answer.chosen
    assert chosen.spec.total_usd_per_hour <= min(prices) * (1 + 1e-12)
    assert chosen.prediction.lower >= request.target_throughput
    assert 1 <= chosen.spec.count <= request.max_count
    one_less = at_count(chosen, chosen.spec.count - 1) if chosen.spec.count > 1 else None
    assert one_less is None or one_less.prediction.lower < request.target_throughput


@pytest.mark.slow
@given(requests, st.integers(1, 20))
def test_more_instances_to_choose_from_are_never_dearer(request, more):
    first = ask(request).chosen
    second = ask(replace(request, max_count=request.max_count + more)).chosen
    if first is not None:
        assert second is not None
        assert second.spec.total_usd_per_hour <= first.spec.total_usd_per_hour * (1 + 1e-12)


@settings(max_examples=6)
@given(requests)
def test_where_one_instance_is_asked_for_one_is_given(request):
    answer = ask(replace(request, max_count=1))
    shown = [*answer.ranked, *([answer.nearest] if answer.nearest else [])]
    assert all(one.spec.count == 1 for one in shown)


def test_no_more_instances_are_taken_than_the_quota_of_their_kind_lets_start():
    """Four g4dn.xlarge would do; vCPUs for three of them are left."""
    request = network_question(
        network="googlenet",
        task=Task.INFERENCE,
        target_throughput=1500,
        gpus=("T4",),
        disk=DiskChoice(type="gp3"),
        max_count=8,
        max_gpus=1,
        accelerated_only=True,
    )
    free = ask(request)
    code = quota_code("g4dn.xlarge", request.market)
    held = ask(replace(request, vcpu_quota=((code, 12.0),)))
    assert free.chosen.spec.count * free.chosen.spec.offer.instance.vcpus > 12
    for one in held.ranked:
        assert one.spec.count * one.spec.offer.instance.vcpus <= 12
    assert held.chosen is None or held.chosen.spec.total_usd_per_hour >= (free.chosen.spec.total_usd_per_hour)


def test_all_instances_together_have_the_bottleneck_and_the_risk_of_one():
    one = candidate()
    three = at_count(one, 3)
    assert three.prediction.bottleneck is one.prediction.bottleneck
    assert three.prediction.utilization == pytest.approx(one.prediction.utilization)
    assert three.prediction.lower / three.prediction.median == pytest.approx(
        one.prediction.lower / one.prediction.median
    )
    assert three.spec.total_usd_per_hour == 3 * one.spec.total_usd_per_hour
    assert three.usd_per_million_samples == pytest.approx(one.usd_per_million_samples)
    assert at_count(three, 1).prediction.lower == pytest.approx(one.prediction.lower)


def test_a_deadline_takes_several_instances_and_the_run_is_shared():
    run = {"samples": 100_000_000, "max_hours": 5.0, "max_count": 50}
    answer = ask(network_question(network="googlenet", task=Task.INFERENCE, **run))
    chosen = answer.chosen
    assert chosen.spec.count > 1
    assert chosen.run.hours.upper <= 5
    alone = at_count(chosen, 1)
    assert alone.run.hours.upper == pytest.approx(chosen.spec.count * chosen.run.hours.upper)
    assert alone.usd_per_run.upper == pytest.approx(chosen.usd_per_run.upper)


def test_training_over_several_instances_is_refused_with_the_reason():
    request = network_question(network="googlenet", task=Task.TRAINING, max_count=2)
    with pytest.raises(UsageError, match="--max-nodes 2"):
        ask(request)


def test_the_latency_of_several_instances_and_gpus_is_that_of_one():
    limit = {"max_latency_ms": 300.0, "batch_size": 16, "target_throughput": 20_000.0}
    request = network_question(network="googlenet", task=Task.INFERENCE, max_count=40, **limit)
    chosen = ask(request).chosen
    assert chosen.spec.count > 1
    name = chosen.spec.offer.instance.name
    alone = predict_instance(replace(request, max_gpus=1), CATALOG, PlainModel(), name)
    same = next(one for one in alone.by_batch if one.batch_size == 16)
    assert chosen.latency == same.latency


def test_gpus_that_may_not_be_used_stay_idle_and_only_then_a_warning_says_so():
    question = network_question(network="googlenet", task=Task.INFERENCE)
    found = [
        predict_instance(one, CATALOG, PlainModel(), "g4dn.12xlarge").prediction
        for one in (question, replace(question, max_gpus=1), replace(question, max_gpus=9))
    ]
    assert [one.gpus_used for one in found] == [4, 1, 4]
    plain = candidate()
    offer = replace(plain.spec.offer, instance=CATALOG.instance("g4dn.12xlarge"))
    spec = replace(plain.spec, offer=offer)

    def idle(one):
        return [
            str(said)
            for said in warnings(replace(plain, spec=spec, prediction=one), TODAY)
            if "stay idle" in str(said)
        ]

    assert idle(found[0]) == []
    assert idle(found[1]) == ["3 of its 4 GPUs stay idle: no more than 1 may be used"]


@pytest.mark.slow
def test_where_nothing_is_fast_enough_the_number_that_would_be_is_told_and_works():
    request = network_question(network="googlenet", task=Task.INFERENCE, target_throughput=1e5)
    message = str(no_offer(ask(request)))
    count = int(message.split("--max-count to ")[1].split()[0])
    assert ask(replace(request, max_count=count)).chosen is not None
    ways = [
        way.changes[0] for way in relaxations(NetworkTask(Preparations(CATALOG, PlainModel())), ask(request))
    ]
    assert ("--max-count", str(count)) in [(change.option, change.after) for change in ways]
    training = str(no_offer(ask(replace(request, task=Task.TRAINING))))
    assert "--max-count" not in training


@pytest.mark.parametrize("quota", [(), ((quota_code("g6.xlarge", Market.ON_DEMAND), 400.0),)])
def test_the_target_to_relax_to_is_what_all_instances_together_reach(quota):
    request = network_question(
        network="googlenet", task=Task.INFERENCE, target_throughput=1e6, max_count=4, vcpu_quota=quota
    )
    ways = relaxations(NetworkTask(Preparations(CATALOG, PlainModel())), ask(request))
    relaxed = next(one for one in ways if one.changes[0].constraint == "target_throughput")
    target = float(relaxed.changes[0].after)
    assert ask(replace(request, target_throughput=target)).chosen is not None
    assert ask(replace(request, target_throughput=target * 1.01)).chosen is None


def test_a_target_beyond_all_counting_is_answered_at_once():
    request = network_question(network="googlenet", task=Task.INFERENCE, target_throughput=1e308)
    assert "--max-count" not in str(no_offer(ask(request)))
    assert ask(replace(request, max_count=1000)).chosen is None
