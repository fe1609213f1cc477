"""A sweep over nodes with different CPUs: every row is fitted, and each CPU is told by its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from advisor.domain import Provenance
from advisor.runs.fitting import fit_user_model
from benchmarks.several_cpus import figures
from models.performance.networks import bundled_networks
from models.performance.persistence import from_document, to_document
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


@pytest.mark.slow
def test_each_cpu_is_told_nearly_as_well_as_by_a_fit_of_its_own():
    """Simulated rows with 3 % of noise; 1.2 times the error of the fit on one CPU is allowed."""
    for cpu in figures(seed=0)["cpus"].values():
        assert cpu["ratio"] < 1.2


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


def test_a_model_of_several_cpus_is_the_same_after_saving_and_loading(fitted, rows):
    document = json.loads(json.dumps(to_document(fitted.model)))
    loaded = from_document(document, bundled_networks())
    assert loaded.pipeline.cpus == fitted.model.pipeline.cpus
    request = [(rows[0].trial.workload, rows[0].trial.resources)]
    assert loaded.predict(request) == fitted.model.predict(request)
