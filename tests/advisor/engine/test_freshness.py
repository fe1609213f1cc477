"""`--strict`: the cheapest whose price is not too old, and what brings newer prices."""

from datetime import date
from functools import partial

import pytest

from advisor.catalog import load_catalog
from advisor.domain import Market, Task
from advisor.domain.price_age import is_old
from advisor.engine import Preparations, recommend
from advisor.engine.prices import fresh_answer
from advisor.errors import StalePriceError
from tests.advisor.engine.plain_model import PlainModel
from tests.builders import network_question

TODAY = date(2026, 11, 23)
answered = partial(recommend, preparations=Preparations(load_catalog(), PlainModel()), today=TODAY)


def asked(**changes):
    same = {"network": "resnet50", "task": Task.TRAINING, "target_throughput": 100.0}
    return network_question(**{**same, "region": None, **changes})


def test_the_cheapest_whose_price_is_not_old_is_the_answer():
    request = asked(cloud="any")
    prices = [one.spec.offer.price for one in answered(request).ranked]
    assert any(is_old(price, TODAY) for price in prices)
    fresh = fresh_answer(request, answered, TODAY)
    assert fresh.chosen is not None
    assert not any(is_old(one.spec.offer.price, TODAY) for one in fresh.ranked)
    assert fresh.chosen.spec.total_usd_per_hour >= answered(request).chosen.spec.low_usd_per_hour


@pytest.mark.parametrize(
    ("place", "way"),
    [
        ({"cloud": "lambda"}, "`advisor catalog import`"),
        ({"cloud": "aws", "market": Market.SPOT}, "`advisor catalog refresh --cloud aws --region"),
    ],
)
def test_where_old_prices_alone_answer_the_error_names_what_brings_newer_ones(place, way):
    with pytest.raises(StalePriceError, match=f"of {place['cloud']} is .* days old") as raised:
        fresh_answer(asked(**place), answered, TODAY)
    assert str(raised.value.hint).startswith(("refresh it (", "`advisor catalog import`"))
    assert way in str(raised.value.hint)


def test_where_nothing_answers_at_any_price_that_is_no_matter_of_age():
    nothing = fresh_answer(asked(target_throughput=1e12), answered, TODAY)
    assert nothing.chosen is None
