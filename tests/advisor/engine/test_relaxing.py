"""Where nothing answers: the least single change that makes something answer, by brute force."""

from functools import reduce
from itertools import combinations
from math import floor, log10

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog.support import parse_quota
from advisor.domain import IMAGENET, DiskChoice, Market, Range, Task
from advisor.engine.candidates import asks_for_gpu
from advisor.engine.no_offer import no_offer
from advisor.engine.relax import relaxations
from advisor.engine.relax import relaxed as with_ways
from advisor.questions.settled import disk_data_of, disk_fields
from advisor.questions.values import parse_gpus, parse_ram, parse_vcpus
from tests.builders import network_question

from .asking import CATALOG, SMALL, answered, question, task
from .plain_model import PlainModel

G, P = "L-DB2E81BA", "L-417A185B"


class Wavering(PlainModel):
    """The surer one wants to be, the less is sure."""

    def _prediction(self, workload, resources, confidence, cache):
        prediction = super()._prediction(workload, resources, confidence, cache)
        return replace(prediction, lower=prediction.median * (1.3 - 0.6 * confidence))


MODEL = Wavering()
requests = st.builds(
    network_question,
    network=st.just("googlenet"),
    task=st.just(Task.INFERENCE),
    target_throughput=st.sampled_from([100.0, 400.0, 1500.0, 9000.0]),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    batch_size=st.sampled_from([None, None, 64, 100_000]),
    max_usd_per_hour=st.sampled_from([None, 0.4, 0.8, 3.0]),
    max_latency_ms=st.sampled_from([None, None, None, 5.0]),
    samples=st.just(10_000_000),
    max_hours=st.sampled_from([None, None, 0.2, 5.0]),
    max_run_usd=st.sampled_from([None, None, 0.3]),
    gpus=st.sampled_from([(), (), ("T4",), ("P100",), ("L4", "A10G")]),
    vcpus=st.sampled_from([Range(), Range(), Range(64), Range(None, 4), Range(2, 2)]),
    memory_mib=st.sampled_from([Range(), Range(), Range(None, 16_384), Range(500_000)]),
    compute_capability=st.sampled_from([Range(), Range(), Range(8.0), Range(None, 6.0)]),
    min_gpu_memory_mib=st.sampled_from([None, None, 40_000.0]),
    max_gpu_memory_mib=st.sampled_from([None, None, 49_152.0]),
    vcpu_quota=st.sampled_from([(), (), ((G, 2.0), (P, 0.0)), ((G, 8.0),)]),
    disk=st.sampled_from([None, None, DiskChoice(type="gp3"), DiskChoice(type="sc1")]),
)
# A question without an answer is asked some thirty times over; a smaller one says no more.
SLOW_TO_ASK = settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
LIMITED = ("max_usd_per_hour", "max_latency_ms", "max_hours", "max_run_usd")
DIALS = {"target_throughput": 1, **dict.fromkeys(LIMITED, -1)}


def ask(request):
    return answered(request, MODEL)


def relaxed(request):
    return relaxations(task(MODEL), ask(request))


def by_the_plain_model(request):
    return relaxations(task(), answered(request))


def preprocessing(**changes):
    return network_question(network="alexnet", task=Task.PREPROCESSING, **changes)


def typed(request, change):
    """The request with a change, read from what a user would type."""
    text, option = change.after, change.option
    if option == "--gpu":
        return replace(request, **parse_gpus(text).attributes())
    parsers = {
        "--vcpus": lambda: {"vcpus": parse_vcpus(text)},
        "--memory": lambda: {"memory_mib": parse_ram(text)},
        "--disk": lambda: {
            "disk": None,
            "disk_types": (),
            **disk_fields(CATALOG, request.cloud, text, disk_data_of(request.dataset)),
        },
        "--quota": lambda: {"vcpu_quota": parse_quota(text, request.market)},
        "--region": lambda: {"region": text},
        "--market": lambda: {"market": Market(text)},
        "--batch-size": lambda: {"batch_size": int(text)},
    }
    fields = parsers.get(option, lambda: {change.constraint: float(text)})()
    return replace(request, **fields)


