"""The answer of `advisor verify` in both formats: the verdict first, and what it stands for.

Golden files stand in tests/golden; ADVISOR_WRITE_GOLDEN=1 writes them anew, for review.
"""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from advisor.domain import Status, Task, Verdict, Verification
from advisor.render.verification import verification_document, verification_text
from tests.alike import assert_golden_text
from tests.builders import instance, network_question, prediction
from tests.sweeps.builders import measurement

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = json.loads((files("advisor.render") / "schemas/verification.schema.json").read_text())


def verification(**changes):
    values = {
        "request": network_question(network="googlenet", task=Task.INFERENCE, target_throughput=500.0),
        "instance": instance(),
        "measurement": measurement(),
        "prediction": prediction(),
        "lower": 431.0,
        "rate": 440.4,
        "upper": 447.0,
        "verdict": Verdict.MISSED,
        "settles": True,
        "reason": "it reaches 440/s, not 500",
        "caveats": ("10,000 photographs of 104 kB stood for imagenet",),
        "answer_now": "g6.xlarge at $0.822/h is recommended instead",
    }
    return Verification(**{**values, **changes})


NOT_KNOWN = {
    "instance": None,
    "prediction": None,
    "lower": None,
    "rate": None,
    "upper": None,
    "measurement": measurement(status=Status.OUT_OF_MEMORY, step_seconds=()),
    "verdict": Verdict.UNDECIDED,
    "settles": False,
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("verification.txt", verification_text(verification()) + "\n"),
        ("verification.json", json.dumps(verification_document(verification()), indent=2) + "\n"),
    ],
)
def test_a_format_changes_only_when_we_mean_it(name, content):
    assert_golden_text(GOLDEN / name, content)


@pytest.mark.parametrize("changes", [{}, NOT_KNOWN])
def test_the_document_keeps_its_schema(changes):
    jsonschema.validate(verification_document(verification(**changes)), SCHEMA)


def test_what_does_not_settle_the_question_says_so_in_its_first_line():
    first = verification_text(verification(settles=False)).splitlines()[0]
    assert "not settled" in first
