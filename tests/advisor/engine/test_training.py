"""The cheapest number of nodes against every spec tried one by one, and the first epoch."""

import math
from datetime import date

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import DiskChoice, Precision, Task
from advisor.domain.results import is_measured
from advisor.engine import Preparations, recommend
from advisor.engine.relax import relaxations
from advisor.engine.tasks.network import NetworkTask
from advisor.models.performance import load_model
from tests.builders import network_question

from .asking import CATALOG, SMALL, every_spec

MODEL = load_model()
PREPARED = Preparations(CATALOG, MODEL)
TODAY = date(2026, 7, 21)

requests = st.builds(
    network_question,
    network=st.sampled_from(["resnet50", "googlenet", "vgg16"]),
    task=st.just(Task.TRAINING),
    precision=st.sampled_from([Precision.FP32, Precision.AMP]),
    target_throughput=st.floats(200, 20_000),
    region=st.just("us-east-1"),
    batch_size=st.sampled_from([16, 64]),
    dataset=st.just(SMALL),
    gpus=st.sampled_from([("T4",), ("L4",), ("T4", "A10G")]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(1, 100)),
    max_nodes=st.integers(1, 6),
)


def training(**changes):
    """Of resnet50 in mixed precision."""
    usual = {"network": "resnet50", "task": Task.TRAINING, "precision": Precision.AMP}
    return network_question(**{**usual, **changes})


def decided(request):
    return recommend(request, PREPARED, today=TODAY)


@pytest.mark.slow
@settings(max_examples=12)
@given(requests)
def test_no_cheaper_number_of_nodes_that_meets_the_target_is_passed_over(request):
    answer, target, limit = decided(request), request.target_throughput, request.max_usd_per_hour or math.inf
    prices = [
        usd
        for usd, lower, first in every_spec(request, MODEL)
        if usd <= limit and lower >= target and 2 * first >= target
    ]
    if answer.chosen is None:
        assert not prices
        return
    chosen = answer.chosen
    assert chosen.spec.total_usd_per_hour <= min(prices, default=math.inf) * (1 + 1e-12)
    assert chosen.prediction.lower >= request.target_throughput
    assert 1 <= chosen.spec.count <= request.max_nodes


@settings(max_examples=8)
@given(requests)
def test_nodes_are_taken_only_where_their_network_is_known_and_never_scale_beyond_their_number(request):
    answer = decided(request)
    for candidate in answer.ranked:
        if candidate.spec.count > 1:
            assert candidate.spec.offer.instance.network is not None
            assert 0 < candidate.prediction.node_efficiency <= 1
            assert candidate.spec.total_usd_per_hour == pytest.approx(
                candidate.spec.count * candidate.spec.usd_per_hour_each
            )


def test_no_more_nodes_are_taken_than_the_quota_lets_start():
    request = training(target_throughput=2500, gpus=("A10G",), max_nodes=8)
    most = 100.0
    free, held = decided(request), decided(replace(request, vcpu_quota=(("L-DB2E81BA", most),)))
    needed, kept = (
        max((each.spec.count * each.spec.offer.instance.vcpus for each in answer.ranked), default=0)
        for answer in (free, held)
    )
    assert kept <= most < needed


def test_as_many_nodes_as_are_asked_for_are_tried_and_a_run_is_as_much_shorter_as_they_are_faster():
    request = training(epochs=10, gpus=("A10G",), max_nodes=4, pareto=True)
    front = decided(request).pareto
    assert {candidate.spec.count for candidate in front} > {1}
    for candidate in front:
        passed = candidate.run.samples / (candidate.run.hours.median * 3600)
        assert 0.5 * candidate.prediction.median < passed <= candidate.prediction.median * (1 + 1e-9)
    request = training(target_throughput=1700, gpus=("A10G",), max_nodes=9, max_usd_per_hour=15.0)
    assert decided(replace(request, max_nodes=8)).chosen is None
    assert decided(request).chosen.spec.count == 9


@pytest.mark.slow
def test_a_training_that_is_too_much_for_one_node_is_offered_several():
    request = training(target_throughput=60_000)
    ways = relaxations(NetworkTask(Preparations(CATALOG, MODEL)), decided(request))
    (several,) = [way for way in ways if way.changes[0].constraint == "max_nodes"]
    assert several.gives.spec.count == int(several.changes[0].after)
    assert decided(replace(request, max_nodes=several.gives.spec.count)).chosen is not None


@pytest.mark.parametrize(("gpu", "takes"), [("A100", True), ("A10G", False)])
def test_a_rate_that_one_network_card_does_not_reach_names_efa(gpu, takes):
    request = training(network="vgg16", target_throughput=9_000, gpus=(gpu,), max_nodes=16)
    answer = decided(request)
    assert answer.chosen.spec.count > 1
    assert any("EFA" in str(message) for message in answer.assumptions) is takes


QUESTION = network_question(
    network="resnet50", task=Task.TRAINING, precision=Precision.AMP, target_throughput=3000.0
)


def ask(**changes):
    return decided(replace(QUESTION, **changes))


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


def test_a_limit_on_the_first_epoch_buys_a_disk_and_counts_in_the_run():
    patient, hurried = (ask(max_first_epoch_hours=limit, disk_types=("gp3", "sc1")) for limit in (30.0, 0.2))
    assert patient.chosen.first_epoch.upper <= 30.0
    assert hurried.chosen.first_epoch.upper <= 0.2
    assert patient.chosen.spec.disk.usd_per_hour < hurried.chosen.spec.disk.usd_per_hour
    answer = ask(epochs=3.0)
    assert answer.chosen.run.first_epoch == answer.chosen.first_epoch


def test_what_reads_its_disk_too_slowly_says_so_and_how_long_it_takes():
    answer = ask(disk=DiskChoice(type="sc1", size_gib=158.0))
    assert answer.chosen is None
    assert "slow_first_epoch" in answer.rejected_by_reason
    (rejection, *_) = [rejection for rejection in answer.rejected if rejection.reason == "slow_first_epoch"]
    assert "first epoch" in str(rejection.detail)


@settings(max_examples=8, deadline=None)
@example("resnet50", 90, 72.0)
@given(
    st.sampled_from(["resnet50", "googlenet", "vit_b_16", "bert-base-uncased"]),
    st.integers(1, 90),
    st.none() | st.floats(5, 100),
)
def test_nothing_as_well_known_is_cheaper_as_quick_and_as_sure(network, epochs, hours):
    open_to = dict.fromkeys(("precision", "memory_format", "required_confidence"))
    run = {"network": network, "epochs": epochs, "max_hours": hours, "max_results": 10, **open_to}
    answer = decided(training(**run, region="us-east-1"))
    if answer.chosen is None:
        return
    chosen, *others = answer.ranked[: max(1, answer.level)]
    unmeasured = {each.spec.offer.instance.gpu_name for each in (chosen, *others) if not is_measured(each)}
    for other in others:
        gpus = [each.spec.offer.instance.gpu_name for each in (other, chosen)]
        is_as_known = gpus[0] == gpus[1] or gpus[0] not in unmeasured or gpus[1] in unmeasured
        is_better = other.usd_per_run.median < chosen.usd_per_run.median
        is_better &= other.run.hours.median <= chosen.run.hours.median
        assert not (is_better and is_as_known and (other.probability or 1) >= (chosen.probability or 1))