def nearer(request, change):
    """A request a little nearer to what was asked for; None where there is nothing between."""
    (constraint,) = [
        constraint
        for constraint in task(MODEL).constraints(request)
        if constraint.name == change.constraint and constraint.text(request) != change.after
    ][:1]
    then = constraint.get(typed(request, change))
    if change.constraint in DIALS:
        step = 10.0 ** (floor(log10(then)) - 1)  # limits are named in two digits, with half steps below 20
        way = DIALS[change.constraint]
        step *= 1 if then + way * step / 4 > 20 * step else 0.5
        return constraint.put(request, then + way * step)
    steps = {"min_": 0.01, "max_": -0.01, "conf": 0.01}
    step = steps.get(change.constraint[:4], 0) * (1e5 if "gpu_memory" in change.constraint else 1)
    return constraint.put(request, round(then + step, 3)) if step else None


def place_of(way, answer):
    """Old spot prices come last, then limits of more than ten times what they were."""
    gives, spec = way.gives, way.gives.spec
    old = spec.offer.market is Market.SPOT and (answer.today - spec.offer.price.as_of).days > 180
    far = any(
        each.constraint in LIMITED and float(each.after) > 10 * float(each.before) for each in way.changes
    )
    return old, far, gives.usd_per_run.median if answer.request.ends else spec.total_usd_per_hour


@pytest.mark.slow
@SLOW_TO_ASK
@given(requests)
def test_each_change_is_enough_and_the_least_that_is(request):
    answer = ask(request)
    ways = relaxations(task(MODEL), answer)
    if answer.chosen is not None:
        assert ways == ()
        return
    places = [place_of(way, answer) for way in ways]
    assert places == sorted(places)
    for way in ways:
        assert ask(reduce(typed, way.changes, request)).chosen == way.gives
        if len(way.changes) == 1:
            less = nearer(request, way.changes[0])
            assert less is None or ask(less).chosen is None


@pytest.mark.slow
@SLOW_TO_ASK
@given(requests)
def test_what_is_not_named_would_not_be_enough(request):
    answer = ask(request)
    if answer.chosen is not None:
        return
    ways = relaxations(task(MODEL), answer)
    most = max((len(way.changes) for way in ways), default=3)
    named = {way.changes[0].constraint for way in ways if most == 1}
    if asks_for_gpu(request):  # what is given up of the GPU then is which one, not that there is one
        request = replace(request, accelerated_only=True)
    constraints = [each for each in task(MODEL).constraints(request) if each.name != "market"]
    for constraint in constraints:
        if constraint.name not in named:
            assert ask(constraint.loosened(request)).chosen is None, constraint.name
    limiting = [constraint for constraint in constraints if constraint.limiting]
    for first, second in combinations(limiting, 2) if most > 2 else ():
        assert ask(second.loosened(first.loosened(request))).chosen is None


@pytest.mark.slow
def test_a_price_and_a_cost_that_cut_the_disk_search_short_are_still_named_together():
    """The cheapest run within the price needs an order of 216 MiB/s, between the steps of the search."""
    limits = {"max_usd_per_hour": 0.8, "max_hours": 5.0, "max_run_usd": 0.3}
    limits |= {"target_throughput": 1500.0, "compute_capability": Range(8.0)}
    request = question(samples=10_000_000, **limits)
    ways = relaxed(request)
    assert {change.constraint for change in ways[0].changes} == {"max_usd_per_hour", "max_run_usd"}
    for way in ways:
        assert ask(reduce(typed, way.changes, request)).chosen == way.gives


