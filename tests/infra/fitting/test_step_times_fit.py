"""The fit finds what was planted in synthetic rows: how cards differ from their sheets."""

import csv
import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from advisor.errors import DataError
from advisor.infra.build.fitting import observations
from advisor.infra.build.fitting.network_effects import fitted, posterior_of
from advisor.infra.build.fitting.observations import (
    OBSERVATIONS,
    columns,
    measured_steps,
    observation_frame,
    question_conditions,
)
from advisor.infra.build.fitting.stalls import STALL_PRIORS, DecodeRegressor
from advisor.infra.build.fitting.step_times import Residual, StepTimeRegressor, quantiles_of
from advisor.infra.build.performance_sources.frames import STEP_COLUMNS
from advisor.infra.build.performance_sources.observations import COLUMNS
from advisor.models.bayes import Parameters
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.frames import checked_frame
from advisor.models.performance.pipeline import PIPELINE_PRIORS, exponents
from advisor.models.performance.step_time import steps_of
from tests.rows import table

CASES = table("infra_cases")

GPUS = ("T4", "V100-SXM2-16GB", "A100-SXM4-40GB", "RTX 3090", "L4")
NETWORKS = ("resnet50", "resnet18", "vgg16", "densenet121", "mobilenet_v2")
NOISE = 0.03
# Log efficiency of arithmetic and memory beside what the sheet tells.
PLANTED = {"T4": -0.25, "L4": 0.2}


@pytest.fixture(scope="module")
def frame():
    """200 steps as the form has them, with two cards slower and faster than their sheets."""
    rng = np.random.default_rng(0)
    hows = [("inference", "amp"), ("training", "amp"), ("training", "fp32"), ("inference", "fp32")]
    usual = {"stack": "eager", "tf32": "conv", "gpu_count": 1, "sigma": NOISE, "fit": 1, "source": "someone"}
    cells = [
        {"gpu": gpu, "network": network, "task": task, "precision": precision, "batch_size": batch, **usual}
        for gpu, network, (task, precision), batch in product(GPUS, NETWORKS, hows, (64.0, 256.0))
    ]
    frame = checked_frame(pd.DataFrame(cells, columns=list(STEP_COLUMNS)), STEP_COLUMNS)
    parameters = Parameters()
    steps = steps_of([row.cell.step for row in measured_steps(frame, only_fitted=False)[0]], parameters)
    theta = np.array([prior.mean for prior in parameters.priors])
    for name, place in parameters.place.items():
        gpu = name.partition("/")[2].rpartition("/")[0]
        if name.startswith("gpu/") and name.rpartition("/")[2] in ("simt", "tensor", "memory"):
            theta[place] = PLANTED.get(gpu, 0.0)
        if name.startswith(("source/", "host/")):
            theta[place] = 0.0
    logs = steps.log_seconds(theta) + NOISE * rng.standard_normal(len(cells))
    return frame.assign(step_seconds=np.exp(logs))


@pytest.fixture(scope="module")
def rows(frame):
    return measured_steps(frame)[0]


@pytest.fixture(scope="module")
def fit(rows):
    return fitted(*columns(rows))


def test_planted_cards_are_found_on_their_side_and_a_wrong_row_bends_nothing(rows, fit):
    """Part goes to the architecture and the prior; which card is slow, and which fast, is told."""
    assert len(rows) == 200
    result = dict(zip(fit.names, fit.mean, strict=True))

    def of(gpu):
        return sum(
            value
            for name, value in result.items()
            if name.startswith((f"gpu/{gpu}/", f"architecture/{paced_gpu(gpu).compute_capability}/"))
            and not name.endswith("launch")
        )

    assert of("T4") < -0.1
    assert of("L4") > 0.1
    assert of("T4") < of("A100-SXM4-40GB") < of("L4")
    # A public row that is ten times off is left alone by the others.
    cells, logs, sigma = columns(rows)
    logs = np.array(logs)
    logs[17] += np.log(10)
    bent = fitted(cells, logs, sigma, start=fit)
    assert bent.weights[17] < 0.05 * np.median(bent.weights)
    straight = np.delete(bent.residuals, 17) - np.delete(fit.residuals, 17)
    assert np.median(np.abs(straight)) < 0.02


def test_what_only_sources_did_is_left_out_of_what_predicts(rows):
    def published(row):
        step = row.cell.step
        step = step._replace(conditions=step.conditions._replace(source="s", host="h"))
        return row._replace(cell=row.cell._replace(step=step))

    result = fitted(*columns([published(row) for row in rows[:40]]))
    of_sources = [name for name in result.names if name.startswith(("source/", "host/"))]
    assert of_sources
    assert not set(of_sources) & set(posterior_of(result, {}).names)


def test_what_was_held_out_weighs_alike_however_many_rows_it_has():
    rows = [Residual(0.0, "much", "today/computing")] * 90 + [Residual(2.0, "little", "today/computing")] * 10
    values = quantiles_of({"cell": rows})["cell"]
    assert np.mean(np.array(values) == 2.0) == pytest.approx(0.5, abs=0.02)


