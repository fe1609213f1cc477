"""Who pays reads the whole question: every limit."""

import copy

import pytest

from advisor.render.i18n.catalogue import LANGUAGES, report_texts
from advisor.render.sentences import asked_sentence
from tests.advisor.render.sizing.reports import golden_report
from tests.rows import table

# What a question says, and how that is told.
LIMITS = table("limits")["asked"]


@pytest.fixture
def section():
    return copy.deepcopy(golden_report()["workloads"][1])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_that_was_asked_is_told(section, language):
    limits = {name: value for name, (value, _) in LIMITS.items()}
    section["recommendation"]["request"] |= limits | {"accelerated_only": True}
    sentence = asked_sentence(section["recommendation"], report_texts(language))
    assert [words for _, words in LIMITS.values() if words not in sentence] == []
    assert report_texts(language)("limit.accelerated_only", value="") in sentence


def test_every_field_of_a_question_is_told_or_stands_elsewhere(section):
    elsewhere = {"task", "model", "target_throughput", "confidence", "dataset"}
    elsewhere |= {"cloud", "region", "market", "horizon_hours", "max_results", "pareto"}
    elsewhere |= {"sample_input", "model_asked", "namesake"}
    sentences = {*LIMITS, "accelerated_only", "allow_extrapolation", "max_first_epoch_hours"}
    assert set(section["recommendation"]["request"]) == sentences | elsewhere