@pytest.mark.parametrize("limits", [{"max_run_usd": 1.5}, {"max_run_usd": 1.5, "max_hours": 0.2}])
def test_a_way_out_names_the_limits_of_its_own_spec_and_no_commitment_for_a_run(limits):
    ways = by_the_plain_model(question(samples=10_000_000, required_confidence=None, **limits))
    assert any(change.after == "spot" for way in ways for change in way.changes)
    for way in ways:
        spans = {"max_run_usd": way.gives.usd_per_run, "max_hours": way.gives.run.hours}
        for change in way.changes:
            assert not change.after.startswith("commitment")
            if (span := spans.get(change.constraint)) is not None:
                needed = max(span.upper, float(change.before))
                assert float(change.after) <= needed * 1.05


def test_a_named_gpu_is_joined_by_the_cheapest_and_accelerators_without_memory_are_no_way_out():
    request = question(target_throughput=300.0, gpus=("P100",))
    (joined,) = [joined for joined in relaxed(request) if joined.changes[0].constraint == "gpus"]
    others = (ask(replace(request, gpus=("P100", name))).chosen for name in CATALOG.gpus)
    least = min(each.spec.total_usd_per_hour for each in others if each)
    assert joined.gives.spec.total_usd_per_hour == least
    assert joined.changes[0].after.startswith("P100,")
    quotas = ((G, 0.0), (P, 0.0))
    request = preprocessing(target_throughput=20, min_gpu_memory_mib=24576, vcpu_quota=quotas)
    ways = by_the_plain_model(request)
    assert "min_gpu_memory_mib" not in {way.changes[0].constraint for way in ways}

    class TooLarge(PlainModel):
        def gpu_memory_mib(self, workload):
            return 1e9

    answer = answered(question(target_throughput=1.0, accelerated_only=True), TooLarge())
    assert relaxations(task(TooLarge()), answer) == ()
    assert "--explain-rejected" in str(no_offer(answer))


TRAINING = {"task": Task.TRAINING, "dataset": SMALL, "epochs": 10}
SOON = TRAINING | {"max_hours": 0.001}
OPTIONS = {name: f"--{name.replace('_', '-')} to " for name in ("target_throughput", *LIMITED[1:3])}
OPTIONS["max_run_usd"] = "--max-cost to "


@pytest.mark.parametrize(
    "limits",
    [
        {"target_throughput": 1e9},
        {"max_latency_ms": 0.01},
        {"max_latency_ms": 0.01, "target_throughput": 1e9},
        SOON,
        TRAINING | {"max_run_usd": 0.001},
        SOON | {"max_run_usd": 0.001},
        SOON | {"target_throughput": 1e9},
    ],
)
def test_what_the_error_says_to_relax_really_helps(limits):
    message = str(no_offer(with_ways(task(), answered(question(accelerated_only=True, **limits)))))
    named = [name for name in limits if OPTIONS.get(name, "\n") in message]
    needed = {name: float(message.split(OPTIONS[name])[1].split()[0].rstrip(",")) for name in named}
    assert answered(question(accelerated_only=True, **limits | needed)).chosen is not None


@pytest.mark.parametrize(
    "limits",
    [
        {"target_throughput": 1e6, "min_gpu_memory_mib": 24576},
        {
            **{"target_throughput": 0.01, "gpus": ("A100",), "market": Market.SPOT},
            **{"max_usd_per_hour": 0.5, "accelerated_only": True},
        },
    ],
)
def test_who_asks_for_a_gpu_to_preprocess_on_is_helped_by_one(limits):
    for way in by_the_plain_model(preprocessing(**limits)):
        assert way.gives.spec.offer.instance.gpu_name


@pytest.mark.slow
def test_who_asks_for_a_commitment_is_shown_what_can_be_had_on_demand():
    where = {"cloud": "azure", "region": "westeurope", "market": Market.COMMITMENT_1Y}
    ways = by_the_plain_model(preprocessing(target_throughput=20, **where))
    (way,) = (way for way in ways if way.changes[0].constraint == "market")
    assert way.changes[0].after == "on-demand"
