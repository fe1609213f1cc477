"""Constraints that the oracle's worlds do not show, and what is said where nothing even runs."""

from datetime import date

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.catalog import OfferQuery, resources_of
from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain import Precision, Task
from advisor.engine.assumptions import warnings
from advisor.engine.candidates import batches_of, disks_for, plain_workload
from advisor.engine.no_offer import no_offer
from advisor.engine.single import predict_instance
from advisor.errors import NoIntervalError, UsageError
from advisor.models.performance import load_model
from tests.builders import candidate, network_question, recommendation, rejected

from .asking import CATALOG, answered, question
from .plain_model import PlainModel


def test_a_quota_rejects_only_what_it_does_not_hold():
    quotas = {"L-DB2E81BA": 8.0, "L-417A185B": 0.0}
    answer = answered(question(vcpu_quota=tuple(quotas.items())))
    details = [
        (rejection.instance_type, str(rejection.detail).split())
        for rejection in answer.rejected
        if rejection.reason == "quota"
    ]
    assert {words[5] for _, words in details} == set(quotas)
    for name, words in details:
        assert int(words[1]) == CATALOG.instance(name).vcpus > float(words[-1]) == quotas[words[5]]


def test_a_disk_type_that_no_instance_has_says_so():
    answer = answered(question(disk_types=("instance_store",)))
    (bare,) = [rejection for rejection in answer.rejected if rejection.instance_type == "g4dn.xlarge"]
    assert bare.reason == "no_disk"  # 116 GiB are too few
    assert str(bare.detail) == "no local disk of known rate and price holds the data set"
    assert all(candidate.spec.disk.rate.type == "instance_store" for candidate in answer.ranked)


def test_a_guess_is_refused_unless_it_is_allowed():
    guessing, limits = PlainModel(calibrated=False), {"target_throughput": 100, "accelerated_only": True}
    with pytest.raises(NoIntervalError, match="--allow-extrapolation"):
        answered(question(**limits), guessing)
    assert answered(question(**limits, allow_extrapolation=True), guessing).chosen is not None


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


def test_a_local_disk_does_not_care_for_limits_to_network_disks():
    network = candidate(notes=(UNLIMITED_NOTE,))
    disk = replace(network.spec.disk, price=None)
    local = replace(network, spec=replace(network.spec, disk=disk))
    assert UNLIMITED_NOTE in warnings(network, date(2026, 7, 20))
    assert UNLIMITED_NOTE not in warnings(local, date(2026, 7, 20))


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
