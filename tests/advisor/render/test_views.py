"""The answers of `memory`, `verify` and `--explain` in both formats: same numbers, one screen of text.

Golden files stand in tests/golden; ADVISOR_WRITE_GOLDEN=1 writes them anew, for review.
"""

import json
from pathlib import Path

import pytest

from advisor.domain import Precision, Stage, Status, Task, Verdict, Verification
from advisor.domain.explanation import Distance, Explanation, Gain
from advisor.models.performance import memory as sizes
from advisor.render.explaining import explanation_document, explanation_text
from advisor.render.verification import verification_document, verification_text
from advisor.render.views.memory import memory_document, memory_text
from tests.advisor.render.schemas import assert_keeps
from tests.alike import assert_golden_text
from tests.builders import instance, network_question, prediction
from tests.sweeps.builders import measurement

GOLDEN = Path(__file__).parents[2] / "golden"


def peak(scale=1.0):
    step = sizes.StepMemory(
        weights_mib=98.0,
        gradients_mib=97.0,
        optimizer_mib=194.0,
        saved_mib=5200.0 * scale,
        temporary_mib=31.0,
        spare_mib=520.0 * scale,
    )
    median = 1624.0 + step.reserved_mib
    return sizes.GpuPeak(
        step=step,
        context_mib=1624.0,
        lower_mib=0.8 * median,
        median_mib=median,
        upper_mib=1.25 * median,
        confidence=0.95,
        widened=1.5,
        probability_within=lambda mib: 0.9,
    )


def memory():
    conditions = sizes.Conditions(
        task=Task.TRAINING, batch_size=64, precision=Precision.FP32, optimizer=sizes.Optimizer.ADAM
    )
    small, large = ("M60", 7680.0), ("T4", 15360.0)
    return sizes.MemoryAnswer(
        question=sizes.Question(reference="resnet50", conditions=conditions, pixels=None, confidence=0.95),
        traced="fake",
        peak=peak(),
        gpus=(
            sizes.OnGpu(
                name=small[0],
                memory_mib=small[1],
                verdict=sizes.Verdict.MAY_NOT_FIT,
                probability=0.43,
                largest_batch=None,
            ),
            sizes.OnGpu(
                name=large[0],
                memory_mib=large[1],
                verdict=sizes.Verdict.FITS,
                probability=0.999,
                largest_batch=1112,
            ),
        ),
        what_ifs=(sizes.WhatIf(change="with --checkpointing", peak=peak(0.4), largest_batches=(110, None)),),
    )


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


DOCUMENTS = {
    "explanation": explanation_document("g4dn.xlarge", EXPLANATION),
    "memory": memory_document(memory()),
    "verification": verification_document(verification()),
}
TEXTS = {
    "explanation": explanation_text("g4dn.xlarge", EXPLANATION),
    "memory": memory_text(memory()),
    "verification": verification_text(verification()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_changes_only_when_we_mean_it(name):
    assert_golden_text(GOLDEN / f"{name}.txt", TEXTS[name] + "\n")
    assert_golden_text(GOLDEN / f"{name}.json", json.dumps(DOCUMENTS[name], indent=2) + "\n")


def test_a_document_keeps_its_schema():
    assert_keeps(DOCUMENTS["memory"], "memory")
    for document in (DOCUMENTS["verification"], verification_document(verification(**NOT_KNOWN))):
        assert_keeps(document, "verification")


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


def test_what_does_not_settle_the_question_says_so_in_its_first_line():
    first = verification_text(verification(settles=False)).splitlines()[0]
    assert "not settled" in first
