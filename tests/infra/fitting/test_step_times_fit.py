"""The fit finds what was planted in synthetic rows: how cards differ from their sheets."""

from itertools import product

import numpy as np
import pytest

from advisor.domain import Task
from advisor.infra.build.fitting.gpus import fit_step_times
from advisor.infra.build.fitting.network_effects import fitted, network_blocks, posterior_of
from advisor.infra.build.fitting.observations import MeasuredStep, columns
from advisor.models.bayes import Parameters
from advisor.models.performance import paced_gpu
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.posterior import Cell
from advisor.models.performance.step_parameters import Conditions, Step
from advisor.models.performance.step_time import steps_of

GPUS = ("T4", "V100-SXM2-16GB", "A100-SXM4-40GB", "RTX 3090", "L4")
NETWORKS = ("resnet50", "resnet18", "vgg16", "densenet121", "mobilenet_v2")
NOISE = 0.03
# Log efficiency of arithmetic and memory beside what the sheet tells.
PLANTED = {"T4": -0.25, "L4": 0.2}


@pytest.fixture(scope="module")
def rows():
    """200 steps as the form has them, with two cards slower and faster than their sheets."""
    table, rng = bundled_networks(), np.random.default_rng(0)
    cells, families = [], []
    hows = [("inference", "amp"), ("training", "amp"), ("training", "fp32"), ("inference", "fp32")]
    for gpu, network, (task, precision), batch in product(GPUS, NETWORKS, hows, (64.0, 256.0)):
        facts, how = table[network], Conditions(paced_gpu(gpu), task, precision)
        step = Step(facts.kernels[Task(task)], facts.parameters, facts.input_bytes, batch, how)
        cells.append(Cell(network, step))
        families.append(facts.family)
    parameters = Parameters()
    steps = steps_of([cell.step for cell in cells], parameters)
    theta = np.array([prior.mean for prior in parameters.priors])
    for name, place in parameters.place.items():
        gpu = name.partition("/")[2].rpartition("/")[0]
        if name.startswith("gpu/") and name.rpartition("/")[2] in ("simt", "tensor", "memory"):
            theta[place] = PLANTED.get(gpu, 0.0)
    seconds = np.exp(steps.log_seconds(theta) + NOISE * rng.standard_normal(len(cells)))
    return [
        MeasuredStep(cell, float(value), NOISE, "someone", family, True)
        for cell, value, family in zip(cells, seconds, families, strict=True)
    ]


@pytest.fixture(scope="module")
def fit(rows):
    return fitted(*columns(rows))


def test_planted_cards_are_found_on_their_side(rows, fit):
    """Part goes to the architecture and the prior; which card is slow, and which fast, is told."""
    assert len(rows) == 200
    found = dict(zip(fit.names, fit.mean, strict=True))

    def of(gpu):
        return sum(
            value
            for name, value in found.items()
            if name.startswith((f"gpu/{gpu}/", f"architecture/{paced_gpu(gpu).compute_capability}/"))
            and not name.endswith("launch")
        )

    assert of("T4") < -0.1
    assert of("L4") > 0.1
    assert of("T4") < of("A100-SXM4-40GB") < of("L4")


def test_the_rows_are_explained_as_well_as_their_noise_allows(fit):
    assert np.median(np.abs(fit.residuals)) < 2 * NOISE


def test_a_wrong_row_weighs_little_and_bends_nothing(rows, fit):
    """A public row that is ten times off is left alone by the others."""
    cells, logs, sigma = columns(rows)
    logs = np.array(logs)
    logs[17] += np.log(10)
    bent = fitted(cells, logs, sigma, start=fit)
    assert bent.weights[17] < 0.05 * np.median(bent.weights)
    straight = np.delete(bent.residuals, 17) - np.delete(fit.residuals, 17)
    assert np.median(np.abs(straight)) < 0.02


def test_rows_of_a_network_are_tied_together(rows):
    """Each network is a block of its own; rows of one cell share most."""
    blocks = network_blocks([row.cell for row in rows])
    assert {block.network for block in blocks} == set(NETWORKS)
    shared = blocks[0].shared
    assert (np.diag(shared) >= shared.max(axis=1) - 1e-12).all()
    assert shared.min() > 0


def test_what_only_sources_did_is_left_out_of_what_predicts(rows):
    strange = [
        row._replace(
            cell=row.cell._replace(
                step=row.cell.step._replace(
                    conditions=row.cell.step.conditions._replace(source="s", host="h")
                )
            )
        )
        for row in rows[:40]
    ]
    found = fitted(*columns(strange))
    assert any(name.startswith(("source/", "host/")) for name in found.names)
    kept = posterior_of(found, {}).names
    assert not any(name.startswith(("source/", "host/")) for name in kept)


def test_fitted_step_times_know_what_they_were_taught(rows):
    times = fit_step_times(rows, [], calibrate=False)
    assert times.quantiles == {}
    assert "resnet50/training" in times.networks
    assert any(gpu.startswith("T4/") for gpu in times.gpus)
    assert not any(gpu.startswith("H100/") for gpu in times.gpus)
    assert {"7.5", "8.9"} <= times.capabilities
    predicted = times.posterior.predict([row.cell for row in rows]).mean
    assert np.median(np.abs(predicted - np.log([row.seconds for row in rows]))) < 2 * NOISE
