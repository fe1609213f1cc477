"""A rate has drifted when two days differ by more than either is known to."""

import pytest

from advisor.domain import Status
from advisor.runs.refit import drift_between, is_fresh
from tests.sweeps.builders import measurement, resources, trial

STEADY = tuple(0.1 + 0.001 * (n % 7) for n in range(60))


def row(factor=1.0, memory_mib=2048.0, steps=STEADY, **changes):
    return measurement(
        trial=trial(resources=resources(memory_mib=memory_mib)),
        step_seconds=tuple(factor * step for step in steps),
        **changes,
    )


def test_a_rate_that_fell_by_a_third_has_drifted():
    drift = drift_between([row(1.5)], [row()])
    (shift,) = drift.beyond
    assert shift.change == pytest.approx(-1 / 3)
    assert drift.median_change == pytest.approx(-1 / 3)
    assert shift.before.upper > shift.before.rate > shift.before.lower


def test_what_repeats_of_a_trial_differ_by_is_no_drift():
    """The means of two quiet runs are each known to a fraction of a per cent."""
    drift = drift_between([row(1.03)], [row()])
    assert len(drift.shifts) == 1
    assert drift.beyond == ()


def test_a_rate_that_is_hardly_known_has_not_drifted():
    wild = tuple(0.05 * (1 + 7 * (n % 5 % 2) + n % 3) for n in range(12))
    assert drift_between([row(1.3, steps=wild)], [row(steps=wild)]).beyond == ()


def test_the_latest_good_row_of_the_same_trial_is_compared():
    earlier = [row(3.0), row(1.5), row(9.0, status=Status.FAILED, reason="x"), row(memory_mib=1024.0)]
    (shift,) = drift_between([row(1.5)], earlier).shifts
    assert shift.change == pytest.approx(0)


def test_what_cannot_be_compared_is_left_out():
    bad = row(status=Status.CONTAMINATED, reason="neighbours")
    few = row(steps=STEADY[:3])
    assert drift_between([bad, few, row(memory_mib=1.0)], [row()]).shifts == ()
    assert drift_between([bad], [row()]).median_change is None


def test_changed_versions_are_named_once():
    old = {"versions": {"torch": "2.13.0", "numpy": "2.4"}, "kernel": "6.1", "other_cores": 0.1}
    new = {"versions": {"torch": "2.14.0", "numpy": "2.4"}, "kernel": "6.1", "other_cores": 0.3}
    sizes = (1.0, 2.0)
    drift = drift_between(
        [row(memory_mib=size, environment=new) for size in sizes],
        [row(memory_mib=size, environment=old) for size in sizes],
    )
    assert drift.changed == ("torch 2.13.0 -> 2.14.0",)


def test_a_row_is_fresh_from_its_runs_due_time_on():
    started = row(started_at="2026-07-20T10:00:00+00:00")
    assert is_fresh(started, 1_784_541_600.0)
    assert not is_fresh(started, 1_784_541_601.0)
    assert not is_fresh(row(started_at=""), 0.0)
