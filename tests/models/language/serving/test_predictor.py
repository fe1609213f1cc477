"""The predictor that ships: physics that hold for every deployment, bounds, and own trials."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, ServingObservation, Traffic
from advisor.models.language.serving import BINDS, bundled_serving_predictor
from advisor.models.language.serving.rates import MOST_SEQUENCES, sequences_held

NAMES = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-R1",
    "openai/gpt-oss-120b",
)
CARDS = ("H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB", "A100-SXM4-80GB", "L40S")
TRAFFIC = Traffic(1000, 200)


def deployed(name=NAMES[0], card=CARDS[0], gpus=1, engine="vllm", precision="bf16", link="nvlink"):
    model, gpu = bundled_language_models().find(name), bundled_gpu_facts()[card]
    return Deployment(model, precision, "bf16", engine, gpu, gpus, "none" if gpus == 1 else link)


DEPLOYMENTS = st.builds(
    deployed,
    st.sampled_from(NAMES),
    st.sampled_from(CARDS),
    st.sampled_from([4, 8]),
    st.sampled_from(["vllm", "sglang", "trtllm"]),
    st.sampled_from(["bf16", "fp8"]),
)
# What hypothesis would else make up of a Traffic: lengths that spread, and bursts. Users think or do not, and
# start together or long ago.
PLAIN = (
    *(st.just(False), st.just(0.0), st.just(0.0), st.just(1.0), st.floats(0, 4000)),
    *(st.just(0.0) | st.floats(1e-3, 100), st.booleans()),
)
TRAFFICS = st.builds(Traffic, st.floats(16, 8000), st.floats(16, 2000), st.just(0.0), *PLAIN)


@settings(max_examples=100, deadline=None)
@given(
    DEPLOYMENTS,
    st.builds(Traffic, st.floats(16, 8000), st.floats(1, 2000), st.just(0.0), *PLAIN),
    st.floats(1, 500),
    st.floats(1.1, 4),
)
def test_more_bandwidth_is_never_slower(deployment, traffic, concurrency, times):
    """Also where more prompts come between the steps than there are steps. Long after the start faster steps
    bring requests sooner, and prompts wait for more of them: there the whole is sooner."""
    gpu = deployment.gpu
    faster = deployment._replace(gpu=gpu._replace(bandwidth_gb_s=gpu.bandwidth_gb_s * times))
    predictor = bundled_serving_predictor()
    rates = predictor.closed_loop([deployment, faster], traffic, [concurrency] * 2)
    tpot, ttft = rates.tpot_seconds.median, rates.ttft_seconds.median
    first = ttft if traffic.starts_together else ttft + (traffic.output_tokens - 1) * tpot
    for slow, fast in (tpot, first):
        assert np.isnan(slow) or fast <= slow * (1 + 1e-5)  # as loads are found


@settings(max_examples=40, deadline=None)
@given(DEPLOYMENTS, TRAFFICS, st.floats(1, 200), st.floats(1.05, 3))
def test_more_sequences_give_each_user_no_more_tokens(deployment, traffic, concurrency, times):
    """Sequences share the memory's bandwidth and wait for each other's prompts."""
    predictor = bundled_serving_predictor()
    pair = [deployment, deployment]
    rates = predictor.closed_loop(pair, traffic, [concurrency, concurrency * times])
    few, many = rates.tpot_seconds.median
    assert np.isnan(few) or many >= few * (1 - 1e-9)
    first, later = rates.ttft_seconds.median
    assert np.isnan(first) or later >= first * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(DEPLOYMENTS, TRAFFICS, st.floats(1, 5000), st.floats(0.55, 0.97))
def test_bounds_are_ordered_and_nothing_exceeds_the_cache(deployment, traffic, concurrency, confidence):
    """Lower, median, upper; sequences in flight fit in the KV cache."""
    rates = bundled_serving_predictor().closed_loop([deployment], traffic, [concurrency], confidence)
    held = sequences_held([deployment], np.array([traffic.input_tokens]), np.array([traffic.output_tokens]))
    if held[0] < 1:
        assert np.isnan(rates.tpot_seconds.median[0])
        return
    assert rates.in_flight[0] <= held[0]
    for bounds in rates[:3]:
        assert 0 < bounds.lower[0] <= bounds.median[0] <= bounds.upper[0]


def test_users_beyond_the_cache_wait_and_the_rate_stays(predictor):
    """What is not held queues: its time is in the first token's."""
    held = predictor.closed_loop([deployed()], TRAFFIC, None).in_flight[0]
    assert held <= MOST_SEQUENCES
    full, twice = (predictor.closed_loop([deployed()], TRAFFIC, [users]) for users in (held, 2 * held))
    assert twice.output_tokens_per_second.median == pytest.approx(full.output_tokens_per_second.median)
    assert twice.ttft_seconds.median[0] > full.ttft_seconds.median[0] + 1


