"""Several identical instances: as few as will do, each of them as it is alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from advisor.catalog.support import quota_code
from advisor.domain import Market, Task
from advisor.engine.assumptions import warnings
from advisor.engine.no_offer import no_offer
from advisor.engine.relax import relaxations, relaxed
from advisor.engine.single import predict_instance
from tests.builders import candidate

from .asking import CATALOG, TODAY, question, task
from .asking import answered as ask
from .plain_model import PlainModel


def test_gpus_that_may_not_be_used_stay_idle_and_only_then_a_warning_says_so():
    predictions = [
        predict_instance(request, CATALOG, PlainModel(), "g4dn.12xlarge").prediction
        for request in (question(), question(max_gpus=1), question(max_gpus=9))
    ]
    assert [prediction.gpus_used for prediction in predictions] == [4, 1, 4]
    plain = candidate()
    offer = replace(plain.spec.offer, instance=CATALOG.instance("g4dn.12xlarge"))
    spec = replace(plain.spec, offer=offer)

    def idle(candidate):
        return [
            str(said)
            for said in warnings(replace(plain, spec=spec, prediction=candidate), TODAY)
            if "stay idle" in str(said)
        ]

    assert idle(predictions[0]) == []
    assert idle(predictions[1]) == ["3 of its 4 GPUs stay idle: no more than 1 may be used"]


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
