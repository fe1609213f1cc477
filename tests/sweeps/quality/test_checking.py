import json
import random

import pytest

from advisor.domain import LimitedBy, Status
from sweeps.formats.serialization import run_facts
from sweeps.quality.checking import as_document, check
from tests.sweeps.builders import TIME_BOX, measurement, trial

DRAW = random.Random(0)
GOOD = tuple(0.1 * (1 + DRAW.gauss(0, 0.01)) for _ in range(60))


def paced(first, last):
    return {"first_minute_samples_per_second": first, "sustained_samples_per_second": last}


def kinds(**changes):
    values = {"step_seconds": GOOD, "trial": trial(plan={**TIME_BOX, "rel_error": 0.02}), **changes}
    return {one.kind for one in check(measurement(**values)).issues}


def test_a_good_measurement_has_no_weakness():
    assert kinds() == set()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"step_seconds": GOOD[:3]}, "few steps"),
        ({"step_seconds": tuple(0.02 + 0.5 * DRAW.random() for _ in range(60))}, "wide interval"),
        ({"step_seconds": tuple(0.1 * 1.02**i for i in range(60))}, "drift"),
        ({"step_seconds": (*GOOD, *(1.2 * s for s in GOOD))}, "throttled or burst"),
        (
            {"step_seconds": tuple(2.5 * s if i % 13 == 5 else s for i, s in enumerate(GOOD))},
            "outliers",
        ),
        ({"status": Status.CONTAMINATED, "reason": "others used 0.5 cores"}, "contaminated"),
        ({"status": Status.TIMED_OUT}, "timed_out"),
        ({"limited_by": LimitedBy.NONE}, "not limited"),
        ({"environment": {"pace": paced(100.0, 60.0)}}, "throttled or burst"),
        ({"environment": {"pace": paced(60.0, 100.0)}}, "slow first minute"),
        ({"environment": {"steal_share": 0.3}}, "stolen CPU time"),
        ({"environment": {"gpu_held_back_by": ["heat (driver)"]}}, "clocks held back"),
        ({"environment": {"cpu_thermal_throttles": 7}}, "clocks held back"),
        ({"environment": {"wall_clock_jump_seconds": -3600.0}}, "clock jumped"),
        ({"environment": {"suspended_seconds": 300.0}}, "suspended"),
    ],
)
def test_each_weakness_is_told_with_a_way_out(changes, kind):
    assert kind in kinds(**changes)
    weak = check(measurement(**{"step_seconds": GOOD, **changes})).issues
    assert all(one.detail and one.advice for one in weak)


def test_a_pace_that_held_and_a_power_cap_are_no_weakness():
    """A GPU at its power limit works as it was bought."""
    environment = {
        "pace": paced(100.0, 97.0),
        "steal_share": 0.001,
        "gpu_held_back_by": ["power cap"],
        "cpu_mhz": [3000.0, 2900.0],
    }
    assert kinds(environment=environment) == set()


def test_a_fallen_clock_is_told_beside_the_pace():
    environment = {"pace": paced(100.0, 60.0), "cpu_mhz": [3000.0, 2000.0]}
    weak = check(measurement(step_seconds=GOOD, environment=environment)).issues
    assert "CPU clock 3000 to 2000 MHz" in weak[0].detail


def test_repeats_that_differ_are_weak_and_those_that_agree_are_not():
    def repeated(factor):
        other = measurement(step_seconds=tuple(factor * s for s in GOOD))
        return kinds(repeats=(run_facts(other),))

    assert repeated(1.02) == set()
    assert repeated(1.2) == {"repeats differ"}


def test_out_of_memory_is_a_result_not_a_weakness():
    assert kinds(status=Status.OUT_OF_MEMORY, step_seconds=()) == set()


def test_a_checked_measurement_is_json():
    document = json.loads(json.dumps(as_document(check(measurement(step_seconds=GOOD)))))
    assert document["steps"] == 60
    assert 0 < document["relative_error"] < 0.02
    assert document["weak"] == []
