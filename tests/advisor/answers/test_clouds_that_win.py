"""Questions that clouds other than AWS truly win: cheaper, for what is asked, than all others.

The answers stand on prices of 2026; docs/reference/catalog.md shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cache

import pytest

from advisor.catalog import load_catalog
from advisor.domain import IMAGENET, Candidate, Market, Precision, Protocol, Range, Task
from advisor.engine import Preparations, recommend
from advisor.errors import AdvisorError
from advisor.models.performance import load_model
from tests.builders import network_question

TODAY = date(2026, 11, 27)
ASKED = {"network": "resnet50", "dataset": IMAGENET, "market": Market.ON_DEMAND, "region": None}
TRAINING, INFERENCE = {"task": Task.TRAINING}, {"task": Task.INFERENCE}
SPOT = {"market": Market.SPOT}
# The cloud, and what is asked of all clouds.
WON = [
    ("lambda", TRAINING | {"region": "us-east-1", "target_throughput": 900.0}),
    ("runpod", TRAINING | {"target_throughput": 300.0}),
    ("civo", TRAINING | {"target_throughput": 1300.0}),
    ("verda", TRAINING | {"target_throughput": 600.0, "price_kinds": ("list",)}),
    ("oci", TRAINING | {"target_throughput": 3000.0, "memory_mib": Range(2000 * 1024)}),
    ("azure", INFERENCE | {"target_throughput": 3000.0, "gpus": ("H100",)}),
    ("azure", INFERENCE | {"target_throughput": 3000.0, "gpus": ("A100",)}),
    ("azure", INFERENCE | SPOT | {"target_throughput": 300.0}),
    ("azure", {"task": Task.PREPROCESSING, "target_throughput": 500.0}),
    (
        "azure",
        TRAINING
        | SPOT
        | {"target_throughput": 1000.0, "precision": Precision.AMP, "protocol": Protocol.BENCH},
    ),
]


@cache
def preparations() -> Preparations:
    """What ships, read once."""
    return Preparations(load_catalog(), load_model())


def answers_of_others(cloud: str, question) -> Iterator[Candidate]:
    """What each other cloud answers alone, where it answers."""
    for other in preparations().catalog.clouds:
        try:
            answer = recommend(network_question(**question, cloud=other), preparations(), today=TODAY)
        except AdvisorError:  # it has no such region
            continue
        if other != cloud and answer.chosen is not None:
            yield answer.chosen


@pytest.mark.slow
@pytest.mark.parametrize(("cloud", "changes"), WON)
def test_a_cloud_wins_where_it_is_cheapest_and_says_what_is_assumed(cloud, changes):
    """Chosen among all clouds with a disk, and cheaper than what each other one answers alone."""
    changes = ASKED | changes
    request = network_question(**changes, cloud="any")
    answer = recommend(request, preparations(), today=TODAY)
    chosen = answer.chosen
    assert chosen.spec.offer.instance.cloud == cloud
    for theirs in answers_of_others(cloud, changes):
        assert theirs.spec.total_usd_per_hour > chosen.spec.total_usd_per_hour
    assert chosen.prediction.lower >= request.target_throughput
    if cloud == "azure":
        assert chosen.spec.disk.choice.type in ("premium-ssd-v2", "instance_store")
    else:
        assert any("not known, assumed" in str(message) for message in answer.assumptions)


def test_where_nothing_answers_the_nearest_tells_what_its_price_and_disk_rest_on():
    """An old price and an assumed disk are no surer for having missed the target."""
    request = network_question(
        **ASKED, task=Task.INFERENCE, cloud="lambda", target_throughput=800.0, precision=Precision.AMP
    )
    answer = recommend(request, preparations(), today=date(2026, 11, 27))
    assert answer.chosen is None
    assert answer.nearest is not None
    assert any("not known, assumed" in str(message) for message in answer.assumptions)
    assert any("price is 97 days old" in str(message) for message in answer.warnings)
