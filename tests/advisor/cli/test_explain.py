"""`--explain` on the command line."""

import json

import pytest

pytestmark = pytest.mark.vector

QUESTION = ("recommend", "--task", "inference", "--model", "googlenet")


def test_an_explanation_is_made_only_when_asked_and_never_dropped_silently(ask):
    assert json.loads(ask(*QUESTION, "-o", "json")[1])["explanation"] is None
    code, out, err = ask(*QUESTION, "--explain", "-o", "csv")
    assert (code, out) == (2, "")
    assert "-o table, json or yaml" in err
