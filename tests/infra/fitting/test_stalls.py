"""How a real GPU joins its host is what public runs on real data tell."""

import csv
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.infra.build.fitting.stalls import (
    STALL_PRIORS,
    StalledRuns,
    fit_stalls,
    host_speeds,
    joined_log_rates,
    stalled_runs,
)
from advisor.models.performance import load_model
from advisor.models.performance.join import exponents
from advisor.models.performance.pipeline import PIPELINE_PRIORS

ROWS = Path("infra/build/performance_sources/stalls.csv")
PARAMETERS = load_model().pipeline.parameters


@pytest.fixture(scope="module")
def runs() -> StalledRuns:
    with ROWS.open(newline="") as file:
        return stalled_runs(list(csv.DictReader(file)))


@pytest.mark.slow
def test_the_priors_of_a_sweeps_fit_are_what_the_shipped_runs_tell(runs):
    found, sigmas = fit_stalls(runs, PARAMETERS)
    for name in STALL_PRIORS:
        assert PIPELINE_PRIORS[name][0] == pytest.approx(found[name], abs=0.01)
        assert PIPELINE_PRIORS[name][1] > sigmas[name]


def test_a_fit_finds_the_join_that_made_the_runs(runs):
    """Runs of two hosts made by known parameters, without noise."""
    truth = {**PARAMETERS, "join/queue": 0.3, "join/training": -0.2, "join/several_gpus": 0.05}
    some = runs.take(np.array([host[0] in "7P" for host in runs.hosts.tolist()]))
    speeds = dict.fromkeys(set(some.hosts.tolist()), 3.0)
    made = replace(some, real=np.exp(joined_log_rates(some, speeds, truth)))
    found, _ = fit_stalls(made, PARAMETERS)
    for name in STALL_PRIORS:
        assert found[name] == pytest.approx(truth[name], abs=0.05)
    assert host_speeds(made, truth) == pytest.approx(speeds, abs=0.05)


def test_an_exponent_is_a_queues_and_grows_with_the_batches_ahead():
    """None ahead: times add. One: 2/3 of either side's rate where both are equal."""
    plain = {"join/gamma": 0.0, "join/queue": 0.0, "join/training": 0.0}
    gamma = exponents(np.zeros(3), np.array([1.0, 2.0, 8.0]), plain)
    assert 2 ** (-1 / gamma) == pytest.approx([2 / 3, 3 / 4, 9 / 10])
    assert exponents(np.zeros(1), np.array([1e-9]), plain)[0] == pytest.approx(1.0)
