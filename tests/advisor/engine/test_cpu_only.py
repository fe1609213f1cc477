"""CPU-only instances compete with those that have a GPU, and the bound passes over no winner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, resources_of
from advisor.domain import IMAGENET, Precision, Task
from advisor.engine.candidates import disks_for, workloads_of
from advisor.engine.single import predict_instance
from advisor.errors import UsageError
from advisor.models.performance import load_model
from tests.builders import network_question

from .asking import CATALOG, SMALL, answered, question
from .plain_model import PlainModel

MODEL = PlainModel(cpu_rate=30.0)
REQUEST = network_question(network="resnet50", task=Task.INFERENCE)

requests = st.builds(
    network_question,
    network=st.just("resnet50"),
    task=st.sampled_from([Task.TRAINING, Task.INFERENCE]),
    target_throughput=st.none() | st.floats(min_value=1, max_value=2_000),
    region=st.sampled_from(["us-east-1", "eu-west-1"]),
    batch_size=st.one_of(st.none(), st.integers(1, 64)),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(min_value=0.05, max_value=5)),
)


def ask(request, model=MODEL):
    return answered(request, model)


@pytest.mark.slow
@settings(max_examples=4)
@given(requests)
def test_with_room_for_all_every_type_is_ranked_or_rejected_and_never_both(request):
    answer = ask(replace(request, max_results=3000))
    named = [candidate.spec.offer.instance.name for candidate in answer.ranked]
    named += [rejection.instance_type for rejection in answer.rejected]
    offers = CATALOG.offers(OfferQuery(cloud="aws", region=request.region, market=request.market))
    assert len(set(named)) == len(named)
    assert {offer.instance.name for offer in offers} <= set(named)


@pytest.mark.slow
@settings(max_examples=15)
@given(requests)
def test_fewer_results_begin_like_more(request):
    few, many = ask(replace(request, max_results=3)), ask(replace(request, max_results=40))
    costs = [[candidate.spec.total_usd_per_hour for candidate in answer.ranked] for answer in (few, many)]
    names = [[candidate.spec.offer.instance.name for candidate in answer.ranked] for answer in (few, many)]
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
    assert all(candidate.spec.offer.instance.gpu_name for candidate in answer.ranked)
    assert ask(replace(REQUEST, target_throughput=2.0)).chosen.spec.offer.instance.gpu_name is None


def test_an_answer_in_another_format_says_that_cpus_were_left_out():
    said = [str(message) for message in ask(replace(REQUEST, precision=Precision.AMP)).assumptions]
    assert any("fp32 alone" in message for message in said)


def test_the_bundled_model_answers_a_low_target_with_a_cpu_and_says_that_it_is_modelled():
    answer = ask(replace(REQUEST, target_throughput=10.0), load_model())
    assert answer.chosen.spec.offer.instance.gpu_name is None
    assert answer.chosen.prediction.provenance == "modelled"
    assert not answer.chosen.spec.offer.instance.burstable
    rejected = {rejection.instance_type: rejection.reason for rejection in answer.rejected}
    assert rejected["c7i.large"] == "too_slow"


def test_no_prediction_lies_above_the_bound_that_prunes():
    model = load_model()
    request = replace(REQUEST, task=Task.TRAINING)
    types = CATALOG.cpu_only(OfferQuery(cloud="aws", region="us-east-1", market=REQUEST.market))
    some = types[::97]
    most = model.most_on_cpu(
        workloads_of(request),
        np.array([cpu.cores for cpu in some]),
        np.array([cpu.mark for cpu in some]),
        [cpu.cpu_model for cpu in some],
    )
    for cpu, bound in zip(some, most, strict=True):
        (offer,) = CATALOG.offers(
            OfferQuery(region="us-east-1", market=REQUEST.market, instances=(cpu.name,))
        )
        assert offer.price.usd_per_hour == cpu.usd_per_hour
        has = resources_of(CATALOG, offer, disks_for(request, CATALOG, offer.instance)[0])
        predictions = model.predict([(w, has) for w in workloads_of(request)])
        assert max(prediction.median for prediction in predictions) <= bound * (1 + 1e-9)


def test_a_format_nobody_measured_on_a_cpu_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match="--precision fp32"):
        predict_instance(replace(REQUEST, precision=Precision.BF16), CATALOG, load_model(), "c7i.2xlarge")


class Unbounded(PlainModel):
    """A model of which nothing tells how fast a CPU is at most."""

    def most_on_cpu(self, workloads, cores, marks, cpus):
        return np.full(len(cores), np.inf)


def test_a_model_that_bounds_no_cpu_is_asked_about_each():
    request = question(target_throughput=900.0)
    assert answered(request, Unbounded()).chosen == answered(request).chosen
