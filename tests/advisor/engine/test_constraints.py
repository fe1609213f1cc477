"""What the oracle's worlds do not show: odd limits, several instances, hours and dollars of a run."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.catalog import OfferQuery, resources_of
from advisor.catalog.support import UNLIMITED_NOTE, quota_code
from advisor.domain import Market, Stage, Task, Workload
from advisor.domain.results import P99_OVER_P50
from advisor.engine.assumptions import warnings
from advisor.engine.candidates import batches_of, disks_for, plain_workload
from advisor.engine.no_offer import no_offer
from advisor.engine.relax import relaxations, relaxed
from advisor.engine.single import predict_instance
from advisor.engine.table import batch_latency
from advisor.models.performance import load_model
from tests import builders
from tests.builders import candidate, network_question, recommendation, rejected

from .asking import CATALOG, TODAY, answered, question, task
from .asking import answered as ask
from .plain_model import PlainModel


def test_where_nothing_runs_the_reasons_are_counted_and_the_way_out_is_named():
    reasons = (rejected(reason="too_slow"), rejected("gn5", reason="no_disk"))
    said = str(no_offer(recommendation(ranked=(), rejected=reasons)))
    assert "none of the 2 types" in said
    assert "1 without a fitting disk, 1 too slow" in said
    assert "advisor catalog import" in said
    answer = recommendation(ranked=(), rejected=(rejected(reason="facts_missing"),))
    said = str(no_offer(answer))
    assert "--explain-rejected says why; --cloud any looks elsewhere" in said
    said = str(no_offer(recommendation(ranked=(), rejected=())))
    assert said.startswith("no type of aws ")


def test_a_local_disk_knows_no_network_limits_and_a_model_without_bounds_is_asked_of_each_cpu():
    network = candidate(notes=(UNLIMITED_NOTE,))
    disk = replace(network.spec.disk, price=None)
    local = replace(network, spec=replace(network.spec, disk=disk))
    assert UNLIMITED_NOTE in warnings(network, date(2026, 7, 20))
    assert UNLIMITED_NOTE not in warnings(local, date(2026, 7, 20))
    request = question(target_throughput=900.0)
    assert answered(request, Unbounded()).chosen == answered(request).chosen


REQUEST = network_question(network="resnet50", task=Task.INFERENCE)


def test_no_prediction_lies_above_the_bound_that_prunes():
    model = load_model()
    request = replace(REQUEST, task=Task.TRAINING)
    types = CATALOG.cpu_only(OfferQuery(cloud="aws", region="us-east-1", market=REQUEST.market))
    some = types[::97]
    most = model.most_on_cpu(
        batches_of(request, plain_workload(request)),
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
        predictions = model.predict([(w, has) for w in batches_of(request, plain_workload(request))])
        assert max(prediction.median for prediction in predictions) <= bound * (1 + 1e-9)


class Unbounded(PlainModel):
    """A model of which nothing tells how fast a CPU is at most."""

    def most_on_cpu(self, workloads, cores, marks, cpus):
        return np.full(len(cores), np.inf)


def test_gpus_that_may_not_be_used_stay_idle_and_only_then_a_warning_says_so():
    predictions = [
        predict_instance(request, CATALOG, PlainModel(), "g4dn.12xlarge").prediction
        for request in (question(), question(max_gpus=1), question(max_gpus=9))
    ]
    assert [prediction.gpus_used for prediction in predictions] == [4, 1, 4]
    plain = candidate()
    offer = replace(plain.spec.offer, instance=CATALOG.instance("g4dn.12xlarge"))
    spec = replace(plain.spec, offer=offer)

    all_used, one = (
        " ".join(map(str, warnings(replace(plain, spec=spec, prediction=each), TODAY)))
        for each in predictions[:2]
    )
    assert "stay idle" not in all_used
    assert "3 of its 4 GPUs stay idle: no more than 1 may be used" in one


@pytest.mark.slow
def test_where_nothing_is_fast_enough_the_number_that_would_be_is_told_and_works():
    request = question(target_throughput=1e5)
    message = str(no_offer(relaxed(task(), ask(request))))
    count = int(message.split("--max-count to ")[1].split()[0])
    assert ask(replace(request, max_count=count)).chosen is not None
    training = ask(replace(request, task=Task.TRAINING))
    assert "--max-count" not in str(no_offer(relaxed(task(), training)))


@pytest.mark.parametrize("quota", [(), ((quota_code("g6.xlarge", Market.ON_DEMAND), 400.0),)])
def test_the_target_to_relax_to_is_what_all_instances_together_reach(quota):
    request = question(target_throughput=1e6, max_count=4, vcpu_quota=quota)
    ways = relaxations(task(), ask(request))
    slower = next(way for way in ways if way.changes[0].constraint == "target_throughput")
    target = float(slower.changes[0].after)
    assert ask(replace(request, target_throughput=target)).chosen is not None
    assert ask(replace(request, target_throughput=target * 1.01)).chosen is None


MODEL = load_model()


def test_stages_follow_each_other_and_a_small_batch_waits_for_one_core():
    workload = Workload(network="n", task=Task.INFERENCE, batch_size=1)
    rates = {Stage.ACCELERATOR: 100.0, Stage.HOST: 200.0, Stage.STORAGE: 1.0}
    latency = batch_latency(workload, 4, builders.prediction(50.0, 100.0, 200.0, stage_rates=rates))
    assert latency.p50_seconds == pytest.approx(1 / 100 + 4 / 200)
    assert latency.p99_seconds == pytest.approx(2 * P99_OVER_P50 * latency.p50_seconds)
    never = builders.prediction(0.0, 100.0, 200.0, stage_rates=rates)
    assert batch_latency(workload, 4, never).p99_seconds == float("inf")
    assert batch_latency(replace(workload, task=Task.TRAINING), 4, never) is None
