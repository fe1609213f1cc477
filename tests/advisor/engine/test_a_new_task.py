"""A kind of work that nobody thought of is three files (`new_task`), decided and shown as all are."""

from datetime import date

from msgspec.structs import replace

from advisor.engine.decide import recommend
from advisor.engine.relax import relaxations
from tests.advisor.engine.new_task.question import Rendering
from tests.advisor.engine.new_task.task import Renderer
from tests.advisor.engine.new_task.view import rendering_text

TODAY = date(2026, 11, 23)
SURE = {"required_confidence": 0.9}


def test_the_cheapest_that_is_enough_is_chosen_and_one_that_may_do_is_worth_a_trial():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=4, **SURE), today=TODAY)
    assert answer.chosen.spec.offer.instance.gpu_count >= 4
    costs = [candidate.spec.total_usd_per_hour for candidate in answer.ranked]
    assert costs == sorted(costs)
    assert {"too_slow"} <= set(answer.rejected_by_reason)
    assert relaxations(Renderer(), answer) == ()
    answer = recommend(Renderer(), Rendering(target_frames_per_second=8, **SURE), today=TODAY)
    assert answer.close_calls
    for call in answer.close_calls:
        assert call.candidate.spec.total_usd_per_hour < answer.chosen.spec.total_usd_per_hour
        assert call.worth_usd > call.trial_usd


def test_a_miss_counts_by_its_cost_and_the_safe_spec_stands_beside_the_cheap_one():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=8), today=TODAY)
    sure = recommend(Renderer(), Rendering(target_frames_per_second=8, **SURE), today=TODAY)
    assert 0.5 <= answer.chosen.probability < 0.9 <= answer.safe.probability
    assert answer.chosen.spec.total_usd_per_hour < answer.safe.spec.total_usd_per_hour
    assert answer.safe == sure.chosen


def test_where_nothing_is_enough_the_nearest_and_the_least_change_are_told():
    request = Rendering(target_frames_per_second=8, max_usd_per_hour=1.0, **SURE)
    answer = recommend(Renderer(), request, today=TODAY)
    assert answer.chosen is None
    assert answer.nearest.spec.total_usd_per_hour <= 1.0
    assert answer.beyond_price.spec.offer.instance.gpu_count >= 8
    changed = {way.changes[0].constraint: way for way in relaxations(Renderer(), answer)}
    needed = float(changed["max_usd_per_hour"].changes[0].after)
    gives = changed["max_usd_per_hour"].gives
    assert gives.spec.total_usd_per_hour <= needed
    less = replace(request, max_usd_per_hour=0.94 * needed)  # the next figure that somebody would type
    assert recommend(Renderer(), less, today=TODAY).chosen is None
    assert "target_frames_per_second" in changed


def test_the_answer_is_shown_as_others_are():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=8), today=TODAY)
    name, does, sure = rendering_text(answer).splitlines()
    assert f"{answer.chosen.spec.offer.instance.name} + " in name
    assert does == "  does        8 frames/s"
    assert sure.startswith("  how sure    ")
