"""A close call is told where one trial pays, and never changes what is recommended."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import CloseCallKind, Task
from advisor.domain.decision import trial_cost_usd
from advisor.engine.limits import chances_of_reaching
from tests.builders import network_question

from .asking import answered, question

questions = st.builds(
    network_question,
    network=st.just("googlenet"),
    task=st.sampled_from(list(Task)),
    target_throughput=st.floats(min_value=20, max_value=20_000),
    confidence=st.sampled_from([0.5, 0.8, 0.9, 0.95]),
    horizon_hours=st.floats(min_value=0.01, max_value=10_000),
    max_usd_per_hour=st.one_of(st.none(), st.floats(min_value=0.3, max_value=50)),
    max_results=st.sampled_from([1, 10]),
    gpus=st.sampled_from([(), ("T4", "A10G", "L4")]),
    accelerated_only=st.just(True),
)


@given(
    st.floats(1.0, 1e5),
    st.floats(0.0, 1.0),
    st.floats(1.0, 10.0),
    st.floats(0.01, 1e6),
    st.floats(1.0, 100.0),
)
def test_a_chance_is_a_probability_and_never_rises_with_the_target(median, low, high, target, factor):
    here, above = (chance(low * median, median, high * median, rate) for rate in (target, target * factor))
    assert 0.0 <= above <= here <= 1.0


def chance(lower, median, upper, target):
    return chances_of_reaching(*(np.array([rate]) for rate in (lower, median, upper)), 0.9, target)[0]


def test_an_interval_is_a_normal_distribution_split_at_the_median_and_one_rate_a_step():
    for target, expected in ((80.0, 0.9), (100.0, 0.5), (150.0, 0.1)):
        assert chance(80.0, 100.0, 150.0, target) == pytest.approx(expected)
    assert chance(100.0, 100.0, 100.0, 99.0) == 1.0
    assert chance(100.0, 100.0, 100.0, 101.0) == 0.0


@given(questions)
def test_a_close_call_pays_and_stays_below_the_chosen_price(request):
    answer = answered(request)
    for call in answer.close_calls:
        assert 0.0 <= call.probability <= 1.0
        assert call.trial_usd < call.worth_usd
        usd = call.candidate.spec.total_usd_per_hour
        if call.kind is CloseCallKind.CHEAPER_MAY_REACH:
            assert usd < answer.chosen.spec.total_usd_per_hour
            misses = 0.0 if request.is_sure else 1 - answer.chosen.probability
            spent = answer.chosen.spec.total_usd_per_hour * (1 + misses)
            assert call.worth_usd <= (spent - usd) * request.horizon_hours + 1e-9
            assert call.candidate.prediction.lower < request.target_throughput
        elif call.kind is CloseCallKind.CHOSEN_MAY_MISS:
            assert call.candidate is answer.chosen
            assert call.saves_usd_per_hour >= 0
        else:
            assert answer.chosen is None
        assert usd <= (request.max_usd_per_hour or float("inf"))


@given(questions, st.floats(min_value=0.01, max_value=10_000))
def test_the_horizon_changes_what_is_told_and_never_what_is_recommended(request, other):
    answer = answered(request)
    two = answered(replace(request, horizon_hours=other))
    assert answer.ranked == two.ranked
    assert answer.nearest == two.nearest
    assert answer.rejected == two.rejected


def ask(**changes):
    return answered(question(accelerated_only=True, **changes))


def test_a_cheaper_spec_that_may_reach_the_target_is_worth_a_trial_that_pays():
    answer = ask(target_throughput=290)
    first = answer.close_calls[0]
    assert first.kind is CloseCallKind.CHEAPER_MAY_REACH
    assert first.instead is answer.chosen
    assert 0.5 < first.probability < 0.9
    assert ask(target_throughput=290, horizon_hours=0.05).close_calls == ()
    assert ask().close_calls == ()
    assert trial_cost_usd(6.0, minutes=0.2) == pytest.approx(0.1)
    assert trial_cost_usd(6.0, minutes=9.2) == pytest.approx(1.0)
    assert trial_cost_usd(6.0, minutes=10) == pytest.approx(1.0)


@given(
    st.floats(min_value=20, max_value=5_000),
    st.integers(min_value=1, max_value=20),
    st.sampled_from(list(Task)),
)
@pytest.mark.slow
def test_with_a_run_a_borderline_candidate_is_cheaper_by_the_run(target, epochs, task):
    answer = ask(target_throughput=target, epochs=epochs, task=task)
    for call in answer.close_calls:
        assert call.trial_usd < call.worth_usd
        if call.instead is None:
            assert call.saves_usd_per_run is None
            continue
        costs = [each.usd_per_run.median for each in (call.candidate, call.instead)]
        assert call.saves_usd_per_run == pytest.approx(costs[1] - costs[0])
        assert call.saves_usd_per_run >= 0
        assert call.worth_usd <= 2 * max(costs)  # a chosen one of an even chance is paid twice
