"""After a sweep the better model is kept, on trials that neither has seen."""

import json
from datetime import UTC, datetime
from importlib.resources import files

import jsonschema
import pytest
from msgspec.structs import replace

from advisor.domain import ON_ANY_GPU, Task, Workload
from advisor.models.performance import load_model, save_model
from advisor.places import own_model_path, user_folder
from advisor.runs.fitting import fit_user_model, measurements_from
from advisor.runs.refit import after_sweep, split_rows
from advisor.store.measurements import open_store
from benchmarks.bundled_model import BUNDLED_MEASUREMENTS
from tests.sweeps.builders import measurement, resources, trial

THEN, NOW = "2026-11-01T00:00:00+00:00", "2026-11-20T00:00:00+00:00"
DUE = datetime(2026, 11, 19, tzinfo=UTC).timestamp()


def slower(row, factor, **changes):
    return replace(row, step_seconds=tuple(factor * second for second in row.step_seconds), **changes)


def rows_of(sizes, started_at):
    return [
        measurement(trial=trial(resources=resources(memory_mib=size)), started_at=started_at)
        for size in sizes
    ]


def test_what_a_run_replaced_is_what_the_store_held_before_it():
    kept, replaced = rows_of((1.0,), THEN), rows_of((2.0, 3.0), THEN)
    fresh, new = rows_of((2.0, 3.0), NOW), rows_of((4.0,), NOW)
    rows = split_rows([*kept, *fresh, *new], [*rows_of((2.0,), "2026-10-01"), *replaced], DUE)
    assert rows.fresh == (*fresh, *new)
    assert rows.before == (*kept, *replaced)


def measured_before_and_after(factor):
    """A store with the bundled sweep, of which some trials were measured again."""
    good = [replace(row, started_at=THEN) for row in measurements_from(BUNDLED_MEASUREMENTS)]
    store = open_store()
    store.append_all(good)
    for row in good[::3]:
        store.join(slower(row, factor, started_at=NOW), lambda _row, fresh: fresh)
    store.close()
    return good


def described(report):
    schema = json.loads((files("advisor.render") / "schemas/schedule.schema.json").read_text())
    run = schema["$defs"]["ScheduledRun"]["properties"]
    for name in ("fit", "drift"):
        jsonschema.validate(report[name], {**run[name], "$defs": schema["$defs"]})


@pytest.mark.slow
def test_a_machine_that_became_slower_is_noticed_and_learnt():
    before = measured_before_and_after(1.4)
    last = fit_user_model(before).model
    save_model(last, own_model_path())
    report = after_sweep(DUE)
    described(report)
    fit, drift = report["fit"], report["drift"]
    assert fit["last_is_held_out"]
    assert fit["kept"] == "new"
    assert fit["new_error_percent"]["median"] <= fit["last_error_percent"]["median"]
    assert load_model(own_model_path()).id == fit["new_model"] != last.id
    assert load_model(user_folder() / "models" / f"{last.id}.json").id == last.id
    assert drift["compared"] == fit["held_out_rows"] == 13
    assert drift["beyond_interval"] >= 12  # one rate, from the slow disk, is hardly known
    assert drift["median_change_percent"] == pytest.approx(-28.6, abs=0.1)


@pytest.mark.slow
def test_the_last_model_stays_where_the_new_one_is_worse(monkeypatch):
    import numpy as np

    measured_before_and_after(1.0)
    monkeypatch.setattr(
        "advisor.models.performance.fit_pipeline.unseen_residuals",
        lambda _on, scored, *_, **__: np.full(len(scored), 0.5),
    )
    report = after_sweep(DUE)
    described(report)
    assert report["fit"]["kept"] == "last"
    assert not report["fit"]["last_is_held_out"]
    assert "worse than" in report["fit"]["why"]
    assert not own_model_path().exists()


def test_too_few_rows_to_fit_on_are_told():
    store = open_store()
    store.append_all(rows_of((1.0, 2.0), NOW))
    store.close()
    report = after_sweep(DUE)
    described(report)
    assert report["fit"]["kept"] == "last"
    assert "too few" in report["fit"]["why"]
    assert report["drift"]["compared"] == 0


def test_steps_of_a_real_gpu_are_taken_where_trials_are_too_few_for_a_pipeline():
    """The pipeline of the last model stays, and its file knows the GPU."""
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=32)
    planned = replace(trial(), workload=workload, accelerator=ON_ANY_GPU, emulated_step_seconds=None, plan={})
    row = measurement(
        trial=planned,
        stage_rates={"accelerator": 100.0},
        environment={"gpu": "Tesla T4", "versions": {"torch": "2.13.0"}},
        started_at=NOW,
    )
    store = open_store()
    store.append_all([row])
    store.close()
    report = after_sweep(DUE)
    described(report)
    assert report["fit"]["kept"] == "last"
    assert "too few" in report["fit"]["why"]
    own = load_model(own_model_path())
    assert [step.seconds for step in own.gpu_observations.steps] == [pytest.approx(0.32)]
    assert own.pipeline == load_model().pipeline
    assert own.trained_on == f"{load_model().trained_on}; 1 step measured on T4"
