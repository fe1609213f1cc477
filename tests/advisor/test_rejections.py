"""How many types each reason took out, in words that every language has."""

import json

from advisor.naming import counted_reasons
from advisor.render.i18n.catalogue import FOLDER, report_texts


def test_each_reason_has_words_in_both_languages():
    """No code of a reason is shown, with `_` or in English on a Chinese page."""
    texts = json.loads((FOLDER / "texts" / "engine.json").read_text())
    reasons = [key.removeprefix("reason.") for key in texts if key.startswith("reason.")]
    chinese = report_texts("zh-CN")
    for reason in reasons:
        said = counted_reasons({reason: 1234})
        assert str(said).startswith("1,234 ")
        assert "_" not in str(said)
        words = chinese.render(said).removeprefix("1,234 ")
        assert not words.isascii(), reason


def test_reasons_are_listed_in_their_order():
    said = counted_reasons({"too_slow": 2, "no_price": 1})
    assert str(said) == "2 too slow, 1 without a price"
    assert report_texts("zh-CN").render(said) == "2 个太慢、1 个没有价格"
