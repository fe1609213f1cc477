"""An answer that depends on a price that is not listed, in text and JSON."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from advisor.domain import ESTIMATED, OBSERVED, Change, Market, PriceCall, Relaxation, Task
from advisor.naming import place_texts
from advisor.render.content import English
from advisor.render.document import Sources, plain, recommendation_document
from advisor.render.i18n.catalogue import report_texts
from advisor.render.price_doubt import price_doubt_block, price_lines, resting_lines
from advisor.render.sentences import price_call_leaves
from advisor.render.views.network import LINES, recommendation_text
from advisor.units import format_usd
from tests.advisor.render import language_answers
from tests.builders import PRICED, candidate, close_call, network_question, recommendation, rejected

SOURCES = Sources(
    model_id="9f2c4e1b77aa0c3d",
    trained_on="3,359 rows",
    error_percent=9.5,
    catalog_as_of="2026-07-20",
    catalog_sources=("a list",),
)


def estimated(name="g5.xlarge", usd=0.4):
    one = candidate(name, usd)
    price = replace(one.spec.offer.price, kind=ESTIMATED, low=0.5, high=2.0)
    return replace(one, spec=replace(one.spec, offer=replace(one.spec.offer, price=price)))


def answer(chosen, **call):
    return recommendation(ranked=(chosen,), price_call=PriceCall(**call), today=PRICED)


def test_the_first_line_says_how_the_price_is_known_and_names_the_listed_spec():
    (line,) = resting_lines(answer(estimated(), listed=candidate(usd_per_hour=1.5)))
    assert line == "Estimated price ($0.217 to $0.817/h); cheapest listed: g4dn.xlarge at $1.517/h."
    price = replace(candidate().spec.offer.price, as_of=PRICED - timedelta(days=1000))
    one = candidate(usd_per_hour=1.5)
    offer = replace(one.spec.offer, price=replace(price, usd_per_hour=1.5))
    old = replace(one, spec=replace(one.spec, offer=offer))
    assert "; cheapest of an old list: g4dn.xlarge at" in resting_lines(answer(estimated(), listed=old))[0]
    (line,) = resting_lines(answer(estimated(), listed=None))
    assert line == "Estimated price ($0.217 to $0.817/h); no listed price answers this."


def test_what_may_be_cheaper_is_borderline_on_price_with_the_command_that_asks_for_todays():
    told = answer(candidate(), listed=candidate(), cheaper=estimated())
    assert resting_lines(told) == []
    text = " ".join(line.strip() for line in price_lines(told))
    assert "Borderline on price: g5.xlarge (on-demand, us-east-1) may be cheaper" in text
    assert "$0.217 to $0.817/h" in text
    assert "advisor catalog refresh --cloud aws --region us-east-1 --instance g5.xlarge" in text


def test_alternatives_say_what_their_prices_are():
    """Estimated, a list that is old today, a market that is not on demand; nothing of today's."""
    one = candidate()
    offer = one.spec.offer
    old = replace(offer, price=replace(offer.price, as_of=PRICED - timedelta(days=1000)))
    spot = replace(offer, market=Market.SPOT)
    others = [replace(one, spec=replace(one.spec, offer=each)) for each in (old, spot)]
    request = replace(recommendation().request, market=None)
    assert place_texts([one, estimated(), *others], request, PRICED) == [
        "us-east-1",
        "us-east-1, estimated",
        "us-east-1, old list",
        "us-east-1, spot",
    ]
    assert place_texts([one, one], request, PRICED) == []


def at_market_price(one):
    """The same, at an observed price that is half as much or twice."""
    price = replace(one.spec.offer.price, kind=OBSERVED, low=0.5, high=2.0)
    return replace(one, spec=replace(one.spec, offer=replace(one.spec.offer, price=price)))


def sentences(answer):
    return [str(one) for one in price_doubt_block(answer)["sentences"]]


def no_target(answer):
    names = ("target_output_tokens_per_second", "target_requests_per_second", "users")
    return replace(answer, request=replace(answer.request, **dict.fromkeys(names)))


RANKED_BY = pytest.mark.parametrize(
    ("whole", "cost_of", "per"),
    [
        (
            recommendation(request=network_question(network="googlenet", task=Task.INFERENCE)),
            lambda one: one.usd_per_million_samples,
            "per million samples",
        ),
        (
            no_target(language_answers.generation_recommendation()),
            lambda one: one.usd_per_million_output_tokens.median,
            "per million output tokens",
        ),
        (language_answers.finetuning_recommendation(), lambda one: one.usd_per_run.median, "for the run"),
    ],
)


