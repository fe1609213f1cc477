"""After a sweep the better model is kept, on trials that neither has seen. A rate has drifted when two days
differ by more than either is known to."""

from datetime import UTC, datetime

import jsonschema
import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.files import own_model_path, user_folder
from advisor.infra.build.fitting.bundled_model import BUNDLED_MEASUREMENTS
from advisor.models.performance import load_model, save_model
from advisor.runs import fitting
from advisor.runs.fitting import after_sweep, drift_between, is_fresh
from advisor.store.measurements import open_store
from tests.advisor.render.schemas import schema_of
from tests.builders import keep
from tests.sweeps.builders import measurement, resources, trial

THEN, NOW = "2026-11-01T00:00:00+00:00", "2026-11-20T00:00:00+00:00"
DUE = datetime(2026, 11, 19, tzinfo=UTC).timestamp()


def slower(row, factor, **changes):
    return replace(row, step_seconds=tuple(factor * second for second in row.step_seconds), **changes)


def rows_of(sizes, started_at):
    trials = [trial(resources=resources(memory_mib=size)) for size in sizes]
    return [measurement(trial=entry, started_at=started_at) for entry in trials]


def test_what_a_run_replaced_is_what_the_store_held_before_it():
    kept, replaced = rows_of((1.0,), THEN), rows_of((2.0, 3.0), THEN)
    fresh, new = rows_of((2.0, 3.0), NOW), rows_of((4.0,), NOW)
    earlier = [*rows_of((2.0,), "2026-10-01"), *replaced]
    assert fitting.split_rows([*kept, *fresh, *new], earlier, DUE) == ([*kept, *replaced], [*fresh, *new])


def measured_before_and_after(factor):
    """A store with the first of the bundled sweeps, of which some trials were measured again."""
    bundled = fitting.measurements_from(BUNDLED_MEASUREMENTS)
    first = [row for row in bundled if row.trial.workload.dataset.samples == 10_000]
    good = [replace(row, started_at=THEN) for row in first]
    store = open_store()
    store.append_all(good)
    for row in good[::3]:
        store.join(slower(row, factor, started_at=NOW), lambda _row, fresh: fresh)
    store.close()
    return good


def described(report):
    schema = schema_of("schedule")
    run = schema["$defs"]["ScheduledRun"]["properties"]
    for name in ("fit", "drift"):
        jsonschema.validate(report[name], {**run[name], "$defs": schema["$defs"]})


@pytest.mark.slow
def test_a_machine_that_became_slower_is_noticed_and_learnt():
    before = measured_before_and_after(1.4)
    last = fitting.fit_user_model(before).model
    save_model(last, own_model_path())
    report = after_sweep(DUE)
    described(report)
    fit, drift = report["fit"], report["drift"]
    assert fit["last_is_held_out"]
    assert fit["kept"] == "new"
    assert fit["new_error_percent"]["median"] <= fit["last_error_percent"]["median"]
    assert load_model(own_model_path()).id == fit["new_model"] != last.id
    assert load_model(user_folder() / "models" / f"{last.id}.json").id == last.id
    assert drift["compared"] == fit["held_out_rows"] == 15
    assert drift["beyond_interval"] >= 12  # one rate, from the slow disk, is hardly known
    assert drift["median_change_percent"] == pytest.approx(-28.6, abs=0.1)


@pytest.mark.slow
def test_the_last_model_stays_where_the_new_one_is_worse(monkeypatch):
    import numpy as np

    measured_before_and_after(1.0)
    unseen = "advisor.models.performance.throughput.unseen_residuals"
    monkeypatch.setattr(unseen, lambda _on, scored, *_, **__: np.full(len(scored), 0.5))
    report = after_sweep(DUE)
    described(report)
    assert report["fit"]["kept"] == "last"
    assert not report["fit"]["last_is_held_out"]
    assert "worse than" in report["fit"]["why"]
    assert not own_model_path().exists()


def test_too_few_rows_to_fit_on_are_told():
    keep(*rows_of((1.0, 2.0), NOW))
    report = after_sweep(DUE)
    described(report)
    assert report["fit"]["kept"] == "last"
    assert "too few" in report["fit"]["why"]
    assert report["drift"]["compared"] == 0


STEADY = tuple(0.1 + 0.001 * (n % 7) for n in range(60))


def row(factor=1.0, memory_mib=2048.0, steps=STEADY, **changes):
    steps, entry = tuple(factor * step for step in steps), trial(resources=resources(memory_mib=memory_mib))
    return measurement(trial=entry, step_seconds=steps, **changes)


def test_a_rate_that_fell_by_a_third_has_drifted_and_one_that_may_be_the_same_has_not():
    drift = drift_between([row(1.5)], [row()])
    (shift,) = drift["trials"]
    assert shift["change_percent"] == drift["median_change_percent"] == pytest.approx(-100 / 3, abs=0.01)
    assert shift["before"]["upper"] > shift["before"]["rate"] > shift["before"]["lower"]
    # The means of two quiet runs are each known to a fraction of a per cent.
    drift = drift_between([row(1.03)], [row()])
    assert (drift["compared"], drift["beyond_interval"]) == (1, 0)
    wild = tuple(0.05 * (1 + 7 * (n % 5 % 2) + n % 3) for n in range(12))
    assert drift_between([row(1.3, steps=wild)], [row(steps=wild)])["trials"] == []


def test_the_latest_good_row_of_a_trial_is_compared_and_changed_versions_are_named_once():
    earlier = [row(3.0), row(1.5), row(9.0, status=Status.FAILED, reason="x"), row(memory_mib=1024.0)]
    drift = drift_between([row(1.5)], earlier)
    assert (drift["compared"], drift["median_change_percent"]) == (1, 0)
    bad = row(status=Status.CONTAMINATED, reason="neighbours")
    few = row(steps=STEADY[:3])
    drift = drift_between([bad, few, row(memory_mib=1.0)], [row()])
    assert (drift["compared"], drift["median_change_percent"]) == (0, None)
    old = {"versions": {"torch": "2.13.0", "numpy": "2.4"}, "kernel": "6.1", "other_cores": 0.1}
    new = {"versions": {"torch": "2.14.0", "numpy": "2.4"}, "kernel": "6.1", "other_cores": 0.3}
    new_rows, old_rows = ([row(memory_mib=size, environment=of) for size in (1.0, 2.0)] for of in (new, old))
    assert drift_between(new_rows, old_rows)["changed"] == ["torch 2.13.0 -> 2.14.0"]
    started = row(started_at="2026-07-20T10:00:00+00:00")
    assert is_fresh(started, 1_784_541_600.0)
    assert not is_fresh(started, 1_784_541_601.0)
    assert not is_fresh(row(started_at=""), 0.0)
