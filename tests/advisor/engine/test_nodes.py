"""Training over several nodes: the cheapest number of them, against every spec tried one by one."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import resources_of
from advisor.domain import CacheState, Precision, Task
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import Runnable, attached, disks_for, on_nodes, query_of, runnable
from advisor.engine.relax import relaxations
from advisor.engine.tasks.network import NetworkTask
from advisor.models.performance import load_model
from tests.builders import network_question

from .asking import CATALOG, SMALL

MODEL = load_model()
PREPARED = Preparations(CATALOG, MODEL)
TODAY = date(2026, 8, 3)

requests = st.builds(
    network_question,
    network=st.sampled_from(["resnet50", "googlenet", "vgg16"]),
    task=st.just(Task.TRAINING),
    precision=st.sampled_from([Precision.FP32, Precision.AMP]),
    target_throughput=st.floats(200, 20_000),
    region=st.just("us-east-1"),
    batch_size=st.sampled_from([16, 64]),
    dataset=st.just(SMALL),
    gpus=st.sampled_from([("T4",), ("L4",), ("T4", "A10G")]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(1, 100)),
    max_nodes=st.integers(1, 6),
)


def training(**changes):
    """Of resnet50 in mixed precision."""
    usual = {"network": "resnet50", "task": Task.TRAINING, "precision": Precision.AMP}
    return network_question(**{**usual, **changes})


def ask(request):
    return recommend(request, PREPARED, today=TODAY)


def by_brute_force(request):
    """Prices of every spec on every number of nodes whose lower bounds are enough."""
    limit = request.max_usd_per_hour or float("inf")
    sold = [attached(request, CATALOG, offer) for offer in CATALOG.offers(query_of(request))]
    for verdict in runnable(request, CATALOG, MODEL, sold):
        if not isinstance(verdict, Runnable):
            continue
        for option in on_nodes(request, verdict):
            for disk in disks_for(request, CATALOG, option.offer.instance):
                has = resources_of(CATALOG, option.offer, disk, None, option.nodes)
                pairs = [(workload, has) for workload in option.workloads]
                usd = option.nodes * (option.offer.price.usd_per_hour + disk.usd_per_hour)
                warm = MODEL.predict(pairs)
                cold = MODEL.predict(pairs, cache=CacheState.COLD)
                for prediction, first in zip(warm, cold, strict=True):
                    enough = option.nodes * prediction.lower >= request.target_throughput
                    soon = option.nodes * first.lower >= request.target_throughput / 2
                    if enough and soon and usd <= limit:
                        yield usd


@pytest.mark.slow
@settings(max_examples=12)
@given(requests)
def test_no_cheaper_number_of_nodes_that_meets_the_target_is_passed_over(request):
    answer, prices = ask(request), list(by_brute_force(request))
    if answer.chosen is None:
        assert not prices
        return
    chosen = answer.chosen
    assert chosen.spec.total_usd_per_hour <= min(prices, default=float("inf")) * (1 + 1e-12)
    assert chosen.prediction.lower >= request.target_throughput
    assert 1 <= chosen.spec.count <= request.max_nodes


@settings(max_examples=8)
@given(requests)
def test_nodes_are_taken_only_where_their_network_is_known_and_never_scale_beyond_their_number(request):
    answer = ask(request)
    for candidate in answer.ranked:
        if candidate.spec.count > 1:
            assert candidate.spec.offer.instance.network is not None
            assert 0 < candidate.prediction.node_efficiency <= 1
            assert candidate.spec.total_usd_per_hour == pytest.approx(
                candidate.spec.count * candidate.spec.usd_per_hour_each
            )


def test_more_nodes_to_choose_from_are_never_dearer():
    request = training(target_throughput=2500, gpus=("T4", "A10G"), max_nodes=1)
    chosen = [ask(replace(request, max_nodes=most)).chosen for most in (1, 2, 4, 8)]
    prices = [candidate.spec.total_usd_per_hour for candidate in chosen if candidate is not None]
    assert len(prices) >= 3
    assert prices == sorted(prices, reverse=True)


def test_no_more_nodes_are_taken_than_the_quota_lets_start():
    request = training(target_throughput=2500, gpus=("A10G",), max_nodes=8)
    most = 100.0
    free, held = ask(request), ask(replace(request, vcpu_quota=(("L-DB2E81BA", most),)))
    needed = [candidate.spec.count * candidate.spec.offer.instance.vcpus for candidate in free.ranked]
    assert max(needed) > most
    assert all(
        candidate.spec.count * candidate.spec.offer.instance.vcpus <= most for candidate in held.ranked
    )


def test_a_run_takes_as_much_less_time_as_the_nodes_are_faster():
    request = training(epochs=10, gpus=("A10G",), max_nodes=4, pareto=True)
    front = ask(request).pareto
    assert {candidate.spec.count for candidate in front} > {1}
    for candidate in front:
        passed = candidate.run.samples / (candidate.run.hours.median * 3600)
        assert 0.5 * candidate.prediction.median < passed <= candidate.prediction.median * (1 + 1e-9)


def test_as_many_nodes_as_are_asked_for_are_tried():
    """A user who owns nine is not left with eight."""
    request = training(target_throughput=2500, gpus=("A10G",), max_nodes=9, max_usd_per_hour=15.0)
    assert ask(replace(request, max_nodes=8)).chosen is None
    assert ask(request).chosen.spec.count == 9


@pytest.mark.slow
def test_a_training_that_is_too_much_for_one_node_is_offered_several():
    request = training(target_throughput=60_000)
    ways = relaxations(NetworkTask(Preparations(CATALOG, MODEL)), ask(request))
    (several,) = [way for way in ways if way.changes[0].constraint == "max_nodes"]
    assert several.gives.spec.count == int(several.changes[0].after)
    assert ask(replace(request, max_nodes=several.gives.spec.count)).chosen is not None


@pytest.mark.parametrize(("gpu", "takes"), [("A100", True), ("A10G", False)])
def test_a_rate_that_one_network_card_does_not_reach_names_efa(gpu, takes):
    request = training(network="vgg16", target_throughput=9_000, gpus=(gpu,), max_nodes=16)
    answer = ask(request)
    assert answer.chosen.spec.count > 1
    assert any("EFA" in str(message) for message in answer.assumptions) is takes
