"""A report gathered for real, on the bundled catalogue and model.

tests/golden/report/team.json is what the renderers are tested with; ADVISOR_WRITE_GOLDEN=1 writes
it anew, for review.
"""

import json
import os
from datetime import date
from functools import cache

from advisor.operations.answering.ground import ground_in_use
from advisor.operations.questions.hardware import wanted_gpus, wanted_memory, wanted_vcpus
from advisor.operations.reporting.gathering import Question
from advisor.operations.reporting.reports import Report, report
from advisor.operations.reporting.reproducing import Origin
from tests.advisor.report.sizing.reports import GOLDEN, golden_report, validator
from tests.alike import alike

DAY = date(2026, 11, 22)
USUAL = {
    "dataset": "imagenet", "confidence": 0.9, "batch_size": None, "precision": "fp32",
    "cloud": "aws", "region": None, "market": "on-demand", "disk": None, "target_throughput": None,
}  # fmt: skip
SOME_GPUS = wanted_gpus("T4,L4,A10G")
VERSIONS = {"advisor": "0.1.0", "python": "3.11.7", "numpy": "2.4.6"}


def asked(task, network, target=None, **changes):
    return {**USUAL, "task": task, "network": network, "target_throughput": target, **changes}


def question(name, *words, **changes):
    return Question(name, asked(*words, **changes), f"advisor recommend --task {words[0]}")


TEAM = (
    question("Thumbnails", "inference", "googlenet", 500, gpu=SOME_GPUS),
    question("Nightly training", "training", "resnet50", 200, precision="amp", gpu=SOME_GPUS),
    question("Too much", "inference", "vgg16", 1e6, gpu=wanted_gpus("T4")),
    question(
        "Decoding", "preprocessing", "resnet50", 900,
        vcpus=wanted_vcpus("8"), memory=wanted_memory("16GiB"),
    ),
    question("As cheap as can be", "training", "vgg16", gpu=SOME_GPUS),
)  # fmt: skip


@cache
def ground():
    return ground_in_use()


def gathered(*questions):
    origin = Origin("advisor report --plan team.yaml --date 2026-11-22")
    return report(ground(), questions, Report("Vision team, November", DAY, origin))


def test_a_team_of_workloads_gives_the_golden_report():
    found = gathered(*TEAM)
    found["reproducibility"]["versions"] = VERSIONS
    if os.environ.get("ADVISOR_WRITE_GOLDEN"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        text = json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False)
        (GOLDEN / "team.json").write_text(text + "\n")
    assert alike(json.loads(json.dumps(found)), golden_report())


def test_a_report_is_as_its_schema_says():
    validator().validate(golden_report())