@settings(max_examples=40, deadline=None)
@given(DEPLOYMENTS, TRAFFICS, st.integers(1, 200), st.floats(0.1, 60))
def test_users_who_think_hardly_are_as_those_who_never_do(deployment, traffic, users, think):
    """Every time and percentile goes over into that of no thought; who thinks longer has less in flight, and
    its tokens no later."""
    thinks = (0, 1e-5, think, 2 * think)
    traffics = [traffic._replace(think_seconds=each, starts_together=False) for each in thinks]
    rates = bundled_serving_predictor().closed_loop([deployment] * 4, traffics, [users] * 4)
    never, hardly, some, longer = rates.tpot_seconds.median
    assert np.isnan(never) or (hardly >= some * (1 - 1e-9) and some >= longer * (1 - 1e-9))
    for column in (*rates[:3], *rates.tails):
        for values in np.atleast_2d(column):
            assert values[1] == pytest.approx(values[0], rel=1e-3, nan_ok=True)
    never, hardly, some, longer = rates.in_flight
    assert np.isnan(never) or longer <= some <= hardly == pytest.approx(never, rel=1e-3)


def test_a_cached_prefix_shortens_the_first_token_and_equal_lengths_come_in_waves(predictor):
    """Its tokens are not computed again, and stand in the cache as before. Those that start together stay
    together: first tokens wait longer, the replica is as fast."""
    rates = predictor.closed_loop(
        [deployed()] * 2, [Traffic(4000, 100), Traffic(4000, 100, 0.75)], [8.0, 8.0]
    )
    whole, cached = rates.ttft_seconds.median
    assert cached < 0.7 * whole
    sglang = deployed()._replace(engine="sglang")
    rates = predictor.closed_loop(
        [sglang] * 2, [Traffic(1000, 200), Traffic(1000, 200, equal_lengths=True)], [16.0] * 2
    )
    drawn, waves = rates.ttft_seconds.median
    assert waves > 1.2 * drawn
    drawn, waves = rates.output_tokens_per_second.median
    assert waves == pytest.approx(drawn, rel=0.25)


def test_a_trial_under_arrivals_moves_their_first_token(predictor):
    """A load that arrives by itself tells of such loads."""
    deployment = deployed(card="L4")
    before = predictor.under_load([deployment], TRAFFIC, [0.5]).ttft_seconds.median[0]
    trial = ServingObservation(deployment, TRAFFIC, 3.0, requests_per_second=0.5, ttft_seconds=2 * before)
    after = predictor.conditioned([trial]).under_load([deployment], TRAFFIC, [0.5]).ttft_seconds
    assert after.median[0] > 1.4 * before


def test_what_binds_is_one_of_the_words(predictor):
    """One sequence of a large model waits for its weights; long prompts bind where answers are short."""
    rates = predictor.closed_loop(
        [deployed(NAMES[1], gpus=4), deployed()], [Traffic(100, 500), Traffic(8000, 16)], [1, 32]
    )
    assert [BINDS[code] for code in rates.binds] == ["weights", "prefill"]


@pytest.mark.parametrize(("card", "times"), [("B300-SXM-270GB", 0.7), ("L4", 1.6)])
def test_own_trials_move_the_answer_towards_them(predictor, card, times):
    """After one trial the same setting is predicted near it, narrower; others move that way."""
    deployment, other = deployed("mistralai/Mistral-7B-v0.1", card), deployed("Qwen/Qwen3-8B", card)
    before = predictor.closed_loop([deployment, other], TRAFFIC, [4.0, 4.0]).tpot_seconds
    measured = before.median[0] * times
    trial = ServingObservation(deployment, TRAFFIC, 4.0, tpot_seconds=measured)
    own = predictor.conditioned([trial])
    after = own.closed_loop([deployment, other], TRAFFIC, [4.0, 4.0]).tpot_seconds
    assert abs(np.log(after.median[0] / measured)) < 0.5 * abs(np.log(times))
    assert after.lower[0] < measured < after.upper[0]
    assert after.upper[0] / after.lower[0] < before.upper[0] / before.lower[0]
    assert (after.median[1] > before.median[1]) == (times > 1)
    assert own.known([deployment])[0] == "tried" != own.known([other])[0]
    assert predictor.conditioned([]) is predictor


def test_what_was_not_measured_is_named_until_a_trial_is_of_it(predictor):
    """A GPU and a model without rows; a user's trial of both leaves nothing to name."""
    models = bundled_language_models()
    t4 = Deployment(models.find("Qwen/Qwen2.5-3B"), "fp16", "fp16", "vllm", bundled_gpu_facts()["T4"])
    gpu, model = map(str, predictor.unmeasured(t4))
    assert "T4" in gpu
    assert "Qwen2.5-3B" in model
    known = t4._replace(model=models.find("meta-llama/Llama-3.1-8B"), gpu=bundled_gpu_facts()["L4"])
    assert predictor.unmeasured(known) == ()
    trial = ServingObservation(deployment=t4, traffic=Traffic(1000, 200), concurrency=4, tpot_seconds=0.03)
    assert predictor.conditioned([trial]).unmeasured(t4) == ()
