"""CPU-only instances compete with those that have a GPU, and the bound passes over no winner."""

from datetime import date
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, Rejection, check, load_catalog, resources_of
from advisor.domain import IMAGENET, CacheState, Precision, Task
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import disks_for, workloads_of
from advisor.engine.single import predict_instance
from advisor.errors import UsageError
from advisor.models.performance import load_model
from tests.builders import network_question

from .plain_model import PlainModel

TODAY = date(2026, 7, 21)
CATALOG = load_catalog()
MODEL = PlainModel(cpu_rate=30.0)
REQUEST = network_question(network="resnet50", task=Task.INFERENCE)
SMALL = replace(IMAGENET, name="small", samples=50_000)

requests = st.builds(
    network_question,
    network=st.just("resnet50"),
    task=st.sampled_from([Task.TRAINING, Task.INFERENCE]),
    target_throughput=st.floats(min_value=1, max_value=2_000),
    region=st.sampled_from(["us-east-1", "eu-west-1"]),
    batch_size=st.one_of(st.none(), st.integers(1, 64)),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(min_value=0.05, max_value=5)),
)


def ask(request, model=MODEL):
    return recommend(request, Preparations(CATALOG, model), today=TODAY)


@cache
def offers(region):
    return CATALOG.offers(OfferQuery(cloud="aws", region=region, market=REQUEST.market))


def reaches_it(request, workload, has, model):
    """Later epochs at the target, the first one from the disk in at most twice their time."""
    (steady,) = model.predict([(workload, has)], confidence=0.9)
    if steady.lower < request.target_throughput or request.task is not Task.TRAINING:
        return steady.lower >= request.target_throughput
    (first,) = model.predict([(workload, has)], confidence=0.9, cache=CacheState.COLD)
    return 2 * first.lower >= request.target_throughput


def cheapest_by_brute_force(request):
    """The least total price of every type, disk and batch that reaches the target; None: none."""
    model, best = MODEL, None
    for offer in offers(request.region):
        instance, gpu = offer.instance, CATALOG.gpu_of(offer.instance)
        accelerated = instance.gpu_count > 0 or instance.accelerator is not None
        if isinstance(check(instance, gpu, needs_gpu=accelerated), Rejection):
            continue
        if instance.memory_mib < 4096 or (best is not None and offer.price.usd_per_hour >= best):
            continue
        for disk in disks_for(request, CATALOG, instance):
            total = offer.price.usd_per_hour + disk.usd_per_hour
            if total > (request.max_usd_per_hour or total) or (best is not None and total >= best):
                continue
            has = resources_of(CATALOG, offer, disk)
            asked = [
                (workload, has)
                for workload in workloads_of(request)
                if gpu is None or model.gpu_memory_mib(workload) <= gpu.memory_mib
            ]
            if any(reaches_it(request, one, has, model) for one, has in asked):
                best = total
    return best


@given(requests)
def test_no_cheaper_instance_with_or_without_a_gpu_is_passed_over(request):
    chosen, best = ask(request).chosen, cheapest_by_brute_force(request)
    if chosen is None:
        assert best is None
    else:
        assert chosen.prediction.lower >= request.target_throughput
        assert best is None or chosen.spec.total_usd_per_hour <= best + 1e-12


@given(requests)
def test_keeping_cpus_out_never_makes_it_cheaper(request):
    free, limited = ask(request).chosen, ask(replace(request, accelerated_only=True)).chosen
    if limited is not None:
        assert free is not None
        assert free.spec.total_usd_per_hour <= limited.spec.total_usd_per_hour
        assert limited.spec.offer.instance.gpu_name is not None


@pytest.mark.slow
@settings(max_examples=4)
@given(requests)
def test_with_room_for_all_every_type_is_ranked_or_rejected_and_never_both(request):
    answer = ask(replace(request, max_results=3000))
    ranked = [one.spec.offer.instance.name for one in answer.ranked]
    rejected = [one.instance_type for one in answer.rejected]
    assert len(set(ranked + rejected)) == len(ranked) + len(rejected)
    assert {one.instance.name for one in offers(request.region)} <= set(ranked + rejected)
    assert all(one.detail for one in answer.rejected)


