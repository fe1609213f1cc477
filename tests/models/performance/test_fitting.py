"""The fit finds the physics it was given, leaves out what it must, and refuses nonsense."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.domain import IMAGENET, ON_CPU, LimitedBy, Stack, Stage, Status, Task, Workload
from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.models.performance.fit_pipeline import trials_of
from advisor.models.performance.networks import bundled_networks
from advisor.runs.fitting import fit_user_model, reference_cpu
from tests.models.performance.synthetic import measure, measurement, resources, trials, true_parameters

HELD_BACK = {"hw_thermal_slowdown": 0.4}
pytestmark = pytest.mark.vector


@pytest.fixture(scope="module")
def parameters():
    """A host half as fast, and a disk that gives less, than the priors expect."""
    return true_parameters(host__seconds_per_byte=math.log(1.5e-8), join__gamma=math.log(4.0))


@pytest.fixture(scope="module")
def fitted(parameters):
    return fit_user_model(measure(trials(), parameters))


def test_held_out_trials_are_predicted_as_well_as_the_noise_allows(fitted):
    """3 % of noise leaves a median error of about 2 %; the target is 10 %."""
    assert fitted.model.error_percent < 5


def test_noise_free_trials_of_another_seed_agree_with_the_fit(fitted, parameters):
    """What was fitted on noisy trials predicts the truth itself within a few per cent."""
    truth = measure(trials(), parameters, noise=0.0)
    requests = [(m.trial.workload, m.trial.resources) for m in truth if m.trial.accelerator.is_cpu]
    rates = [m.throughput_samples_per_second for m in truth if m.trial.accelerator.is_cpu]
    predicted = [p.median for p in fitted.model.predict(requests)]
    assert np.median(np.abs(np.array(predicted) / rates - 1)) < 0.04


def test_the_soft_knee_is_recovered(fitted):
    """Parameters that the sweep determines come out near their true values."""
    found = fitted.model.pipeline.parameters
    assert abs(found["storage/disk_efficiency"]) < 0.08


def test_networks_on_the_sweeps_cpu_are_told_from_its_steps_and_others_move_along(fitted):
    """All are 22 % faster there than the step times that ship say."""
    machine = resources(vcpus=2.0, memory_mib=1e6, read=None)
    asked = [
        (Workload(network=name, task=Task.INFERENCE, batch_size=32, dataset=IMAGENET), machine)
        for name in ("googlenet", "resnet18")
    ]
    ratios = [
        mine.stage_rates[Stage.ACCELERATOR] / shipped.stage_rates[Stage.ACCELERATOR]
        for mine, shipped in zip(fitted.model.predict(asked), load_model().predict(asked), strict=True)
    ]
    assert ratios[0] == pytest.approx(np.exp(0.2), rel=0.05)
    assert 1.05 < ratios[1] < 1.3


def test_measurements_that_ended_badly_or_unlimited_are_never_fitted(parameters):
    """Absurd rates in rows that must not count change nothing, and are told by reason."""
    good = measure(trials(), parameters)
    absurd = replace(good[0].trial, accelerator=ON_CPU, emulated_step_seconds=None)
    compiled = replace(absurd.workload, stack=Stack.COMPILE)
    bad = [
        measurement(absurd, 1e9, status=Status.CONTAMINATED),
        measurement(absurd, 1e9, status=Status.OUT_OF_MEMORY),
        measurement(absurd, 1e9, limited_by=LimitedBy.NONE),
        replace(measurement(absurd, 1.0), step_seconds=(math.nan,)),
        replace(measurement(absurd, 1.0), step_seconds=()),
        replace(measurement(absurd, 1.0), step_seconds=(-0.1, -0.2)),  # a clock that ran backwards
        replace(measurement(absurd, 1.0), step_seconds=(0.0,)),
        measurement(replace(absurd, workload=compiled), 1e9),
        measurement(replace(absurd, resources=replace(absurd.resources, gpu_count=4)), 1e9),
        replace(measurement(absurd, 1e9), environment={"gpu_other_processes": 1}),
        replace(measurement(absurd, 1e9), environment={"gpu_throttle_reasons": HELD_BACK}),
    ]
    result = fit_user_model([*good, *bad])
    assert result.model.pipeline == fit_user_model(good).model.pipeline
    assert dict(result.left_out) == {
        "heat or a hardware brake held its GPU's clocks back": 1,
        "its limits were not enforced": 1,
        "no finite rate": 4,
        "other processes computed on its GPU": 1,
        "ran on several GPUs: the step of one of them is learned, not its pipeline": 1,
        "ran with stack, which the model does not know": 1,
        "status contaminated": 1,
        "status out_of_memory": 1,
    }


def test_the_fewest_measurements_are_fitted_without_a_warning(parameters):
    """Warnings are errors here; a fold of one trial once had an R squared."""
    fewest = measure(trials()[::2][:12], parameters)
    assert fit_user_model(fewest).fitted == 12


def test_too_few_measurements_are_refused_with_the_way_out(parameters):
    with pytest.raises(DataError, match=r"3 usable measurements are too few.*sweep run"):
        fit_user_model(measure(trials(), parameters)[:3])


def test_measurements_that_are_all_equal_are_refused(parameters):
    """A constant teaches nothing, and a fit to it would claim certainty."""
    same = [measurement(trial, 64.0) for trial in trials()]
    with pytest.raises(DataError, match="same rate"):
        fit_user_model(same)


def test_the_order_of_measurements_does_not_change_the_fit_much(parameters):
    """Folds are dealt by position, the parameters are not."""
    rows = measure(trials(), parameters)
    forward, backward = fit_user_model(rows), fit_user_model(rows[::-1])
    for name, value in forward.model.pipeline.parameters.items():
        assert backward.model.pipeline.parameters[name] == pytest.approx(value, abs=0.02)


def test_measurements_that_contradict_each_other_widen_the_interval(parameters):
    """Half of the trials ten times as fast as the other half, for no reason: wide, not sure."""
    good = measure(trials(), parameters)
    torn = [
        replace(m, step_seconds=tuple(s / 10 for s in m.step_seconds)) if fast else m
        for fast, m in zip(np.random.default_rng(0).random(len(good)) < 0.5, good, strict=True)
    ]
    calm, unsure = fit_user_model(good), fit_user_model(torn)
    assert unsure.model.error_percent > 5 * calm.model.error_percent
    request = (good[0].trial.workload, good[0].trial.resources)
    sure, wide = (found.model.predict([request])[0] for found in (calm, unsure))
    assert wide.upper / wide.lower > 2 * sure.upper / sure.lower


def test_a_bus_that_a_trial_measured_takes_the_place_of_the_assumed_one(parameters):
    (row, *_), networks = measure(trials()[:1], parameters), bundled_networks()
    runs = {"stage_runs": {"transfer": {"mib_per_second": 5_000.0}}}
    measured = replace(row, environment={**row.environment, **runs})
    assumed, known = (
        trials_of([one], networks, reference_cpu).columns.copy_bytes_per_second[0] for one in (row, measured)
    )
    assert known == pytest.approx(5_000.0 * 2**20)
    assert assumed != pytest.approx(known)
