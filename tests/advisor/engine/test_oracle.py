"""Ten thousand random questions, each answered a second time the long way."""

import math
from datetime import date

import pytest
from hypothesis import HealthCheck, given, note, settings

from advisor.engine import Preparations, recommend
from advisor.errors import NoIntervalError, NoOfferError
from advisor.models.performance import load_model
from tests.popular import POPULAR

from .oracle.brute_force import BruteForce
from .oracle.model import OracleModel
from .oracle.requests import questions, real_questions
from .oracle.truths import is_true
from .oracle.world import real_world

TODAY = date(2026, 7, 21)
MODEL = OracleModel()
REAL, MODEL_THAT_SHIPS = real_world(), load_model()
# Prices of disks are searched whole. Where a sample's cost counts, the search over the orders of a
# disk ends near the best one, from whatever start (test_runs.py says how near).
EXACT, BY_SAMPLE = 1 + 1e-9, 1 + 5e-4


def slack(request):
    by_price = request.target_throughput is not None and request.run_samples is None
    return EXACT if by_price else BY_SAMPLE


def asked(place, request, model=MODEL):
    """The answer; None where no offer or no interval lets there be one."""
    try:
        return recommend(request, Preparations(place.catalog, model), today=TODAY)
    except (NoIntervalError, NoOfferError):
        return None


def cost(request, candidate):
    if candidate.usd_per_run is not None:
        return candidate.usd_per_run.median
    if request.target_throughput is not None:
        return candidate.spec.total_usd_per_hour
    return candidate.spec.total_usd_per_hour / candidate.prediction.median


def cost_of(request, answer):
    """What the cheapest costs at the median of its price: a price may be told as what is not sure
    enough to be chosen (test_prices.py)."""
    chosen = answer.chosen if answer else None
    if answer and answer.price_call and answer.price_call.cheaper:
        chosen = answer.price_call.cheaper
    return cost(request, chosen) if chosen else math.inf


def check(place, request, seed, model=MODEL):
    """Ask, work it out the long way, and give what the answer costs (infinite: none)."""
    answer, truth = asked(place, request, model), BruteForce(place, request, model, seed)
    costs = cost_of(request, answer)
    least, *_, point = truth.cheapest(costs)
    assert costs <= least * slack(request), point
    clouds = {name: cloud for cloud, name in truth.types}
    for one in answer.rejected if answer else ():
        assert is_true(truth, clouds[one.instance_type], one.instance_type, one.reason), one
    return costs


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(questions(count=5))
def test_the_answer_is_the_cheapest_one_every_reason_is_true_and_asking_more_costs_more(drawn):
    """Worlds of their own; five pairs of a question and a tighter one in each."""
    place, pairs, seed = drawn
    for request, limit, tighter in pairs:
        note(f"tightened: {limit}")
        assert check(place, request, seed) <= check(place, tighter, seed) * slack(request)


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(real_questions(REAL, POPULAR))
def test_the_shipped_catalogue_and_model_answer_so_too(drawn):
    request, limit, tighter, seed = drawn
    note(f"tightened: {limit}")
    costs = check(REAL, request, seed, MODEL_THAT_SHIPS)
    assert costs <= check(REAL, tighter, seed, MODEL_THAT_SHIPS) * slack(request)
