"""The answers of `verify` and `--explain` in both formats, as golden files."""

import json
from pathlib import Path

from advisor.domain import Stage, Status, Task, Verdict, Verification
from advisor.domain.decision import Explanation
from advisor.render.records import explanation_document
from advisor.render.verification import verification_document, verification_text
from tests.advisor.render.schemas import assert_keeps
from tests.alike import assert_golden_text
from tests.builders import instance, network_question, prediction
from tests.sweeps.builders import measurement

GOLDEN = Path(__file__).parents[2] / "golden"


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
        "answer_now": "g6.xlarge at $0.822/h is recommended",
    }
    return Verification(**{**values, **changes})


NOT_KNOWN = dict.fromkeys(("instance", "prediction", "lower", "rate", "upper"))
NOT_KNOWN |= {"verdict": Verdict.UNDECIDED, "settles": False}
NOT_KNOWN["measurement"] = measurement(status=Status.OUT_OF_MEMORY, step_seconds=())


def test_formats_change_only_when_we_mean_it_and_what_does_not_settle_says_so():
    assert_golden_text(GOLDEN / "verification.txt", verification_text(verification()) + "\n")
    document = verification_document(verification())
    assert_golden_text(GOLDEN / "verification.json", json.dumps(document, indent=2) + "\n")
    assert_keeps(document, "verification")
    unsure = verification(**NOT_KNOWN)
    assert_keeps(verification_document(unsure), "verification")
    assert verification_text(unsure).startswith("Undecided: it reaches 440/s, not 500.")
    assert "(not settled" in verification_text(verification(settles=False)).splitlines()[0]
    alone = Explanation(
        bottleneck=Stage.HOST, bottleneck_rate=640.0, next_stage=None, next_rate=None, gains=(), distances=()
    )
    assert explanation_document("x", alone)["next_stage"] is None
