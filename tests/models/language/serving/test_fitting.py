"""Fits on rows: what they teach, and what an answer leaves out."""

import numpy as np
import pytest

from advisor.infra.build.fitting.files import write_serving
from advisor.infra.build.fitting.serving import fit_serving, log_estimates, rows_of
from advisor.infra.build.language_sources.rows import read_serving
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import bundled_gpu_facts
from advisor.models.language.serving import bundled_serving_predictor, read_predictor
from advisor.models.language.serving.effects import era_of, minor_version
from tests.rows import table

CASES = table("models_cases")


@pytest.fixture(scope="module")
def values():
    """Static batches of one source: dense models on A100 and H100."""
    rows = [row for row in read_serving() if row.fit and row.source == "argonne"]
    return rows_of(rows[::4], bundled_language_models(), bundled_gpu_facts())


def test_a_fit_explains_its_rows_and_scaled_rows_scale_answers(values):
    """Rows at twice the seconds are answered with about twice the seconds."""
    shipped = bundled_serving_predictor()
    once = fit_serving(values, shipped=shipped)
    mean, doubt = log_estimates(once, values)
    off = np.abs(mean - np.log([value.seconds for value in values]))
    assert np.median(off) < 0.12
    assert (doubt > 0).all()
    slower = [value._replace(seconds=2 * value.seconds) for value in values]
    twice, _ = log_estimates(fit_serving(slower, shipped=shipped), values)
    assert np.median(twice - mean) == pytest.approx(np.log(2), abs=0.2)


def test_a_bundle_is_read_as_it_was_written(tmp_path):
    """The files hold the same predictor to the digits that they keep."""
    shipped = bundled_serving_predictor()
    write_serving(shipped, tmp_path)
    again = read_predictor(tmp_path)
    assert again.names == shipped.names
    assert again.versions == shipped.versions
    assert again.mean == pytest.approx(shipped.mean, rel=1e-4)
    assert again.covariance == pytest.approx(shipped.covariance, abs=1e-4)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * 300_000


def test_rows_that_the_form_does_not_cover_are_left_out():
    """Pipelines, attention in copies, cards of other vendors, models that are unknown."""
    row = next(row for row in read_serving() if row.source == "argonne" and row.fit)
    models, gpus = bundled_language_models(), bundled_gpu_facts()
    assert rows_of([row], models, gpus)
    for other in (
        row._replace(gpus=2 * row.tensor_parallel),
        row._replace(gpu="MI300X"),
        row._replace(model="nobody/knows-it"),
        row._replace(concurrency=1e6),
    ):
        assert rows_of([other], models, gpus) == []


def test_who_waits_for_a_place_is_not_in_a_step():
    """First tokens that count the wait of one request are not fitted; the others' times are."""
    row = next(row for row in read_serving() if "one-waits" in row.flags)
    values = rows_of([row], bundled_language_models(), bundled_gpu_facts())
    assert {value.quantity: value.sequences for value in values} == dict.fromkeys(
        ("each_token", "rate"), row.concurrency - 1
    )


@pytest.mark.parametrize(("engine", "version", "minor", "era"), CASES["a_version_has_a_year"])
def test_a_version_has_a_year(engine, version, minor, era):
    """Rows of one year share what their engines had learnt."""
    assert minor_version(version) == minor
    assert era_of(engine, minor) == era


def test_gpus_have_their_links_and_formats():
    """Data sheets: A10G's 70 TFLOP/s, no FP8 before Ada, NVLink one way, FP4 on Blackwell."""
    gpus = bundled_gpu_facts()
    assert gpus["A10G"].tflops == 70
    assert gpus["A100-SXM4-80GB"].fp8_tflops == 0
    assert gpus["H100-SXM5-80GB"].nvlink_gb_s == 450
    assert gpus["L4"].nvlink_gb_s == 0
    assert gpus["B200-SXM-180GB"].fp4_tflops == 2 * gpus["B200-SXM-180GB"].fp8_tflops
    assert not gpus["T4"].has_bf16
