import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import LimitedBy, Status
from advisor.sweeps.formats import run_facts
from advisor.sweeps.quality.issues import REFUSED, quality_issues, refusal, refusal_in
from advisor.sweeps.quality.rates import count_warmup_steps, is_steady, sustained_rate
from tests.rows import table
from tests.sweeps.builders import TIME_BOX, measurement, trial

CASES = table("sweeps_cases")

DRAW = random.Random(0)
GOOD = tuple(0.1 * (1 + DRAW.gauss(0, 0.01)) for _ in range(60))


def paced(first, last):
    return {"first_minute_samples_per_second": first, "sustained_samples_per_second": last}


def codes(**changes):
    values = {"step_seconds": GOOD, "trial": trial(plan={**TIME_BOX, "rel_error": 0.02}), **changes}
    return {quality_issue.code for quality_issue in quality_issues(measurement(**values))}


def test_a_good_measurement_a_pace_that_held_and_a_power_cap_are_no_weakness():
    """A GPU at its power limit works as it was bought."""
    assert codes() == set()
    assert codes(environment={"side_by_side": False}) == set()
    assert codes(status=Status.OUT_OF_MEMORY, step_seconds=()) == set()  # a result
    environment = {
        "pace": paced(100.0, 97.0),
        "steal_share": 0.001,
        "gpu_throttle_reasons": {"sw_power_cap": 1.0, "gpu_idle": 0.2},
        "gpu_other_processes": 0,
        "gpu_utilization_before_percent": 1,
        "cpu_mhz": [3000.0, 2900.0],
    }
    assert codes(environment=environment) == set()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"step_seconds": GOOD[:3]}, "few_steps"),
        ({"step_seconds": tuple(0.02 + 0.5 * DRAW.random() for _ in range(60))}, "wide_interval"),
        ({"step_seconds": tuple(0.1 * 1.02**i for i in range(60))}, "drift"),
        ({"step_seconds": (*GOOD, *(1.2 * s for s in GOOD))}, "throttled_or_burst"),
        ({"step_seconds": tuple(2.5 * s if i % 13 == 5 else s for i, s in enumerate(GOOD))}, "stalls"),
        ({"status": Status.CONTAMINATED, "reason": "others used 0.5 cores"}, "contaminated"),
        ({"status": Status.TIMED_OUT}, "timed_out"),
        ({"limited_by": LimitedBy.NONE}, "not_limited"),
        ({"environment": {"pace": paced(100.0, 60.0)}}, "throttled_or_burst"),
        ({"environment": {"pace": paced(60.0, 100.0)}}, "slow_first_minute"),
        ({"environment": {"steal_share": 0.3}}, "stolen_cpu_time"),
        ({"environment": {"gpu_throttle_reasons": {"hw_thermal_slowdown": 0.1}}}, "gpu_throttled"),
        ({"environment": {"gpu_throttle_reasons": {"hw_thermal_slowdown": 0.01}}}, "throttled"),
        ({"environment": {"cpu_thermal_throttles": 7}}, "throttled"),
        ({"environment": {"gpu_other_processes": 2}}, "gpu_shared"),
        ({"environment": {"side_by_side": True}}, "side_by_side"),
        ({"environment": {"gpu_utilization_before_percent": 40}}, "gpu_busy_before"),
        ({"environment": {"wall_clock_jump_seconds": -3600.0}}, "clock_jumped"),
        ({"environment": {"suspended_seconds": 300.0}}, "suspended"),
    ],
)
def test_each_weakness_is_told_with_a_way_out(changes, code):
    assert code in codes(**changes)
    weak = quality_issues(measurement(**{"step_seconds": GOOD, **changes}))
    assert all(str(entry.detail) and str(entry.advice) for entry in weak)


@pytest.mark.parametrize(
    ("environment", "is_refused"), CASES["what_is_no_measurement_of_its_gpu_is_refused_and_the_check_says_so"]
)
def test_what_is_no_measurement_of_its_gpu_is_refused_and_the_check_says_so(environment, is_refused):
    assert bool(refusal_in(environment)) is is_refused
    weak = quality_issues(measurement(step_seconds=GOOD, environment=environment))
    said = [entry for entry in weak if "not fitted, and no anchor" in str(entry.detail)]
    assert {entry.code for entry in said} == {entry.code for entry in weak} & set(REFUSED)
    assert bool(said) is is_refused


def test_a_cold_start_a_fallen_clock_repeats_that_differ_and_age_are_told_apart():
    cold = {"environment": {"pace": paced(100.0, 80.0)}}
    heated = trial(plan={**TIME_BOX, "rel_error": 0.02, "warmup_seconds": 60.0})
    assert codes(**cold) == {"throttled_or_burst"}
    assert codes(**cold, trial=heated) == set()
    environment = {"pace": paced(100.0, 60.0), "cpu_mhz": [3000.0, 2000.0]}
    (weak,) = quality_issues(measurement(step_seconds=GOOD, environment=environment))
    assert "CPU clock 3000 to 2000 MHz" in str(weak.detail)
    assert weak.detail.parameters["change_percent"] == pytest.approx(-40)

    def repeated(factor):
        other = measurement(step_seconds=tuple(factor * s for s in GOOD))
        return codes(repeats=(run_facts(other),))

    assert repeated(1.02) == set()
    assert repeated(1.2) == {"repeats_differ"}
    now = datetime(2026, 11, 23, tzinfo=UTC)

    def begun_at(started_at):
        row = measurement(step_seconds=GOOD, started_at=started_at)
        return [quality_issue.code for quality_issue in quality_issues(row, now)]

    assert begun_at("2026-04-01T10:00:00+00:00") == ["stale"]
    assert begun_at("2026-09-01T10:00:00+00:00") == begun_at("") == []


