"""Hours and dollars of a run, and the latency, follow from the rates."""

import pytest
from msgspec.structs import replace

from advisor.domain import Stage, Task, Workload
from advisor.domain.results import P99_OVER_P50
from advisor.engine.table import batch_latency
from advisor.models.performance import load_model
from tests import builders

MODEL = load_model()


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
