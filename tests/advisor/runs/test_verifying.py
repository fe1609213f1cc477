"""What was verified on a real GPU is known when the next thing to take is told."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import ON_ANY_GPU, Accelerator, Task, Workload
from advisor.models.performance import load_model
from advisor.runs.verification.verify import answers_around, knowing
from tests.builders import network_question
from tests.sweeps.builders import measurement, trial

CATALOG, MODEL = load_catalog(), load_model()
ASKED = network_question(
    network="resnet50", task=Task.TRAINING, target_throughput=150.0, batch_size=32, region=None
)
WORKLOAD = Workload(network="resnet50", task=Task.TRAINING, batch_size=32)


def fresh(gpu="T4", cuda="Tesla T4", factor=1.5, **changes):
    """A trial whose GPU alone is so many times as slow as predicted."""
    seconds = factor * MODEL.published_step_seconds(WORKLOAD, CATALOG.gpus[gpu])
    planned = replace(trial(), workload=WORKLOAD, accelerator=ON_ANY_GPU, emulated_step_seconds=None, plan={})
    row = measurement(
        trial=planned,
        step_seconds=(2 * seconds,) * 20,
        stage_rates={"accelerator": 32 / seconds},
        environment={"gpu": cuda, "versions": {"torch": "2.13.0"}},
    )
    return replace(row, **changes)


def on(model, gpu):
    return model.predict_gpu([WORKLOAD], CATALOG.gpus[gpu])[0].median


def test_all_candidates_move_by_what_one_trial_told():
    """The network is slower than thought on the card that was tried, and on others, less so."""
    known = knowing(MODEL, CATALOG, fresh())
    assert 1.3 < on(MODEL, "T4") / on(known, "T4") < 1.5
    assert 1.02 < on(MODEL, "A10G") / on(known, "A10G") < 1.5
    assert 1.02 < on(MODEL, "L4") / on(known, "L4") < 1.5


def test_what_is_recommended_after_a_slow_step_is_not_what_was_before():
    before, after = answers_around(ASKED, CATALOG, MODEL, fresh(factor=4.0), date(2026, 7, 21))
    assert before.chosen is not None
    assert after.chosen is not None
    assert after.chosen.spec.total_usd_per_hour > before.chosen.spec.total_usd_per_hour


def test_an_emulated_gpu_tells_nothing_of_gpus():
    emulated = replace(fresh().trial, accelerator=Accelerator.parse("emulated:T4"), emulated_step_seconds=0.1)
    row = replace(fresh(), trial=emulated)
    assert knowing(MODEL, CATALOG, row) is MODEL
    before, after = answers_around(ASKED, CATALOG, MODEL, row, date(2026, 7, 21))
    assert before is after


@pytest.mark.parametrize(
    "changes", [{"stage_rates": {}}, {"environment": {"gpu": "GPU X", "versions": {"torch": "2"}}}]
)
def test_what_tells_no_step_changes_nothing(changes):
    assert knowing(MODEL, CATALOG, fresh(**changes)) is MODEL
