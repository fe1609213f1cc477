"""A verdict says no more than the measurement carries."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import ON_ANY_GPU, Accelerator, CacheState, LimitedBy, Status, Task, Verdict
from advisor.engine import Preparations, recommend
from advisor.engine.single import predict_instance
from advisor.errors import MeasuringError
from advisor.runs.verification.machine import VerifiedMachine
from advisor.runs.verification.verdict import Answers, judged, verdict_of
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


def verdict(target, one, pessimistic=False):
    return verdict_of(ask(target), one, rate_interval(one), pessimistic)[0]


@given(st.floats(0.01, 10.0), st.floats(0.1, 10_000.0), st.floats(1.0, 100.0))
def test_a_higher_target_is_never_easier(seconds, target, factor):
    order = [Verdict.PASS, Verdict.UNDECIDED, Verdict.MISSED]
    one = run(seconds)
    low, high = (order.index(verdict(t, one)) for t in (target, target * factor))
    assert low <= high


def test_a_target_inside_of_the_interval_is_undecided():
    jumpy = measurement(step_seconds=tuple(0.1 + 0.05 * (i % 7) for i in range(30)))
    rate = rate_interval(jumpy)
    assert rate.lower < rate.rate < rate.upper
    assert verdict(rate.rate, jumpy) is Verdict.UNDECIDED


def test_few_steps_decide_little():
    few = measurement(step_seconds=(0.1, 0.2, 0.1, 0.2, 0.1, 0.2))
    assert verdict(30, few) is Verdict.PASS
    assert verdict(60, few) is Verdict.UNDECIDED
    assert verdict(120, few) is Verdict.MISSED
    assert verdict(1, measurement(step_seconds=(0.1, 0.1))) is Verdict.UNDECIDED
    assert verdict(1, measurement(step_seconds=())) is Verdict.UNDECIDED


def test_a_target_that_another_run_may_miss_is_not_passed():
    """Sixty equal steps: the run is known to the last digit, the next one to some per cent."""
    assert verdict(79, run()) is Verdict.UNDECIDED
    assert verdict(70, run()) is Verdict.PASS
    thrice = run(repeats=({"step_seconds": [0.1] * 60},) * 2)
    assert verdict(76.5, run()) is Verdict.UNDECIDED
    assert verdict(76.5, thrice) is Verdict.PASS


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
    assert verdict(40, run(**changes)) is passed
    assert verdict(160, run(**changes)) is missed


def test_reading_more_than_the_real_data_would_is_no_miss():
    assert verdict(160, run(), pessimistic=True) is Verdict.UNDECIDED
    assert verdict(40, run(), pessimistic=True) is Verdict.PASS


def judge(target, one, place=HERE, task=Task.INFERENCE):
    request = ask(target, task)
    named = predict_instance(request, CATALOG, MODEL, "g4dn.xlarge")
    answer = recommend(request, Preparations(CATALOG, MODEL), today=date(2026, 7, 21))
    return answer, judged(request, place, one, named, named.prediction, Answers(answer, answer))


def test_a_passed_trial_on_the_instance_makes_it_the_answer():
    answer, done = judge(290, run(0.02))
    assert done.settles
    assert done.verdict is Verdict.PASS
    assert answer.chosen.spec.offer.instance.name != "g4dn.xlarge"
    assert done.answer_now.startswith("take g4dn.xlarge at $0.5")
    assert answer.chosen.spec.offer.instance.name in done.answer_now


def test_a_missed_trial_of_the_recommended_one_leaves_the_next():
    answer, done = judge(230, run(0.1))
    assert answer.chosen.spec.offer.instance.name == "g4dn.xlarge"
    assert done.verdict is Verdict.MISSED
    assert answer.ranked[1].spec.offer.instance.name in done.answer_now


def test_an_emulated_gpu_never_settles_anything():
    answer, done = judge(290, run(0.02), ELSEWHERE)
    assert done.verdict is Verdict.PASS
    assert not done.settles
    assert answer.chosen.spec.offer.instance.name in done.answer_now
    assert any("no GPU was verified" in one for one in done.caveats)
    assert any("whose CPU is another" in one for one in done.caveats)


def test_training_that_read_all_from_the_disk_says_so():
    one = run(0.1, trial=trial(task=Task.TRAINING, cache=CacheState.COLD))
    _, done = judge(200, one, task=Task.TRAINING)
    assert done.verdict is Verdict.UNDECIDED
    assert any("a later epoch" in caveat for caveat in done.caveats)


def test_a_failed_trial_is_an_error():
    with pytest.raises(MeasuringError, match="no such device"):
        judge(100, run(status=Status.FAILED, reason="no such device"))