def test_fitted_step_times_know_what_they_were_taught_and_no_unknown_name(frame):
    model = StepTimeRegressor(calibrate=False).fit(frame, frame["step_seconds"])
    times = model.step_times_
    assert times.quantiles == {}
    assert "resnet50/training" in times.networks
    assert any(gpu.startswith("T4/") for gpu in times.gpus)
    assert not any(gpu.startswith("H100/") for gpu in times.gpus)
    assert {"7.5", "8.9"} <= times.capabilities
    assert model.score(frame, frame["step_seconds"]) > 0.98
    first = frame.index < 50
    wrong = frame["step_seconds"] * np.where(first, 3.0, 1.0)
    model = StepTimeRegressor(calibrate=False).fit(frame, wrong, sample_weight=(~first).astype(float))
    rest = clone(model).fit(frame[~first], frame["step_seconds"][~first])
    assert model.predict(frame) == pytest.approx(rest.predict(frame), rel=1e-9)
    strange = pd.concat([frame[:40], frame[40:42].assign(gpu=["No Such Card", "T4"], network="no_such_net")])
    model = StepTimeRegressor(calibrate=False).fit(strange, strange["step_seconds"])
    assert dict(model.unknown_.gpus) == {"No Such Card": 1}
    told, deviations = model.predict(strange, return_std=True)
    assert np.isfinite(told).tolist() == [True] * 40 + [False] * 2
    assert (deviations[:40] > 0).all()


# Rows of measured steps are read as they were run; what nobody knows is counted by name.


# A line of the table.
LINE = "someone,resnet50,training,eager,pytorch-2.1,,,fp32,conv,T4,1,32,3x224x224,0.3,,,,1,MIT"
ROW = dict(zip(COLUMNS, LINE.split(","), strict=True))


@pytest.mark.parametrize(("framework", "version", "era"), CASES["versions_sort_and_have_an_age"])
def test_versions_sort_and_have_an_age(framework, version, era):
    """2.10 is younger than 2.9, and what is kept up today needs no word."""
    assert observations.torch_version(framework) == pytest.approx(version)
    assert observations.era_of(observations.torch_version(framework)) == era


def read(tmp_path, *changes):
    with gzip.open(tmp_path / OBSERVATIONS, "wt", newline="") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerows({**ROW, **change} for change in changes)
    rows, unknown = measured_steps(observation_frame(tmp_path))
    return [row for row in rows if row], unknown


@pytest.mark.parametrize("change", CASES["rows_that_may_not_be_fitted_are_not"])
def test_rows_that_may_not_be_fitted_are_not(tmp_path, change):
    rows, unknown = read(tmp_path, change)
    assert not any((rows, unknown.networks, unknown.gpus))


def test_rows_say_how_they_ran_are_asked_so_and_unknown_names_are_left_out(tmp_path):
    (row,), _ = read(tmp_path, {"sigma": "0.24", "memory_format": "channels_last"})
    how = row.cell.step.conditions
    assert (row.cell.network, row.seconds, row.is_pytorch) == ("resnet50", 0.3, True)
    assert row.sigma == pytest.approx(0.25)  # its own error, and what sources scatter by
    assert (how.gpu.name, how.memory_format, how.tf32) == ("T4", "channels_last", "convolutions")
    assert row.cell.step.batch_size == 32
    _, logs, sigmas = columns([row])
    assert logs[0] == pytest.approx(-1.204, abs=1e-3)
    assert sigmas[0] == row.sigma
    # What a publisher did in its step is told, who it was is not.
    published = {"source": "pytorch-gpu-benchmark", "host": "h"}
    rows, _ = read(tmp_path, published, {"stack": "compile"}, {"stack": "torchscript"})
    assert rows[0].cell.step.conditions.copies_input
    hows = [question_conditions(row.cell.step.conditions) for row in rows]
    assert [how.stack for how in hows] == ["eager", "compile", "eager"]
    assert all(how.source == how.host == "" for how in hows)
    assert [how.copies_input for how in hows] == [True, False, False]
    assert question_conditions(hows[0]) == hows[0]
    rows, unknown = read(tmp_path, {}, *[{"network": "no_such_net"}] * 2, {"gpu": "No Such Card"})
    assert len(rows) == 1
    assert (dict(unknown.networks), dict(unknown.gpus)) == ({"no_such_net": 2}, {"No Such Card": 1})


@pytest.mark.parametrize(("change", "unfused"), CASES["old_software_has_no_fused_attention"])
def test_old_software_has_no_fused_attention(change, unfused):
    assert observations.conditions_of({**ROW, **change}, paced_gpu("T4")).unfused_attention is unfused


def test_a_checkout_without_its_table_says_where_it_belongs(tmp_path):
    with pytest.raises(DataError, match="part of a checkout"):
        observation_frame(tmp_path)
    (tmp_path / OBSERVATIONS).write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        observation_frame(tmp_path)


# How a real GPU joins its host is what public runs on real data tell.

ROWS = Path("infra/build/performance_sources/stalls.csv")
PARAMETERS = load_model().pipeline.parameters


@pytest.fixture(scope="module")
def runs():
    return pd.read_csv(ROWS)


@pytest.mark.slow
def test_the_priors_of_a_sweeps_fit_are_what_the_shipped_runs_tell(runs):
    model = DecodeRegressor(decoding=PARAMETERS).fit(runs, runs["real_samples_per_second"])
    for name in STALL_PRIORS:
        assert PIPELINE_PRIORS[name][0] == pytest.approx(model.parameters_[name], abs=0.01)
        assert PIPELINE_PRIORS[name][1] > model.sigmas_[name]


def test_an_exponent_is_a_queues_and_grows_with_the_batches_ahead():
    """None ahead: times add. One: 2/3 of either side's rate where both are equal."""
    plain = {"join/gamma": 0.0, "join/queue": 0.0, "join/training": 0.0}
    gamma = exponents(np.zeros(3), np.array([1.0, 2.0, 8.0]), plain)
    assert 2 ** (-1 / gamma) == pytest.approx([2 / 3, 3 / 4, 9 / 10])
    assert exponents(np.zeros(1), np.array([1e-9]), plain)[0] == pytest.approx(1.0)
