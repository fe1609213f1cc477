"""No answer rests on an estimate without saying so, whatever is asked of all clouds and markets."""

import random
from datetime import date

import pytest

from advisor.answers import ask
from advisor.answers.context import load_context
from advisor.domain import LIST, Task
from advisor.domain.money import is_listed
from advisor.domain.words import LanguageTask
from advisor.errors import NoIntervalError, NoOfferError
from advisor.questions.language import RecommendFinetuning, RecommendGeneration
from advisor.questions.network import Recommend

TODAY = date(2026, 11, 22)
NETWORKS = ("googlenet", "resnet50", "vit_b_16", "bert-base-uncased", "efficientnet_b0", "swin_t")
LANGUAGE_MODELS = ("meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-14B")
ANYWHERE = {"cloud": "any", "market": None}
SAID = {"estimated": "stimated", "observed": "bserved price", "old list": "ld price"}


def questions(count):
    """Six of ten about networks, three about generation, one about tuning; always the same ones."""
    drawn = random.Random(22)
    for _ in range(count):
        kind = drawn.randrange(10)
        if kind < 6:
            yield Recommend(
                network=drawn.choice(NETWORKS),
                task=drawn.choice((Task.TRAINING, Task.INFERENCE)),
                target_throughput=round(10 ** drawn.uniform(1, 3.7)),
                accelerated_only=drawn.random() < 0.3,
                **ANYWHERE,
            )
        elif kind < 9:
            yield RecommendGeneration(
                task=LanguageTask.GENERATION,
                model=drawn.choice(LANGUAGE_MODELS),
                target_output_tokens_per_second=round(10 ** drawn.uniform(2, 4)),
                **ANYWHERE,
            )
        else:
            yield RecommendFinetuning(
                task=LanguageTask.FINETUNING,
                model=drawn.choice(LANGUAGE_MODELS),
                tokens=round(10 ** drawn.uniform(6, 8)),
                **ANYWHERE,
            )


def answered(context, question):
    """The answer with its texts; None where nothing answers."""
    try:
        answer = ask.recommend(context, question, today=TODAY)
    except (NoOfferError, NoIntervalError):
        return None
    return answer if answer.result.chosen else None


def standing(response):
    """What the chosen total rests on: 'list', or its least trusted other kind; 'old list'."""
    answer = response.result
    kinds = {price.kind for price in answer.chosen.spec.prices if not is_listed(price, answer.today)}
    return next(
        (kind for kind in ("estimated", "observed") if kind in kinds), "old list" if kinds else "list"
    )


def check(response):
    # One sentence, which may take two lines, and break at a hyphen.
    lines = " ".join(response.text().splitlines()[:2]).replace("- ", "-")
    answer, first = response.result, lines.partition(". ")[0]
    rests = standing(response)
    call, chosen = answer.price_call, answer.chosen
    if rests == "list":
        assert "cheapest" not in first
        return rests
    assert SAID[rests] in first.partition("(")[0].partition(";")[0]
    if call.listed is not None:
        assert call.listed.spec.offer.price.kind == LIST
        assert f" is {call.listed.spec.name} of {call.listed.spec.offer.instance.cloud} at $" in first
    else:
        is_published = chosen.spec.offer.price.kind == LIST
        assert ("no offer with a list price meets this" in first) is not is_published
    return rests


@pytest.fixture(scope="module")
def context():
    return load_context()


@pytest.mark.slow
def test_what_rests_on_an_estimate_says_so_in_its_first_line_and_names_the_listed_one(context):
    answers = [answered(context, question) for question in questions(80)]
    rests = [check(answer) for answer in answers if answer]
    assert len(rests) > 60