HOT = {"gpu_throttle_reasons": {"sw_thermal_slowdown": 0.5}}


@pytest.mark.parametrize(
    "changes",
    [
        {"repeats": (run_facts(measurement(environment=HOT)),)},
        {"environment": {"stage_runs": {"accelerator": HOT}}},
    ],
    ids=["a repeat", "the GPU alone"],
)
def test_one_hot_run_of_several_is_enough(changes):
    """The first has a cool GPU."""
    row = measurement(**{"step_seconds": GOOD, "environment": {}, **changes})
    assert refusal(row) == REFUSED["gpu_throttled"]
    assert "gpu_throttled" in {quality_issue.code for quality_issue in quality_issues(row)}


# Where the counted steps of a run begin, and what its pace was after a minute.


@pytest.mark.parametrize(
    ("steps", "steady"),
    [
        ([0.1] * 10, True),
        ([1.1**i for i in range(20)], False),  # they keep drifting
        ([0.01, 0.2] * 10, True),  # long and short ones in turn
        ([0.1, 0.1, 0.1], False),  # too few
    ],
)
def test_steps_without_a_drift_are_steady(steps, steady):
    assert is_steady(steps) is steady


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ([0.1] * 20, 0),
        ([0.5, 0.4] + [0.1] * 18, 2),
        # A fifth of the run is the most that a slow start may be: a slow phase is none.
        ([0.13] * 40 + [0.1] * 60, 0),
        ([0.13] * 10 + [0.1] * 90, 10),
        # Batches that were prepared ahead and cold clocks, up to half: the rate is that of what follows.
        ([0.02] * 8 + [0.1] * 40, 8),
        ([0.08] * 45 + [0.1] * 55, 45),
        ([0.08] * 60 + [0.1] * 40, 0),
    ],
)
def test_slow_and_fast_starts_are_warm_up(steps, count):
    assert count_warmup_steps(steps) == count


def test_the_first_step_of_a_cold_loop_is_warm_up_whatever_it_took():
    for first in (0.01, 0.1, 30.0):
        assert count_warmup_steps([first, *[0.1] * 19], cold=True) == 1
    assert count_warmup_steps([5.0, 0.5, 0.4, *[0.1] * 18], cold=True) == 3


@given(st.lists(st.floats(1e-4, 10), max_size=60), st.integers(1, 8))
def test_at_most_half_of_the_steps_are_warm_up(steps, period):
    assert 0 <= count_warmup_steps(steps, period) <= len(steps) // 2


def test_a_stall_counts_in_the_rate_of_its_minute_and_what_follows_may_be_shorter():
    """And spent credits show as a slower end: ninety seconds of burst, then a third of the speed."""
    rate = sustained_rate([0.5] * 180 + [1.5] * 100, 30)
    assert rate["first_minute_samples_per_second"] == pytest.approx(60)
    assert rate["sustained_samples_per_second"] == pytest.approx(20)
    assert rate["sustained_over_seconds"] == pytest.approx(60, abs=1.5)
    steps = [0.5] * 240
    steps[200] = 6.5
    rate = sustained_rate(steps, 1)
    assert rate["first_minute_samples_per_second"] == pytest.approx(2)
    assert rate["sustained_samples_per_second"] == pytest.approx(2 * 0.9, rel=0.02)
    # 3,003 steps of 20 ms are one minute.
    assert sustained_rate([], 8) == sustained_rate([1.0] * 60, 8) == {}
    assert sustained_rate([1.0] * 62, 1) == {}
    assert sustained_rate([1.0] * 85, 1) == {}
    assert sustained_rate([1.0] * 95, 1)["sustained_over_seconds"] == pytest.approx(35)
    assert sustained_rate([15.0] * 20, 1) == {}
    whole = sustained_rate([0.02] * 3003, 1, first_minute=[0.015] * 4000)
    assert whole["first_minute_samples_per_second"] == pytest.approx(1 / 0.015)
    assert whole["sustained_samples_per_second"] == pytest.approx(50)
    brief = sustained_rate([0.02] * 20, 1, first_minute=[0.015] * 4000)
    assert brief == {"first_minute_samples_per_second": pytest.approx(1 / 0.015)}


@given(st.lists(st.floats(0.05, 20.0), max_size=300))
def test_both_rates_are_those_of_some_step(steps):
    rate = sustained_rate(steps, 1)
    if rate:
        for name in ("first_minute_samples_per_second", "sustained_samples_per_second"):
            assert 1 / max(steps) * 0.999 <= rate[name] <= 1 / min(steps) * 1.001
