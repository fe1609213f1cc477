"""Constraints that the oracle's worlds do not show, and what is said where nothing even runs."""

from datetime import date

import numpy as np
from msgspec.structs import replace

from advisor.catalog import OfferQuery, resources_of
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import Task
from advisor.engine.assumptions import warnings
from advisor.engine.candidates import batches_of, disks_for, plain_workload
from advisor.engine.no_offer import no_offer
from advisor.models.performance import load_model
from tests.builders import candidate, network_question, recommendation, rejected

from .asking import CATALOG, answered, question
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
