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

from .asking import CATALOG, SMALL, answered, hourly, names, question
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
@settings(max_examples=15)
@given(requests)
def test_fewer_results_begin_like_more(request):
    few, many = ask(replace(request, max_results=3)), ask(replace(request, max_results=40))
    costs = [hourly(answer.ranked) for answer in (few, many)]
    names = [names(answer.ranked) for answer in (few, many)]
    assert names[0] == names[1][:3]
    assert costs[0] == pytest.approx(costs[1][:3])


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
