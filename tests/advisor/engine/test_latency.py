"""A latency that is asked for is kept by what is recommended, and told where nothing keeps it."""

import pytest
from msgspec.structs import replace

from advisor.domain import DiskChoice, Stage, Task, Workload
from advisor.engine.probability import P99_OVER_P50, batch_latency
from advisor.engine.single import predict_instance
from tests import builders

from .asking import CATALOG, answered, question, reasons
from .plain_model import PlainModel


def ask(**changes):
    return answered(question(accelerated_only=True, **changes))


def prediction(lower=50.0):
    rates = {Stage.ACCELERATOR: 100.0, Stage.HOST: 200.0, Stage.STORAGE: 1.0}
    return builders.prediction(lower, 100.0, 200.0, stage_rates=rates, bottleneck=Stage.ACCELERATOR)


WORKLOAD = Workload(network="n", task=Task.INFERENCE, batch_size=1)


def test_stages_follow_each_other_and_a_small_batch_waits_for_one_core():
    """Without a lower bound nothing is sure, and nobody waits for a training step."""
    latency = batch_latency(WORKLOAD, 4, prediction())
    assert latency.p50_seconds == pytest.approx(1 / 100 + 4 / 200)
    assert latency.p99_seconds == pytest.approx(2 * P99_OVER_P50 * latency.p50_seconds)
    assert batch_latency(WORKLOAD, 4, prediction(lower=0.0)).p99_seconds == float("inf")
    assert batch_latency(replace(WORKLOAD, task=Task.TRAINING), 4, prediction()) is None


def test_a_short_latency_makes_the_batch_small():
    free, tight = ask(target_throughput=100), ask(target_throughput=100, max_latency_ms=60)
    assert tight.chosen.workload.batch_size < free.chosen.workload.batch_size
    late = ask(max_latency_ms=60, batch_size=256)
    assert late.chosen is None
    assert "latency" in set(reasons(late).values())


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
