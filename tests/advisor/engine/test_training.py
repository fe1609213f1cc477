"""Training: the first epoch reads the disk and counts in every answer; the batch is the one at which
samples cost least."""

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice, Precision, Task
from advisor.engine import Preparations, answers, recommend
from advisor.engine.no_offer import no_offer
from advisor.engine.single import predict_instance
from advisor.models.performance import load_model
from tests.builders import network_question

TODAY = date(2026, 7, 21)
CATALOG, MODEL = load_catalog(), load_model()
QUESTION = network_question(
    network="resnet50", task=Task.TRAINING, precision=Precision.AMP, target_throughput=3000.0
)
PREPARED = Preparations(CATALOG, MODEL)


def ask(**changes):
    request = replace(QUESTION, **changes)
    return recommend(request, PREPARED, today=TODAY)


def hours(rate):
    return QUESTION.dataset.samples / rate / 3600


@pytest.mark.parametrize("target", [QUESTION.target_throughput, None])
def test_the_first_epoch_takes_at_most_twice_as_long_as_one_at_the_target_or_as_a_later_one(target):
    """Once 158 GiB of sc1 were bought: 20 hours at $10.50."""
    answer = ask(target_throughput=target)
    for candidate in answer.ranked:
        assert candidate.first_epoch.upper <= 2 * hours(target or candidate.prediction.lower) * (1 + 1e-9)
    assert answer.chosen.spec.disk.rate.read_mib_per_second > 10
    assert "first epoch" in " ".join(map(str, answer.assumptions))


def test_another_limit_buys_another_disk():
    patient, hurried = (ask(max_first_epoch_hours=limit, disk_types=("gp3", "sc1")) for limit in (30.0, 0.2))
    assert patient.chosen.first_epoch.upper <= 30.0
    assert hurried.chosen.first_epoch.upper <= 0.2
    assert patient.chosen.spec.disk.usd_per_hour < hurried.chosen.spec.disk.usd_per_hour


def test_what_reads_its_disk_too_slowly_says_so_and_how_long_it_takes():
    answer = ask(disk=DiskChoice(type="sc1", size_gib=158.0))
    assert answer.chosen is None
    assert "slow_first_epoch" in answer.rejected_by_reason
    assert "--max-first-epoch-hours to" in str(no_offer(answer))
    (rejection, *_) = [rejection for rejection in answer.rejected if rejection.reason == "slow_first_epoch"]
    assert "first epoch" in str(rejection.detail)


def test_a_run_counts_its_first_epoch_by_what_it_costs():
    answer = ask(epochs=3.0)
    assert answer.chosen.run.first_epoch == answer.chosen.first_epoch
    assert answers(answer.request, answer.chosen)


@pytest.mark.parametrize("task", [Task.INFERENCE, Task.PREPROCESSING])
def test_what_reads_its_data_once_has_no_first_epoch(task):
    answer = ask(task=task, target_throughput=100.0, precision=Precision.FP32)
    assert answer.chosen.first_epoch is None


def test_a_named_instance_tells_its_first_epoch_too():
    prediction = predict_instance(QUESTION, CATALOG, MODEL, "g5.xlarge")
    assert prediction.first_epoch.upper > hours(prediction.prediction.lower)
    assert "first epoch" in " ".join(map(str, prediction.assumptions))


@pytest.mark.parametrize("epochs", [None, 90.0])
def test_a_batch_that_is_asked_for_is_never_cheaper_than_the_advisors_own(epochs):
    free = {"target_throughput": None, "precision": Precision.FP32, "epochs": epochs, "gpus": ("L4", "A10G")}
    best = ask(**free).chosen
    for size in (32, 64, 128, 256):
        other = ask(**free, batch_size=size).chosen
        if other is not None:
            assert best.usd_per_million_samples <= other.usd_per_million_samples * (1 + 1e-9)


def test_a_tighter_budget_is_never_a_cheaper_run():
    run = {"target_throughput": None, "precision": Precision.FP32, "epochs": 90.0}
    free = ask(**run).chosen
    tight = ask(**run, max_run_usd=1.02 * free.usd_per_run.upper).chosen
    assert tight.usd_per_run.median >= free.usd_per_run.median * (1 - 1e-9)
