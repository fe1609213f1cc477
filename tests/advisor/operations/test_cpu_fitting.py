"""The bundled rates of CPUs are what the bundled steps give."""

from dataclasses import replace

import pytest

from advisor.domain import Precision, Status
from advisor.operations.cpu_fitting import ROWS, all_rows, cpu_rows
from advisor.operations.fitting import measurements_from
from models.performance.cpu import bundled_cpu_rates
from models.performance.cpu.fitting import fit_parameters
from models.performance.networks import bundled_networks

MEASUREMENTS = measurements_from(ROWS)


def test_every_measured_network_is_in_the_bundled_rates():
    rows = all_rows(MEASUREMENTS)
    assert {f"{row.network}/{row.task}" for row in rows} == bundled_cpu_rates().networks
    assert max(row.cores for row in rows) == bundled_cpu_rates().largest_cores


def test_rows_tell_no_host_and_how_they_were_timed():
    for one in MEASUREMENTS:
        assert "host" not in one.environment
        assert "CPU seconds" in one.environment["timing"]
        assert not one.trial.dataset_path


def test_only_whole_results_in_fp32_are_learnt_from():
    first = MEASUREMENTS[0]
    amp = replace(first.trial, workload=replace(first.trial.workload, precision=Precision.AMP))
    spoiled = replace(first, status=Status.CONTAMINATED)
    assert len(cpu_rows([first, spoiled, replace(first, trial=amp)])) == 1


@pytest.mark.slow
def test_the_bundled_parameters_are_what_the_rows_give():
    rates = bundled_cpu_rates()
    found = fit_parameters(all_rows(MEASUREMENTS), bundled_networks(), rates.form)
    # Logarithms; the sums of another CPU's BLAS stop the search a few thousandths off.
    assert found == pytest.approx(dict(rates.parameters), abs=0.02)
