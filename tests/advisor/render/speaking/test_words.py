"""Every catalogue has the same keys and blanks in all languages."""

import json
import re

import pytest

from advisor.domain import Stage
from advisor.render.i18n.words import LANGUAGES, TRANSLATIONS, words_in

BLANK = re.compile(r"\{(\w+)\}")
CATALOGUES = ("engine.", "report.")


def _catalogue(name, language):
    return json.loads((TRANSLATIONS / f"{name}{language}.json").read_text())


@pytest.mark.parametrize("name", CATALOGUES)
def test_all_languages_have_the_same_keys_and_blanks(name):
    english, chinese = (_catalogue(name, language) for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(BLANK.findall(text)) == set(BLANK.findall(chinese[key])), key


@pytest.mark.parametrize("name", CATALOGUES)
def test_chinese_texts_have_chinese_punctuation(name):
    for key, text in _catalogue(name, "zh-CN").items():
        assert not re.search(r"[\u4e00-\u9fff][,;:?(]", text), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_stage_has_a_name(language):
    words = words_in(language, TRANSLATIONS, "engine.")
    assert all(f"stage.{one}" in words.texts for one in Stage)


def test_every_key_is_used():
    """A text that no page and no report shows any more is taken out."""
    rooms = [TRANSLATIONS.parents[1], TRANSLATIONS.parents[2] / "service" / "page"]
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".html")]
    code = "".join(path.read_text() for path in files)
    made = {*re.findall(r"""["']([a-z_]+\.)["']""", code), *re.findall(r'f"([a-z_]+\.)\{', code)}
    for name in CATALOGUES:
        for key in _catalogue(name, "en"):
            known = any(key.startswith(start) for start in made)
            assert known or f'"{key}"' in code or f"'{key}'" in code, key
