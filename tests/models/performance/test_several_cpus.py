"""A sweep over nodes with different CPUs: every row is fitted, and each CPU is told by its own."""

import json
import math

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.domain import Provenance, Task
from advisor.models.performance.fit_pipeline import held_out_residuals, trials_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.persistence import from_document, to_document
from advisor.runs.fitting import fit_user_model, reference_cpu
from tests.models.performance.synthetic import CPU_KINDS, sweep_over_cpus

pytestmark = pytest.mark.vector


@pytest.fixture(scope="module")
def rows():
    return sweep_over_cpus()


@pytest.fixture(scope="module")
def fitted(rows):
    return fit_user_model(rows)


def test_the_rows_of_every_cpu_are_fitted(fitted, rows):
    assert fitted.fitted == len(rows)
    assert not fitted.left_out
    assert len(fitted.model.pipeline.cpus) == len(CPU_KINDS)
    assert " on 3 CPUs" in fitted.model.trained_on


def held_out_errors(rows):
    """The median error of held-out trials, by CPU."""
    residuals = held_out_residuals(trials_of(rows, bundled_networks(), reference_cpu))
    names = np.array([row.environment["cpu_model"] for row in rows])
    errors = np.abs(np.expm1(residuals))
    return {str(name): float(np.median(errors[names == name])) for name in np.unique(names)}


@pytest.mark.slow
def test_each_cpu_is_told_nearly_as_well_as_by_a_fit_of_its_own(rows):
    """Simulated rows with 3 % of noise; 1.2 times the error of the fit on one CPU is allowed."""
    together = held_out_errors(rows)
    for cpu in CPU_KINDS:
        alone = held_out_errors([row for row in rows if row.environment["cpu_model"] == cpu])[cpu]
        assert together[cpu] < 1.2 * alone


def test_a_machine_with_a_measured_cpu_is_predicted_by_what_was_measured_on_it(fitted, rows):
    """Its mark alone would be off by the fifth that the CPU strays from it."""
    for name in ("Intel Xeon Platinum 8259CL", "AMD EPYC 7R32"):
        ours = [r for r in rows if name.split()[-1] in r.environment["cpu_model"]]
        ours = [row for row in ours if row.trial.accelerator.is_cpu]
        requests = [
            (
                row.trial.workload,
                replace(row.trial.resources, cpu=replace(row.trial.resources.cpu, model=name)),
            )
            for row in ours
        ]
        ratios = [
            predicted.median / row.throughput_samples_per_second
            for predicted, row in zip(fitted.model.predict(requests), ours, strict=True)
            if predicted.provenance is Provenance.MEASURED
        ]
        assert len(ratios) > len(ours) / 2
        assert sorted(ratios)[len(ratios) // 2] == pytest.approx(1.0, abs=0.06)


EPYC = "AMD EPYC 7R32"


def host_bound(row):
    """Whether its few cores bound the trial."""
    return row.trial.accelerator.is_emulated and row.trial.resources.vcpus <= 2


def gpu_bound(row):
    """Whether its GPU bound the trial, since the cores were many."""
    return row.trial.accelerator.is_emulated and row.trial.resources.vcpus >= 16


def preprocessing_on(rows, name, vcpus=2.0):
    """What preprocessing does on so many vCPUs of that CPU."""
    row = next(r for r in rows if r.environment["cpu_model"] == name)
    machine = row.trial.resources
    cpu = replace(machine.cpu, model=name)
    disk = replace(machine.disk, read_mib_per_second=4000.0)
    return replace(row.trial.workload, task=Task.PREPROCESSING), replace(
        machine, vcpus=vcpus, physical_cores=vcpus / 2, cpu=cpu, memory_mib=65536.0, disk=disk
    )


def log_width(predicted):
    return math.log(predicted.upper / predicted.lower)


def with_so_many_of_another(rows, count, bound=host_bound):
    """All rows of one CPU with few of EPYC."""
    (first, *_), other = CPU_KINDS, [row for row in rows if row.environment["cpu_model"] == EPYC]
    ours = [row for row in rows if row.environment["cpu_model"] == first]
    return [*ours, *[row for row in other if bound(row)][:count]]


def test_a_cpu_with_one_trial_is_as_much_in_doubt_as_before_and_surer_with_more(rows):
    """The one trial is held up by its GPU, and tells nothing of the cores."""
    asked = preprocessing_on(rows, EPYC)
    of_one = with_so_many_of_another(rows, 1, gpu_bound)
    widths, provenances, sigmas = [], [], []
    for fitted_on in (of_one, with_so_many_of_another(rows, 4), with_so_many_of_another(rows, 36)):
        model = fit_user_model(fitted_on).model
        (predicted,) = model.predict([asked])
        unknown = replace(asked[1], cpu=replace(asked[1].cpu, model=""))
        (carried,) = model.predict([(asked[0], unknown)])
        widths.append(log_width(predicted) / log_width(carried))
        provenances.append(predicted.provenance)
        sigmas.append(model.pipeline.core_trials[0].speed_sigma)
    assert widths[0] > 0.97
    assert sigmas[0] > sigmas[1] > sigmas[2] > 0
    assert provenances == [Provenance.MODELLED, Provenance.MODELLED, Provenance.MEASURED]


def test_more_vcpus_than_a_cpu_was_measured_on_are_not_measured_though_another_cpu_had_them(rows):
    few = [r for r in rows if r.environment["cpu_model"] != EPYC or r.trial.resources.vcpus <= 2]
    model = fit_user_model(few).model
    (inside, beyond) = model.predict([preprocessing_on(rows, EPYC, 2.0), preprocessing_on(rows, EPYC, 16.0)])
    assert inside.provenance is Provenance.MEASURED
    assert beyond.provenance is Provenance.MODELLED
    assert any("up to 2 vCPUs, not 16" in str(note) for note in beyond.extrapolation)
    assert log_width(beyond) > log_width(inside)


def test_a_model_of_several_cpus_is_the_same_after_saving_and_loading(fitted, rows):
    document = json.loads(json.dumps(to_document(fitted.model)))
    loaded = from_document(document, bundled_networks())
    assert loaded.pipeline.cpus == fitted.model.pipeline.cpus
    request = [(rows[0].trial.workload, rows[0].trial.resources)]
    assert loaded.predict(request) == fitted.model.predict(request)
