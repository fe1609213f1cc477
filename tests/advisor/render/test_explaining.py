"""An explanation in a few short lines, and as values that keep their schema."""

import json
from pathlib import Path

import pytest

from advisor.domain import Stage
from advisor.domain.explanation import Distance, Explanation, Gain
from advisor.render.explaining import explanation_document, explanation_text
from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[2] / "golden"


def gain(resource, step, rate, percent):
    return Gain(resource=resource, step=step, samples_per_second=rate, percent=percent, bottleneck=Stage.HOST)


def distance(subject, stage, times, detail, *, inside=False, matters=True):
    return Distance(subject=subject, stage=stage, matters=matters, inside=inside, times=times, detail=detail)


EXPLANATION = Explanation(
    bottleneck=Stage.HOST,
    bottleneck_rate=640.0,
    next_stage=Stage.STORAGE,
    next_rate=1190.0,
    gains=(
        gain("vcpus", "1 vCPU, half a core", 73.04, 11.93),
        gain("memory", "1 GiB of RAM", 0.0, 0.0),
        gain("disk_iops", "100 IOPS", 1.25, 0.204),
        gain("batch_size", "batch 64, not 32", -0.9, -0.147),
    ),
    distances=(
        distance("gpu", Stage.ACCELERATOR, None, "T4 was measured with other software only"),
        distance("vcpus", Stage.HOST, 2.0, "4 vCPUs, 2 times the 2 that were measured"),
        distance("disk_iops", Stage.STORAGE, 1.0, "a disk of 3,000 IOPS", inside=True),
        distance("host_to_gpu", Stage.TRANSFER, None, "unknown", matters=False),
    ),
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("explanation.txt", explanation_text("g4dn.xlarge", EXPLANATION) + "\n"),
        ("explanation.json", json.dumps(explanation_document("g4dn.xlarge", EXPLANATION), indent=2) + "\n"),
    ],
)
def test_a_format_changes_only_when_we_mean_it(name, content):
    assert_golden_text(GOLDEN / name, content)


def test_a_single_stage_has_no_next_one_and_long_facts_are_wrapped():
    many = [distance("cpu", Stage.HOST, None, "a long fact " * 9) for _ in range(9)]
    alone = Explanation(
        bottleneck=Stage.HOST,
        bottleneck_rate=640.0,
        next_stage=None,
        next_rate=None,
        gains=(),
        distances=tuple(many),
    )
    text = explanation_text("x", alone)
    assert "no other stage" in text
    assert max(map(len, text.splitlines())) <= 100
    assert explanation_document("x", alone)["next_stage"] is None