@pytest.mark.slow
@settings(max_examples=15)
@given(requests, st.booleans())
def test_fewer_results_begin_like_more(request, by_sample):
    request = replace(request, target_throughput=None) if by_sample else request
    few, many = ask(replace(request, max_results=3)), ask(replace(request, max_results=40))
    costs = [[one.spec.total_usd_per_hour for one in answer.ranked] for answer in (few, many)]
    names = [[one.spec.offer.instance.name for one in answer.ranked] for answer in (few, many)]
    assert names[0] == names[1][:3]
    assert costs[0] == pytest.approx(costs[1][:3])


@pytest.mark.parametrize(
    "limit",
    [
        {"gpus": ("T4",)},
        {"min_gpu_memory_mib": 8000.0},
        {"accelerated_only": True},
        {"precision": Precision.AMP},
    ],
)
def test_what_asks_for_a_gpu_keeps_cpus_out(limit):
    answer = ask(replace(REQUEST, target_throughput=2.0, **limit))
    assert all(one.spec.offer.instance.gpu_name for one in answer.ranked)
    assert ask(replace(REQUEST, target_throughput=2.0)).chosen.spec.offer.instance.gpu_name is None


def test_an_answer_in_another_format_says_that_cpus_were_left_out():
    said = [str(one) for one in ask(replace(REQUEST, precision=Precision.AMP)).assumptions]
    assert any("fp32 alone" in one for one in said)


def test_the_bundled_model_answers_a_low_target_with_a_cpu_and_says_that_it_is_modelled():
    answer = ask(replace(REQUEST, target_throughput=10.0), load_model())
    assert answer.chosen.spec.offer.instance.gpu_name is None
    assert answer.chosen.prediction.provenance == "modelled"
    assert not answer.chosen.spec.offer.instance.burstable
    rejected = {one.instance_type: one.reason for one in answer.rejected}
    assert rejected["c7i.large"] == "too_slow"


def test_no_prediction_lies_above_the_bound_that_prunes():
    import numpy as np

    model = load_model()
    request = replace(REQUEST, task=Task.TRAINING)
    types = CATALOG.cpu_only(OfferQuery(cloud="aws", region="us-east-1", market=REQUEST.market))
    some = types[::97]
    most = model.most_on_cpu(
        workloads_of(request),
        np.array([one.cores for one in some]),
        np.array([one.mark for one in some]),
        [one.cpu_model for one in some],
    )
    for one, bound in zip(some, most, strict=True):
        (offer,) = CATALOG.offers(
            OfferQuery(region="us-east-1", market=REQUEST.market, instances=(one.name,))
        )
        assert offer.price.usd_per_hour == one.usd_per_hour
        has = resources_of(CATALOG, offer, disks_for(request, CATALOG, offer.instance)[0])
        found = model.predict([(w, has) for w in workloads_of(request)])
        assert max(one.median for one in found) <= bound * (1 + 1e-9)


def test_a_format_nobody_measured_on_a_cpu_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match="--precision fp32"):
        predict_instance(replace(REQUEST, precision=Precision.BF16), CATALOG, load_model(), "c7i.2xlarge")


class Unbounded(PlainModel):
    """A model of which nothing tells how fast a CPU is at most."""

    def most_on_cpu(self, workloads, cores, marks, cpus):
        return np.full(len(cores), np.inf)


def test_a_model_that_bounds_no_cpu_is_asked_about_each():
    request = network_question(network="googlenet", task=Task.INFERENCE, target_throughput=900.0)
    answer = recommend(request, Preparations(CATALOG, Unbounded()), today=TODAY)
    assert answer.chosen == recommend(request, Preparations(CATALOG, PlainModel()), today=TODAY).chosen
