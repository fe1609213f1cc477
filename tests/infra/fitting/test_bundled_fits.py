"""What ships of GPU memory is what public peaks teach."""

import pytest
from msgspec.structs import replace

from advisor.domain import Precision, Status
from advisor.infra.build.fitting.bundled_model import PUBLISHED_FOLDER
from advisor.infra.build.fitting.cpu_fit import ROWS, cpu_rows, is_same, measured_cpu_steps, rebuilt
from advisor.infra.build.fitting.memory import fit_peaks, public_peaks
from advisor.infra.build.fitting.observations import observation_frame
from advisor.infra.build.fitting.step_times import held_out
from advisor.models.performance.cpu_step_times import bundled_cpu_step_times
from advisor.models.performance.fit import errors_of
from advisor.models.performance.memory.peak import bundled_peak_model
from advisor.runs.fitting import measurements_from

pytestmark = pytest.mark.vector


def test_what_ships_is_what_the_committed_peaks_teach():
    fitted = fit_peaks(public_peaks(observation_frame(PUBLISHED_FOLDER)))
    shipped = bundled_peak_model()
    assert shipped.context_mib == pytest.approx(fitted.context_mib, abs=1)
    assert shipped.errors == pytest.approx(fitted.errors, abs=1e-4)
    assert shipped.trained_on == fitted.trained_on


# The bundled step times of CPUs are what the bundled steps give.


MEASUREMENTS = measurements_from(ROWS)


def test_bundled_step_times_are_of_whole_results_in_fp32_and_tell_no_host():
    keys = {f"{row.cell.network}/{row.cell.step.conditions.task}" for row in measured_cpu_steps()}
    assert keys == bundled_cpu_step_times().networks
    for one in MEASUREMENTS:
        assert "host" not in one.environment
        assert "CPU seconds" in one.environment["timing"]
        assert not one.trial.dataset_path
    first = MEASUREMENTS[0]
    amp = replace(first.trial, workload=replace(first.trial.workload, precision=Precision.AMP))
    spoiled = replace(first, status=Status.CONTAMINATED)
    assert len(cpu_rows([first, spoiled, replace(first, trial=amp)])) == 1


@pytest.mark.slow
def test_the_bundled_step_times_are_what_the_rows_give():
    assert is_same(rebuilt(), bundled_cpu_step_times())


@pytest.mark.slow
def test_networks_and_batches_held_out_are_told_as_well_as_the_documents_say():
    found = {name: -held.residuals for name, held in held_out(measured_cpu_steps()).items()}
    for name, mean, median in (("network", 13.6, 9.9), ("cell", 11.6, 8.7)):
        errors = errors_of(found[name])
        assert errors.mean == pytest.approx(mean, abs=0.5)
        assert errors.median == pytest.approx(median, abs=0.7)
