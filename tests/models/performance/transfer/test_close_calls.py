"""The cheapest candidate, and when a trial settles it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.performance.transfer.close_calls import (
    NEVER,
    NONE,
    Questions,
    decide,
    trial_worth,
    worth_limit,
)


def _questions(rates: list[float], deviation: float, targets: list[float]) -> Questions:
    shape = (len(targets), len(rates))
    return Questions(
        log_rates=np.broadcast_to(np.log(rates), shape),
        deviations=np.full(shape, deviation),
        log_targets=np.log(targets),
        usd_per_hour=np.arange(1.0, 1.0 + len(rates)),
    )


def test_the_cheapest_that_reaches_the_target_is_chosen() -> None:
    asked = _questions([100.0, 200.0, 400.0], 0.05, [50, 150, 390, 900])
    assert list(decide(asked, 0.0).chosen) == [0, 1, 2, NONE]


def test_the_lower_bound_is_the_more_careful_choice() -> None:
    asked = _questions([100.0, 200.0], 0.1, [95.0])
    assert decide(asked, 0.0).chosen[0] == 0
    assert decide(asked, 1.28).chosen[0] == 1


def test_a_close_call_is_tried_and_a_clear_one_is_not() -> None:
    asked = _questions([100.0, 200.0], 0.05, [98.0, 20.0])
    truth = np.log(np.array([[90.0, 210.0], [90.0, 210.0]]))
    made = decide(asked, 0.0, least_worth=0.1, truth=truth)
    assert list(made.trials) == [1, 0]
    assert list(made.chosen) == [1, 0]


def test_a_measured_candidate_needs_no_trial() -> None:
    asked = _questions([100.0], 0.0, [100.0, 101.0])
    made = decide(asked, 1.28, least_worth=0.0, truth=np.log([[100.0], [100.0]]))
    assert list(made.trials) == [0, 0]
    assert list(made.chosen) == [0, NONE]


@given(st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_the_budget_of_trials_is_kept(budget: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    asked = Questions(
        log_rates=generator.normal(size=(40, 3)),
        deviations=np.full((40, 3), 0.3),
        log_targets=generator.normal(size=40),
        usd_per_hour=np.array([1.0, 2.0, 5.0]),
    )
    truth = asked.log_rates + 0.3 * generator.normal(size=(40, 3))
    limit = worth_limit(asked, truth, 0.0, budget)
    assert decide(asked, 0.0, limit, truth).trials.mean() <= budget


def test_more_trials_leave_fewer_mistakes() -> None:
    generator = np.random.default_rng(1)
    truth = generator.normal(size=(500, 3))
    asked = Questions(
        log_rates=truth + 0.2 * generator.normal(size=truth.shape),
        deviations=np.full(truth.shape, 0.2),
        log_targets=truth[:, 0] + 0.02,
        usd_per_hour=np.array([1.0, 2.0, 5.0]),
    )
    reaches = truth >= asked.log_targets[:, None]
    best = np.where(reaches.any(axis=1), reaches.argmax(axis=1), NONE)
    wrong = [
        float((decide(asked, 0.0, worth, truth).chosen != best).mean()) for worth in (NEVER, 0.3, 0)
    ]
    assert wrong[0] > wrong[1] > wrong[2]
    assert wrong[2] == pytest.approx(0.0)


def test_a_trial_is_worth_more_where_the_next_candidate_is_dear() -> None:
    near, far = (
        Questions(
            log_rates=np.log([[100.0, 300.0]]),
            deviations=np.full((1, 2), 0.1),
            log_targets=np.log([105.0]),
            usd_per_hour=np.array([1.0, dear]),
        )
        for dear in (1.2, 6.0)
    )
    assert trial_worth(far, 0.0)[0, 0] > 5 * trial_worth(near, 0.0)[0, 0]
