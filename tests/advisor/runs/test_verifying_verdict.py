"""A verdict says no more than the measurement carries."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import (
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    CacheState,
    Disk,
    DiskChoice,
    DiskRate,
    LimitedBy,
    Price,
    Status,
    Task,
    Verdict,
)
from advisor.domain.verification import Criterion
from advisor.engine import Preparations, recommend
from advisor.engine.single import predict_instance
from advisor.errors import UsageError
from advisor.runs.verification.verdict import (
    VerifiedMachine,
    judged,
    machine_for,
    require_gpus,
    sheet_named,
    verdict_of,
)
from advisor.sweeps.machine.environment import instance_type
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.plan import Machine
from advisor.sweeps.quality.rates import rate_interval
from tests.advisor.engine.plain_model import PlainModel
from tests.builders import network_question
from tests.sweeps.builders import measurement, trial

CATALOG, MODEL = load_catalog(), PlainModel()
HERE = VerifiedMachine(
    instance=CATALOG.instance("g4dn.xlarge"), is_here=True, accelerator=ON_ANY_GPU, vcpus=4, memory_mib=16_384
)
ELSEWHERE = replace(HERE, is_here=False, accelerator=Accelerator.parse("emulated:T4"))


def run(seconds=0.1, steps=60, **changes):
    """Batches of 8: 0.1 s is 80 images/s."""
    return measurement(step_seconds=(seconds,) * steps, **changes)


def ask(target, task=Task.INFERENCE):
    return network_question(network="googlenet", task=task, target_throughput=target)


def verdict(target, item, pessimistic=False):
    return verdict_of(ask(target), item, rate_interval(item), pessimistic)[0]


@given(st.floats(0.01, 10.0), st.floats(0.1, 10_000.0), st.floats(1.0, 100.0))
def test_a_higher_target_is_never_easier(seconds, target, factor):
    order = [Verdict.PASS, Verdict.UNDECIDED, Verdict.MISSED]
    item = run(seconds)
    low, high = (order.index(verdict(t, item)) for t in (target, target * factor))
    assert low <= high


def test_few_steps_decide_little_and_a_target_that_another_run_may_miss_is_not_passed():
    few = measurement(step_seconds=(0.1, 0.2, 0.1, 0.2, 0.1, 0.2))
    given = [verdict(target, few) for target in (30, 60, 120)]
    assert given == [Verdict.PASS, Verdict.UNDECIDED, Verdict.MISSED]
    for steps in ((0.1, 0.1), ()):
        assert verdict(1, measurement(step_seconds=steps)) is Verdict.UNDECIDED
    # Sixty equal steps: the run is known to the last digit, the next one to some per cent.
    given = [verdict(target, run()) for target in (70, 76.5, 79)]
    assert given == [Verdict.PASS, Verdict.UNDECIDED, Verdict.UNDECIDED]
    assert verdict(76.5, run(repeats=({"step_seconds": [0.1] * 60},) * 2)) is Verdict.PASS
    given = [verdict(target, run(), pessimistic=True) for target in (40, 160)]
    assert given == [Verdict.PASS, Verdict.UNDECIDED]


@pytest.mark.parametrize(
    ("changes", "passed", "missed"),
    [
        ({}, Verdict.PASS, Verdict.MISSED),
        ({"limited_by": LimitedBy.NONE}, Verdict.UNDECIDED, Verdict.MISSED),
        ({"status": Status.CONTAMINATED, "reason": "others"}, Verdict.PASS, Verdict.UNDECIDED),
        ({"status": Status.OUT_OF_MEMORY}, Verdict.MISSED, Verdict.MISSED),
    ],
)
def test_what_spoils_a_pass_is_not_what_spoils_a_miss(changes, passed, missed):
    assert [verdict(target, run(**changes)) for target in (40, 160)] == [passed, missed]


def judge(target, item, machine_of=HERE, task=Task.INFERENCE):
    request = ask(target, task)
    named = predict_instance(request, CATALOG, MODEL, "g4dn.xlarge")
    answer = recommend(request, Preparations(CATALOG, MODEL), today=date(2026, 7, 21))
    return answer, judged(request, machine_of, item, named, named.prediction, answer)


def test_a_passed_trial_on_the_instance_makes_it_the_answer_and_a_missed_or_emulated_one_does_not():
    answer, done = judge(290, run(0.02))
    assert (done.settles, done.verdict) == (True, Verdict.PASS)
    assert answer.chosen.spec.offer.instance.name != "g4dn.xlarge"
    assert done.answer_now.startswith("take g4dn.xlarge at $0.5")
    answer, done = judge(230, run(0.1))
    assert answer.chosen.spec.offer.instance.name == "g4dn.xlarge"
    assert done.verdict is Verdict.MISSED
    assert answer.ranked[1].spec.offer.instance.name in done.answer_now
    answer, done = judge(290, run(0.02), ELSEWHERE)
    assert (done.settles, done.verdict) == (False, Verdict.PASS)
    assert answer.chosen.spec.offer.instance.name in done.answer_now
    assert any("no GPU was verified" in caveat for caveat in done.caveats)
    assert any("whose CPU is another" in caveat for caveat in done.caveats)
    item = run(0.1, trial=trial(task=Task.TRAINING, cache=CacheState.COLD))
    _, done = judge(200, item, task=Task.TRAINING)
    assert done.verdict is Verdict.UNDECIDED
    assert any("a later epoch" in caveat for caveat in done.caveats)


def criterion(lower, upper, limit, is_least=True):
    measured = {"measured": (lower + upper) / 2, "lower": lower, "upper": upper}
    return Criterion(name="tpot_seconds", limit=limit, is_least=is_least, **measured)


@pytest.mark.parametrize(
    ("is_least", "limit", "verdict"),
    [
        (True, 9, Verdict.PASS),
        (True, 11, Verdict.UNDECIDED),
        (True, 13, Verdict.MISSED),
        (False, 13, Verdict.PASS),
        (False, 11, Verdict.UNDECIDED),
        (False, 9, Verdict.MISSED),
    ],
)
def test_the_whole_interval_must_lie_on_the_good_side(is_least, limit, verdict):
    """From 10 to 12: targets are reached from below, limits kept from above; nothing says nothing."""
    measured = criterion(10, 12, limit, is_least)
    assert measured.verdict is verdict
    assert replace(measured, measured=None, lower=None, upper=None).verdict is Verdict.UNDECIDED


@given(st.floats(0.1, 100), st.floats(0, 50), st.floats(0.1, 200), st.floats(0.1, 100))
def test_a_stricter_limit_never_turns_a_miss_into_a_pass(lower, width, limit, more):
    """For targets and for limits."""
    order = [Verdict.MISSED, Verdict.UNDECIDED, Verdict.PASS]
    for is_least in (True, False):
        stricter = limit + more if is_least else max(0.0, limit - more)
        now = criterion(lower, lower + width, limit, is_least).verdict
        then = criterion(lower, lower + width, stricter, is_least).verdict
        assert order.index(then) <= order.index(now)


BIG = Machine(cpus=8, physical_cores=4, memory_mib=32_000.0, cpu=None)
SMALL = Machine(cpus=2, physical_cores=2, memory_mib=24_000.0, cpu=None)
T4 = ("Tesla T4",)


def machine_of(name="auto", *, task=Task.INFERENCE, accelerator=None, machine=BIG, here=None, gpus=()):
    return machine_for(task, name, accelerator, CATALOG, machine, here, gpus)


def disk(**changes):
    price = Price(usd_per_hour=0.02, kind="list", as_of=date(2026, 1, 1), source="a list")
    rate = DiskRate(type="gp3", read_mib_per_second=125.0, read_latency_seconds=0.001)
    values = {"rate": rate, "choice": DiskChoice(type="gp3"), "size_gib": 100.0, "price": price}
    return Disk(**{**values, "binding_limit": "volume", **changes})


def test_a_cloud_instance_is_known_by_its_firmware_and_others_by_nothing(tmp_path):
    assert instance_type(tmp_path) is None
    (tmp_path / "product_name").write_text("g4dn.xlarge\n")
    for vendor, known in (("Amazon EC2", "g4dn.xlarge"), ("QEMU", None)):
        (tmp_path / "sys_vendor").write_text(f"{vendor}\n")
        assert instance_type(tmp_path) == known


def test_auto_is_the_instance_that_one_stands_on_and_a_larger_machine_is_held_to_one():
    result = machine_of(here="g4dn.xlarge", gpus=T4)
    told = (result.is_here, result.instance.name, result.vcpus, result.accelerator)
    assert told == (True, "g4dn.xlarge", 4, ON_ANY_GPU)
    result = machine_of("g4dn.xlarge", accelerator="emulated:T4")
    told = (result.is_here, result.vcpus, result.memory_mib, result.emulated_gpu)
    assert told == (False, 4, 16_384, "T4")
    assert machine_of("g4dn.xlarge", accelerator="emulated").emulated_gpu == "T4"
    assert machine_of("g4dn.xlarge", task=Task.PREPROCESSING).accelerator == ON_CPU
    assert machine_of("c5.large", task=Task.PREPROCESSING, machine=SMALL).vcpus == 2
    assert sheet_named(CATALOG, "NVIDIA A10G").name == "A10G"
    assert sheet_named(CATALOG, "NVIDIA H100 80GB HBM3").name.startswith("H100")
    assert sheet_named(CATALOG, "NVIDIA Unheard-of 1") is None


@pytest.mark.parametrize("here", [None, "c5.large", "x99.huge"])
def test_auto_elsewhere_is_the_machine_as_it_is(here):
    result = machine_of(here=here)
    assert (result.instance, result.is_here, result.accelerator) == (None, False, ON_CPU)
    assert (result.vcpus, result.memory_mib) == (8, 32_000.0)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"name": "g9x.large"}, "unknown instance type"),
        ({"name": "g4dn.xlarge"}, "this machine no NVIDIA GPU.*emulated:T4"),
        ({"name": "g5.xlarge", "gpus": T4}, "has a A10G, and this machine Tesla T4"),
        ({"name": "g4dn.xlarge", "accelerator": "cpu"}, "nothing is learnt"),
        ({"name": "g4dn.xlarge", "accelerator": "emulated:L4"}, "use --accelerator emulated:T4"),
        ({"name": "g4dn.xlarge", "accelerator": "tpu", "gpus": T4}, "no accelerator 'tpu'"),
        ({"name": "c5.large"}, "leave --instance out"),
        ({"name": "g4dn.xlarge", "accelerator": "emulated:T4", "machine": SMALL}, "4 vCPUs.*this machine 2"),
    ],
)
def test_what_cannot_stand_for_an_instance_is_refused(question, words):
    with pytest.raises(UsageError, match=words):
        machine_of(question.pop("name"), **question)


def test_the_disk_of_the_instance_itself_has_its_own_latency_and_no_burst():
    assert [ELSEWHERE.disk_rate(each) for each in (None, disk())] == [UNLIMITED, disk().rate]
    assert HERE.disk_rate(disk()) == replace(disk().rate, read_latency_seconds=None)
    own = disk(price=None, rate=DiskRate(type=LOCAL, read_mib_per_second=500.0))
    assert HERE.disk_rate(own) == DiskRate(type=LOCAL)


def test_more_gpus_than_the_machine_has_are_refused_and_the_way_out_is_named():
    """An instance is verified with as many GPUs as its prediction counts on."""
    whole = replace(HERE, instance=CATALOG.instance("g4dn.12xlarge"), is_here=False)
    with pytest.raises(UsageError, match=r"on 4 GPUs, and this machine has 1.*--max-gpus"):
        require_gpus(whole, 4, T4)
    require_gpus(whole, 4, T4 * 4)
    require_gpus(replace(whole, accelerator=Accelerator.parse("emulated:T4")), 4, ())
