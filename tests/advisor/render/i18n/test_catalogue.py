"""Everything that pages and reports say is in the catalogue, in Chinese, with its numbers."""

import re
from string import Formatter

import pytest

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.render.i18n import update
from advisor.render.i18n.catalogue import FOLDER, report_texts
from advisor.service.page.frame import page_texts


def _parameters(text):
    return {name.partition(".")[0] for _, name, _, _ in Formatter().parse(text) if name}


@pytest.fixture(scope="module")
def today():
    return update.updated()


def test_the_catalogue_is_fresh(today):
    """`python -m advisor.render.i18n.update` writes both files anew."""
    assert update.PO.read_bytes() == update.po_bytes(today)
    assert update.MO.read_bytes() == update.mo_bytes(today)


def test_every_text_is_translated_with_its_parameters_and_chinese_punctuation(today):
    assert update.missing(today) == []
    for message in today:
        if message.id and message.string:
            assert _parameters(message.string) <= _parameters(message.id), message.id
            assert not re.search(r"[\u4e00-\u9fff][,;:?!(]", message.string), message.id


def test_a_message_keeps_its_numbers_in_chinese_and_is_english_where_nobody_translated_it():
    chinese = report_texts("zh-CN")
    error = UsageError("unknown {kind} '{name}'", kind="network", name="goglenet")
    assert "goglenet" in error.render(chinese.render)
    sentence = Message("a sentence nobody {verb}", verb="foresaw")
    assert report_texts("zh-CN").render(sentence) == "a sentence nobody foresaw"


def test_every_key_is_used():
    rooms = [FOLDER.parent, FOLDER.parents[1] / "service" / "page"]
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".html")]
    code = "".join(path.read_text() for path in files)
    # Keys that are made of a value: `t("task." + ..)`.
    made = {*re.findall(r"""["']((?:[a-z_]+\.)+)["']""", code), *re.findall(r'f"((?:[a-z_]+\.)+)\{', code)}
    for key in page_texts("en").texts:
        known = any(key.startswith(start) for start in made)
        assert known or f'"{key}"' in code or f"'{key}'" in code, key
