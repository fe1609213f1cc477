"""Hours and dollars of a run, and the latency, follow from the rates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import resources_of
from advisor.catalog.load import WhatIfCatalog, with_host
from advisor.domain import CacheState, DiskChoice, Stage, Task, Workload
from advisor.domain.results import P99_OVER_P50
from advisor.engine.single import predict_instance
from advisor.engine.table import batch_latency
from advisor.models.performance import load_model
from tests import builders

from .asking import CATALOG, SMALL, question
from .plain_model import PlainModel

MODEL = load_model()


def run_on(vcpus=8, gib=500.0, memory_mib=32768, task=Task.TRAINING, **length):
    """The real model's prediction of a run on a g4dn.2xlarge with such a host and an st1 disk, and that of
    its first pass over the data."""
    catalog = WhatIfCatalog(CATALOG, with_host(CATALOG.instance("g4dn.2xlarge"), vcpus, memory_mib))
    disk = DiskChoice(type="st1", size_gib=gib)
    request = question(task=task, dataset=SMALL, network="resnet50", batch_size=32, disk=disk, **length)
    usual = predict_instance(request, catalog, MODEL, "g4dn.2xlarge")
    has = resources_of(catalog, usual.instance, usual.disk)
    (cold,) = MODEL.predict([(usual.workload, has)], cache=CacheState.COLD)
    return usual.run, usual.prediction, cold


@settings(max_examples=20)
@given(st.integers(1, 32), st.floats(125, 16000), st.integers(1, 10**9))
def test_time_times_rate_gives_the_samples_at_each_bound(vcpus, gib, samples):
    """The longest time goes with the lowest rate; what is read once has one rate alone."""
    time, usual, _ = run_on(vcpus, gib, task=Task.INFERENCE, samples=samples, start_minutes=0.0)
    assert time.first_epoch is None
    for hours, rate in zip(("lower", "median", "upper"), ("upper", "median", "lower"), strict=True):
        assert getattr(time.hours, hours) * 3600 * getattr(usual, rate) == pytest.approx(samples)


@settings(max_examples=20)
@given(st.floats(125, 16000), st.floats(0.1, 100))
def test_only_the_first_epoch_of_a_training_waits_for_the_disk(gib, epochs):
    time, warm, cold = run_on(16, gib, epochs=epochs, start_minutes=0.0)
    first = min(epochs, 1) * SMALL.samples
    later = epochs * SMALL.samples - first
    likely = first / cold.median + later / warm.median
    assert time.hours.median * 3600 == pytest.approx(likely)
    assert time.first_epoch.median * 3600 == pytest.approx(first / cold.median)
    assert cold.median <= warm.median * (1 + 1e-9)
    assert time.hours.lower <= time.hours.median <= time.hours.upper


def prediction(lower=50.0):
    rates = {Stage.ACCELERATOR: 100.0, Stage.HOST: 200.0, Stage.STORAGE: 1.0}
    return builders.prediction(lower, 100.0, 200.0, stage_rates=rates, bottleneck=Stage.ACCELERATOR)


WORKLOAD = Workload(network="n", task=Task.INFERENCE, batch_size=1)


def test_stages_follow_each_other_and_a_small_batch_waits_for_one_core():
    latency = batch_latency(WORKLOAD, 4, prediction())
    assert latency.p50_seconds == pytest.approx(1 / 100 + 4 / 200)
    assert latency.p99_seconds == pytest.approx(2 * P99_OVER_P50 * latency.p50_seconds)
    assert batch_latency(WORKLOAD, 4, prediction(lower=0.0)).p99_seconds == float("inf")
    assert batch_latency(replace(WORKLOAD, task=Task.TRAINING), 4, prediction()) is None


def test_one_instance_tells_every_batch_and_where_its_throughput_saturates():
    answer = predict_instance(question(), CATALOG, PlainModel(), "g5.xlarge")
    sizes = [point.batch_size for point in answer.by_batch]
    assert sizes[:5] == [1, 2, 4, 8, 16]
    best = max(point.prediction.lower for point in answer.by_batch)
    for point in answer.by_batch:
        enough = point.prediction.lower >= 0.95 * best
        assert enough == (point.batch_size >= answer.good_batch_size)


def test_a_slow_disk_does_not_shorten_the_latency():
    slow, fast = (
        predict_instance(question(disk=disk), CATALOG, PlainModel(), "g5.xlarge").by_batch
        for disk in (DiskChoice(type="st1", size_gib=500.0), DiskChoice(type="gp3"))
    )
    assert [point.latency for point in slow] == [point.latency for point in fast]
