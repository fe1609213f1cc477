"""What people read: each text is a golden file, which changes only when we mean it."""

import shlex
from pathlib import Path

import pytest

from tests.alike import assert_golden_text
from tests.rows import table

GOLDEN = Path(__file__).parents[2] / "golden"
ANSWERS = table("commands")["answers"]
COMMANDS = table("commands")["commands"]
# Tables of networks, GPUs and comparisons are as wide as they have to be.
FIT_A_TERMINAL = ("catalog", "predict")


# An unsure price, a trial, a safe spec and an API need so many more.
MOST_LINES = {"generation-api": 21}


@pytest.mark.vector
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_has_about_twelve_lines(shown, monkeypatch, name):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-28")
    text = shown("recommend", *ANSWERS[name].split())
    assert len(text.splitlines()) <= MOST_LINES.get(name, 16)
    assert max(map(len, text.splitlines())) <= 100
    assert_golden_text(GOLDEN / "brief" / f"{name}.txt", text)


@pytest.mark.vector
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_its_golden_text_and_a_document_of_its_schema(shown, answer, monkeypatch, name):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-28")
    words = shlex.split(COMMANDS[name])
    text = shown(*words)
    assert words[0] not in FIT_A_TERMINAL or max(map(len, text.splitlines())) <= 100
    assert_golden_text(GOLDEN / "commands" / f"{name}.txt", text)
    if "--export" not in words:
        answer(*words)


def test_everything_else_stands_under_explain(shown):
    words = ("recommend", *ANSWERS["generation"].split())
    brief, whole = shown(*words), shown(*words, "--explain")
    assert brief.splitlines()[0] in whole
    assert "Alternatives" in whole
    assert "Assumptions" in whole
    assert max(map(len, whole.splitlines())) <= 100


@pytest.mark.parametrize("words", ["", "--task generation", "--task finetuning", "--task training"])
def test_help_is_one_screen_of_what_people_use(shown, words):
    text = shown("recommend", *words.split(), "--help")
    assert len(text.splitlines()) <= 45
    assert ("--users NUMBER" in text) == ("generation" in words)
    assert "--max-price" in text
    everything = shown("recommend", "--help-all")
    assert all(line in everything for line in ("--users", "--tensor-parallel", "--max-first-epoch-hours"))
