"""Over all clouds, types dearer than the last that is shown are not looked at: nothing is lost."""

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.answers.context import model_in_use
from advisor.catalog import load_catalog
from advisor.domain import Precision, Task
from advisor.engine import Preparations, recommend
from tests.builders import network_question

CATALOG, MODEL = load_catalog(), model_in_use(None)
TODAY = date(2026, 8, 30)
SMALL = network_question(
    network="googlenet", task=Task.INFERENCE, target_throughput=300, region=None, max_results=4
)
LARGE = replace(SMALL, network="resnet50", precision=Precision.AMP, target_throughput=3000)
# In the middle of CPUs and cards, and beyond all but a few cards.
BOTH = pytest.mark.parametrize("request_", [SMALL, LARGE], ids=["small", "large"])


def answer(request, known=None):
    return recommend(request, known or Preparations(CATALOG, MODEL), today=TODAY)


def specs(ranked):
    return [
        (
            candidate.spec.total_usd_per_hour,
            candidate.spec.offer.instance.cloud,
            candidate.spec.offer.instance.name,
        )
        for candidate in ranked
    ]


@BOTH
def test_the_best_over_all_clouds_are_the_best_of_each(request_):
    """Each cloud asked alone looks at every type with an accelerator."""
    known = Preparations(CATALOG, MODEL)
    each = [
        usd
        for cloud in filter(CATALOG.is_in_dollars, CATALOG.clouds)
        for usd, *_ in specs(answer(replace(request_, cloud=cloud), known).ranked)
    ]
    everywhere = specs(answer(replace(request_, cloud="any")).ranked)
    assert sorted(usd for usd, *_ in everywhere) == sorted(each)[:4]


@BOTH
def test_a_second_question_is_answered_as_the_first(request_):
    """What was prepared meanwhile changes neither the specs nor what is turned down."""
    known, everywhere = Preparations(CATALOG, MODEL), replace(request_, cloud="any")
    first = answer(everywhere, known)
    answer(replace(everywhere, max_results=60), known)
    again = answer(everywhere, known)
    assert specs(again.ranked) == specs(first.ranked)
    assert again.rejected_counts == first.rejected_counts
    assert again.offers_considered == first.offers_considered


def test_nothing_is_left_out_where_nothing_answers():
    """Then every type is turned down, and says why."""
    far = replace(LARGE, cloud="any", target_throughput=1e7)
    recommendation = answer(far)
    assert recommendation.chosen is None
    assert recommendation.offers_considered > 500
    assert {"p5.48xlarge", "g4dn.xlarge"} <= {
        rejection.instance_type for rejection in recommendation.rejected
    }