@RANKED_BY
def test_what_ranks_is_what_both_sentences_compare(whole, cost_of, per):
    """Where a run or a million decides, dollars an hour of two specs say nothing of each other."""
    listed = whole.ranked[0]
    market = at_market_price(listed)
    call = PriceCall(listed=listed, cheaper=market)
    whole = replace(whole, today=PRICED)
    (told,) = sentences(replace(whole, ranked=(listed,), price_call=call))
    assert f"at {format_usd(cost_of(listed))} {per}. Observed price: " in told
    told_first, _ = sentences(replace(whole, ranked=(market,), price_call=call))
    assert told_first.endswith(f"at {format_usd(cost_of(listed))} {per}.")
    high = cost_of(market) * market.spec.high_usd_per_hour / market.spec.total_usd_per_hour
    for sentence in (told, told_first):
        assert "/h" not in sentence
        assert f" to {format_usd(high)} {per}" in sentence


@RANKED_BY
@pytest.mark.parametrize("cloud", ["aws", "any"])
def test_a_saved_answer_tells_its_prices_in_every_language(whole, cost_of, per, cloud):
    """From its codes and numbers, of a network as of a language model: the sentences are those of
    the answer itself, and none stays English."""
    chosen = at_market_price(whole.ranked[0])
    spot = replace(chosen.spec.offer, market=Market.SPOT)
    cheaper = replace(chosen, spec=replace(chosen.spec, offer=spot))
    whole = replace(
        whole,
        today=PRICED,
        ranked=(chosen,),
        request=replace(whole.request, cloud=cloud),
        price_call=PriceCall(listed=whole.ranked[0], cheaper=cheaper),
    )
    saved = plain({"request": {"cloud": cloud}, "price_call": price_doubt_block(whole)})
    english, chinese = (
        [one.text for one in list(price_call_leaves(saved, report_texts(language)))[:2]]
        for language in ("en", "zh-CN")
    )
    assert english == sentences(whole)
    assert not any(isinstance(text, English) for text in chinese)
    assert "观测价格" in chinese[0]
    assert "竞价" in chinese[1]
    assert not any(word in " ".join(chinese) for word in ("spot", " per ", "price"))


def test_the_answer_stays_on_one_screen():
    text = recommendation_text(
        answer(candidate(), listed=candidate(), cheaper=estimated()), SOURCES
    ).splitlines()
    assert len(text) <= LINES
    assert max(map(len, text)) <= 100


def test_json_has_the_interval_of_every_price_and_cost_and_both_specs():
    document = recommendation_document(answer(estimated(), listed=candidate(usd_per_hour=1.5)), SOURCES)
    price, cost = document["recommendation"]["price"], document["recommendation"]["cost"]
    assert (price["low_usd_per_hour"], price["high_usd_per_hour"]) == (0.2, 0.8)
    assert price["total_low_usd_per_hour"] < price["total_usd_per_hour"]
    share = cost["by_price"]["high"] / cost["usd_per_million_samples"]
    assert share == price["total_high_usd_per_hour"] / price["total_usd_per_hour"]
    call = document["price_call"]
    assert call["listed"]["instance_type"] == "g4dn.xlarge"
    assert (call["borderline"], call["cheaper"]) == (False, None)


def test_a_question_about_every_cloud_names_the_cloud_of_every_spec():
    asked = replace(recommendation().request, cloud="any")
    told = replace(
        answer(candidate(), listed=candidate("g6.xlarge", 0.9), cheaper=estimated()),
        request=asked,
        ranked=(candidate(), candidate("g6.xlarge", 0.8)),
        rejected=(rejected(),),
        close_calls=(close_call(),),
    )
    text = recommendation_text(told, SOURCES)
    assert "/h   aws us-east-1, on-demand\n" in text
    flat = " ".join(text.split())
    assert "g5.xlarge (on-demand, aws us-east-1) may be cheaper than g4dn.xlarge of aws" in flat
    assert "g4ad.xlarge of aws $0.379/h: no maintained" in flat
    assert f"borderline {close_call().candidate.spec.name} of aws at" in flat
    listed = replace(answer(estimated(), listed=candidate(usd_per_hour=1.5)), request=asked)
    assert "cheapest listed: g4dn.xlarge of aws at" in " ".join(resting_lines(listed))


def test_what_would_answer_says_how_its_price_is_known():
    """Where nothing answers, no price that an estimate or a market gave looks like a listed one."""
    gives = at_market_price(candidate())
    change = Change(constraint="max_usd_per_hour", option="--max-price", before="0.1", after="0.6")
    told = recommendation(ranked=(), nearest=gives, relaxations=(Relaxation(changes=(change,), gives=gives),))
    (line,) = (
        line
        for line in recommendation_text(replace(told, today=PRICED), SOURCES).splitlines()
        if line.startswith("  --max-price")
    )
    assert line.endswith("observed")


def test_alternatives_of_several_clouds_stand_beside_their_cloud():
    first, other = candidate(), candidate("n1-standard-4", 0.8)
    there = replace(other.spec.offer.instance, cloud="gcp")
    offer = replace(other.spec.offer, instance=there, region="us-central1")
    other = replace(other, spec=replace(other.spec, offer=offer))
    asked = replace(recommendation().request, cloud="any")
    lines = recommendation_text(recommendation(request=asked, ranked=(first, other)), SOURCES)
    (line,) = (line for line in lines.splitlines() if line.startswith("  n1-standard-4"))
    assert "gcp us-central1" in line
