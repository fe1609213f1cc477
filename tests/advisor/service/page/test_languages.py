"""English and Chinese: chosen as asked, complete, and true to the numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.render.i18n.catalogue import LANGUAGES
from advisor.service.page.frame import chosen_language
from advisor.units import format_rate

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


@pytest.mark.parametrize(
    ("question", "remembered", "accepted", "language"),
    [
        (None, None, None, "en"),
        ("zh", "en", "en", "zh-CN"),
        (None, "zh-CN", "en", "zh-CN"),
        (None, None, "zh-TW,zh;q=0.9,en;q=0.8", "zh-CN"),
        (None, None, "de,en;q=0.7,zh;q=0.9", "zh-CN"),
        (None, None, "zh;q=0,de", "en"),
        ("tlh", "fr", "nonsense;q=x", "en"),
    ],
)
def test_the_language_is_the_wanted_one(question, remembered, accepted, language):
    """Address, cookie, browser, English; what nobody speaks is passed over."""
    assert chosen_language(question, remembered, accepted) == language


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=80))
def test_any_wish_gets_a_language(question, remembered, accepted):
    assert chosen_language(question, remembered, accepted) in LANGUAGES


def test_numbers_are_alike_in_both(client, page):
    """A reader of either sees the same rates and prices."""
    numbers = [
        sorted(re.findall(r"\$?[0-9][0-9,]*\.?[0-9]*", page(f"{QUESTION}&lang={language}").text))
        for language in LANGUAGES
    ]
    prices = [[language for language in each if language.startswith("$")] for each in numbers]
    assert prices[0] == prices[1]
    answer = client.get(f"/v1/recommend{QUESTION[1:]}").json()["recommendation"]
    rate = answer["predicted"]["throughput"]
    text = {format_rate(rate["median"]), format_rate(rate["upper"])}
    assert text <= set(numbers[0]) & set(numbers[1])


def test_an_answer_leaves_nothing_in_english(page):
    """Reasons, warnings and assumptions too; what the model was trained on stays."""
    result = page(f"{QUESTION}&rejected=all&lang=zh")
    assert len(result.all("span", lang="en")) <= 1
