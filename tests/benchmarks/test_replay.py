"""Percentiles that are told, against published closed loops and an engine that is replayed."""

import numpy as np
import pytest

from advisor.models.language.deployments import Traffic
from benchmarks.replay import Load, answered, deployed, measured, replayed


def test_published_percentiles_are_met() -> None:
    errors = measured()
    assert errors["ttft_p99"]["mean_percent"] <= 25
    assert errors["ttft_p99"]["median_percent"] <= 21
    assert errors["users_within_limits"]["mean_percent"] <= 20
    assert errors["tpot_p95"]["mean_percent"] <= 25


def test_percentiles_are_told_as_a_replayed_engine_has_them() -> None:
    for load in replayed():
        for name in ("ttft_p99", "tpot_p95", "tpot_p99"):
            assert 1 / 3 < load[name] < 3
        if load["starts_together"]:
            assert 1 / 2.5 < load["ttft_p50"] < 2.5


@pytest.mark.parametrize("load", [Load(Traffic(900, 200), users=20), Load(Traffic(900, 200), rate=6.0)])
def test_percentiles_rise_and_lengths_that_spread_move_them_apart(load: Load) -> None:
    spread = load._replace(traffic=load.traffic._replace(input_sigma=0.8, output_sigma=0.8))
    plain, wide = (answered(deployed(), each).tails for each in (load, spread))
    assert plain is not None
    assert wide is not None
    for times, wider in zip(plain, wide, strict=True):
        assert (np.diff(times[:, 0]) >= 0).all()
        assert wider[-1, 0] >= times[-1, 0]
    bursts = load._replace(traffic=load.traffic._replace(burstiness=0.3))
    first, later = (answered(deployed(), each).ttft_seconds.median[0] for each in (load, bursts))
    assert later > first if load.rate else later == first
