"""Fits on rows, and no answer above what GPUs compute or sooner than they read, by any input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.infra.build.fitting.files import write_serving
from advisor.infra.build.fitting.serving import fit_serving, log_estimates, rows_of
from advisor.infra.build.language_sources.rows import read_serving
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Traffic
from advisor.models.language.serving import bundled_serving_predictor, read_predictor
from advisor.models.language.serving.effects import era_of, minor_version
from advisor.models.language.serving.rates import open_loop
from benchmarks.physics import Asked, broken, document
from tests.models.language.serving.test_predictor import DEPLOYMENTS as THOSE_THAT_FIT
from tests.models.language.serving.test_predictor import deployed
from tests.rows import table

CASES = table("models_cases")


def test_nothing_is_answered_above_what_gpus_can_do_even_by_a_predictor_that_believes_in_wonders():
    """Every law of `benchmarks.physics`: answers of one token as long ones, any model, card and split."""
    found = document(1200, seed=7)
    assert {law: told for law, told in found["by_law"].items() if told["violations"]} == {}
    assert found["answered"] > 600
    # Parameters that say every kernel is a hundred times faster change no limit.
    shipped = bundled_serving_predictor()
    faster = np.where([name.partition("/")[0] == "prompt" for name in shipped.names], -5, 0.0)
    wild = replace(shipped, mean=shipped.mean + faster)
    for output in (1, 2, 30, 1000):
        deployment, traffic = deployed(), Traffic(4000, output)
        asked = Asked(deployment, traffic, 64.0)
        shares = broken([asked], wild.closed_loop([deployment], traffic, [64]))
        assert max(share[0] for share in shares.values()) <= 1


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    "card", ["A100-SXM4-80GB", "L40S", "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB"]
)
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"])
def test_weights_that_are_unpacked_read_long_prompts_no_faster(predictor, model, card, engine):
    """Four-bit integers are multiplied as 16 bits: less to read helps steps, not prompts, which compute."""
    precisions = ("bf16", "int4-awq")
    formats = [deployed(model, card, 2, engine, precision) for precision in precisions]
    sixteen, four = predictor.closed_loop(formats, Traffic(8000, 1), [8, 8]).output_tokens_per_second.median
    assert four <= 1.005 * sixteen


SHORT = (1, 2, 3, 4, 10)


@pytest.mark.parametrize(
    ("model", "card", "gpus", "users"), CASES["users_who_mostly_read_prompts_get_one_rate"]
)
def test_users_who_mostly_read_prompts_get_one_rate(predictor, model, card, gpus, users):
    """Whether an answer has one token or ten, the GPUs read the same prompts; what has no room waits."""
    deployment = deployed(model, card, gpus)
    each = [predictor.closed_loop([deployment], Traffic(3100, n), [users]) for n in SHORT]
    rates = [
        float(entry.output_tokens_per_second.median[0]) / n for entry, n in zip(each, SHORT, strict=True)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 0.9 * rates[0]
    first = [float(entry.ttft_seconds.median[0]) for entry in each]
    assert first == sorted(first, reverse=True)
    assert first[0] == pytest.approx(users / rates[0])


def test_a_step_reads_only_so_many_tokens_and_a_prompt_that_arrives_waits_alike(predictor):
    """Qwen3-8B, H200, 9,000 in and 30 out by vLLM 0.18 (aiconfigurator#1148): 236.8 ms at 32, 308.8 at 64."""
    deployment, traffic = deployed("Qwen/Qwen3-8B", "H200-SXM-141GB"), Traffic(9000, 30)
    few, many, most = (predictor.closed_loop([deployment], traffic, [n]) for n in (32, 64, 128))
    assert few.tpot_seconds.lower[0] < 0.2368 < few.tpot_seconds.upper[0]
    assert many.tpot_seconds.median[0] == pytest.approx(0.3088, rel=0.15)
    assert many.ttft_seconds.median[0] == pytest.approx(10, rel=0.45)
    assert most.tpot_seconds.median[0] < 1.2 * many.tpot_seconds.median[0]
    assert most.ttft_seconds.median[0] > 2 * many.ttft_seconds.median[0]
    # Prompts queue for the GPUs, however short their answers, and longer at a higher rate.
    deployment = deployed("meta-llama/Llama-3.1-8B", "H100-SXM5-80GB")
    loads = (2.0, 5.0, 6.5)
    first = np.array(
        [
            predictor.under_load([deployment] * 3, Traffic(4000, n), loads).ttft_seconds.upper
            for n in (1, 2, 4, 16)
        ]
    )
    assert np.allclose(first, first[0], rtol=0.05)
    assert (np.diff(first) > 0).all()


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("output", [1, 16])
@pytest.mark.parametrize(
    ("model", "card"),
    [
        ("meta-llama/Llama-3.1-8B", "H100-SXM5-80GB"),
        ("meta-llama/Llama-3.1-8B", "L40S"),
        ("Qwen/Qwen2.5-0.5B", "T4"),
    ],
)
def test_time_to_first_token_leaves_room_for_a_queue(predictor, model, card, output, share):
    """Prompts of one length that arrive by themselves wait as in M/D/1 at least."""
    deployment, traffic = deployed(model, card), Traffic(4000, output)
    surely = predictor.closed_loop([deployment], traffic, [64]).output_tokens_per_second.lower[0]
    seconds = output / surely
    waits = share * seconds / (2 * (1 - share)) + seconds
    under = predictor.under_load([deployment], traffic, [share / seconds])
    assert under.ttft_seconds.upper[0] > waits


# Requests that come at random: how many are in flight, and where capacity ends.

TRAFFIC = Traffic(500, 250)


def test_few_requests_are_alone_in_flight_are_as_many_as_little_says_and_beyond_capacity_is_no_rate(
    predictor,
):
    """At a hundredth of a request a second nobody waits for anybody. Little's law, below the load at which
    requests wait for a place. A queue that only grows has no mean."""
    idle = predictor.under_load([deployed()], TRAFFIC, [0.01])
    alone = predictor.closed_loop([deployed()], TRAFFIC, [1.0])
    assert idle.tpot_seconds.median == pytest.approx(alone.tpot_seconds.median, rel=0.01)
    assert 0.4 < idle.ttft_seconds.median[0] / alone.ttft_seconds.median[0] <= 1.0
    rate = 2.0
    rates = predictor.under_load([deployed()], TRAFFIC, [rate])
    whole = rates.ttft_seconds.median + TRAFFIC.output_tokens * rates.tpot_seconds.median
    assert rates.in_flight == pytest.approx(rate * whole, rel=0.01)
    assert rates.output_tokens_per_second.median == pytest.approx(rate * 250)
    rates = predictor.under_load([deployed()], TRAFFIC, [1000.0])
    for bounds in rates[:3]:
        assert np.isnan(bounds.median[0])
        assert np.isnan(bounds.lower[0])
    assert np.isnan(rates.in_flight[0])


@settings(max_examples=30, deadline=None)
@given(THOSE_THAT_FIT, st.floats(0.01, 3), st.floats(1.05, 3))
def test_more_requests_are_never_faster(deployment, rate, times):
    """Both times grow with the load until capacity, beyond which there is no rate; but for a few
    thousandths, where prompts that are read together share their launches."""
    rates = bundled_serving_predictor().under_load([deployment] * 2, TRAFFIC, [rate, rate * times])
    for bounds in (rates.tpot_seconds, rates.ttft_seconds):
        low, high = bounds.median
        assert np.isnan(high) or high >= low * (1 - 5e-3)
    assert np.isnan(rates.in_flight[1]) or rates.in_flight[1] > rates.in_flight[0]


def test_a_place_is_waited_for_when_memory_binds():
    """One place, a constant second of service: M/M/1 at 80 % waits four services."""
    flow = open_loop(lambda in_flight: np.ones_like(in_flight), np.array([0.8]), np.array([1.0]))
    assert flow.waiting_seconds[0] == pytest.approx(4.0, rel=0.01)


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
