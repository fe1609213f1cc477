"""Without a target an instance is ranked at the batch at which its samples cost least."""

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import Task
from advisor.engine import Preparations, recommend
from advisor.models.performance import load_model
from tests.builders import network_question

CATALOG, MODEL = load_catalog(), load_model()
TODAY = date(2026, 7, 21)


@pytest.mark.parametrize("epochs", [None, 90.0])
def test_a_batch_that_is_asked_for_is_never_cheaper_than_the_advisors_own(epochs):
    free = network_question(network="resnet50", task=Task.TRAINING, epochs=epochs, gpus=("L4", "A10G"))
    best = recommend(free, Preparations(CATALOG, MODEL), today=TODAY).chosen
    for size in (32, 64, 128, 256):
        other = recommend(replace(free, batch_size=size), Preparations(CATALOG, MODEL), today=TODAY).chosen
        if other is not None:
            assert best.usd_per_million_samples <= other.usd_per_million_samples * (1 + 1e-9)


def test_a_tighter_budget_is_never_a_cheaper_run():
    request = network_question(network="resnet50", task=Task.TRAINING, epochs=90.0)
    free = recommend(request, Preparations(CATALOG, MODEL), today=TODAY).chosen
    limit = 1.02 * free.usd_per_run.upper
    tight = recommend(replace(request, max_run_usd=limit), Preparations(CATALOG, MODEL), today=TODAY).chosen
    assert tight.usd_per_run.median >= free.usd_per_run.median * (1 - 1e-9)
