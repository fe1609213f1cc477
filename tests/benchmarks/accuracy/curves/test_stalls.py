"""Real-data rates from synthetic ones: never above them, and learnt from other hosts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.curves.stalls import STALL_PRIORS, StallColumns, StallModel, fit_stalls

PRIOR = StallModel(parameters={name: mean for name, (mean, _) in STALL_PRIORS.items()})


def columns(synthetic, probe_real, probe_synthetic=20_000.0, training=0.0, pixels=1.0):
    synthetic = np.atleast_1d(np.asarray(synthetic, dtype=float))
    full = np.full(len(synthetic), 1.0)
    return StallColumns(
        synthetic=synthetic,
        probe_real=full * probe_real,
        probe_synthetic=full * probe_synthetic,
        pixels=full * pixels,
        training=full * training,
        fp32=full * 0,
        several_gpus=full * 0,
    )


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.sampled_from([0.0, 1.0]))
def test_real_data_are_never_faster_than_the_network_or_the_pipeline(synthetic, probe, training):
    asked = columns(synthetic, probe, probe_synthetic=1e6, training=training)
    rate = PRIOR.predict(asked)[0]
    assert rate <= synthetic * (1 + 1e-9)
    assert rate <= PRIOR.pipeline_rate(asked)[0] * (1 + 1e-9)


@given(st.floats(10, 1e4))
def test_the_probe_predicts_itself(synthetic):
    real = 0.6 * synthetic
    asked = columns(synthetic, real, probe_synthetic=synthetic)
    assert PRIOR.predict(asked)[0] == pytest.approx(real)


def test_a_probe_that_nothing_slows_means_a_fast_pipeline():
    asked = columns(100.0, 20_500.0, probe_synthetic=20_000.0)
    assert PRIOR.predict(asked)[0] == pytest.approx(100.0, rel=0.01)


def test_the_sharpness_of_the_join_is_found_again():
    parameters = {**PRIOR.parameters, "log_gamma": float(np.log(1.4)), "pixels": 0.5}
    truth = StallModel(parameters=parameters)
    asked = columns(np.geomspace(100, 10_000, 60), 800.0)
    found = fit_stalls(asked, truth.predict(asked))
    errors = found.predict(asked) / truth.predict(asked) - 1
    assert np.abs(errors).max() < 0.02


def test_without_measurements_the_prior_answers():
    nothing = columns(np.empty(0), 800.0)
    found = fit_stalls(nothing, np.empty(0))
    assert found.parameters == pytest.approx(PRIOR.parameters)
