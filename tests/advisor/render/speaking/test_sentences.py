"""The engine's sentences in Chinese: each by its own form, its numbers kept."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from advisor.render.i18n.sentences import told, translator
from advisor.render.i18n.words import TRANSLATIONS

BLANK = re.compile(r"\{(\w+)\}")


def test_what_no_form_fits_has_no_translation():
    assert told("a sentence nobody foresaw", "zh-CN") is None
    assert told("a sentence nobody foresaw", "en") == "a sentence nobody foresaw"


def test_forms_and_translations_have_the_same_blanks():
    table = json.loads((TRANSLATIONS / "zh-CN.sentences.json").read_text())
    for form, target in (table["parts"] | table["sentences"]).items():
        assert set(BLANK.findall(target)) <= set(BLANK.findall(form)), form


def test_no_form_hides_another():
    """Each form, filled in, is told by its own translation."""
    table = json.loads((TRANSLATIONS / "zh-CN.sentences.json").read_text())["sentences"]
    for form, target in table.items():
        filled = BLANK.sub(lambda found: f"x{found[1]}9", form)
        wanted = BLANK.sub(lambda found: f"x{found[1]}9", target)
        assert told(filled, "zh-CN") == wanted, form


@given(st.text(max_size=200))
def test_any_text_is_translated_or_left(text):
    speaker = translator("zh-CN")
    assert speaker is not None
    found = speaker.tell(text)
    assert found is None or isinstance(found, str)
