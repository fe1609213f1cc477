"""README.md and README.zh-CN.md say the same: sections, commands, links and exit codes."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
FENCE = re.compile(r"```\n.*?```", re.DOTALL)


def _levels(text):
    return [line.split()[0] for line in FENCE.sub("", text).splitlines() if line.startswith("#")]


def test_both_have_the_same_sections():
    assert _levels(ENGLISH) == _levels(CHINESE)


def test_both_show_the_same_commands():
    assert FENCE.findall(ENGLISH) == FENCE.findall(CHINESE)


def test_both_lead_to_the_same_documents():
    """And to each other."""
    links = [set(re.findall(r"\]\((docs/[\w/]+\.md)\)", text)) for text in (ENGLISH, CHINESE)]
    assert links[0] == links[1]
    assert "(README.zh-CN.md)" in ENGLISH
    assert "(README.md)" in CHINESE
    for link in links[0]:
        assert (ROOT / link).is_file(), link


def test_both_name_the_same_options():
    """Every option and command that one names in its text is in the other."""
    told = [set(re.findall(r"`[^`]*?(--[a-z-]+)", FENCE.sub("", text))) for text in (ENGLISH, CHINESE)]
    assert told[0] == told[1]


def test_chinese_text_has_chinese_punctuation():
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", FENCE.sub("", CHINESE))
    assert not re.search("[\u4e00-\u9fff][,;:?(]", text)
