"""The answer of `advisor memory` in both formats: same numbers, one screen, MiB that add up.

Golden files stand in tests/golden; ADVISOR_WRITE_GOLDEN=1 writes them anew, for review.
"""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from advisor.domain import Precision, Task
from advisor.models.performance.memory import (
    Conditions,
    GpuPeak,
    MemoryAnswer,
    OnGpu,
    Optimizer,
    Question,
    StepMemory,
    Verdict,
    WhatIf,
)
from advisor.render.views.memory import memory_document, memory_text
from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = json.loads((files("advisor.render") / "schemas/memory.schema.json").read_text())


def peak(scale: float = 1.0) -> GpuPeak:
    step = StepMemory(
        weights_mib=98.0,
        gradients_mib=97.0,
        optimizer_mib=194.0,
        saved_mib=5200.0 * scale,
        temporary_mib=31.0,
        spare_mib=520.0 * scale,
    )
    median = 1624.0 + step.reserved_mib
    return GpuPeak(
        step=step,
        context_mib=1624.0,
        lower_mib=0.8 * median,
        median_mib=median,
        upper_mib=1.25 * median,
        confidence=0.95,
        widened=1.5,
        probability_within=lambda mib: 0.9,
    )


def answer() -> MemoryAnswer:
    conditions = Conditions(
        task=Task.TRAINING, batch_size=64, precision=Precision.FP32, optimizer=Optimizer.ADAM
    )
    small, large = ("M60", 7680.0), ("T4", 15360.0)
    return MemoryAnswer(
        question=Question(reference="resnet50", conditions=conditions, pixels=None, confidence=0.95),
        traced="fake",
        peak=peak(),
        gpus=(
            OnGpu(
                name=small[0],
                memory_mib=small[1],
                verdict=Verdict.MAY_NOT_FIT,
                probability=0.43,
                largest_batch=None,
            ),
            OnGpu(
                name=large[0],
                memory_mib=large[1],
                verdict=Verdict.FITS,
                probability=0.999,
                largest_batch=1112,
            ),
        ),
        what_ifs=(WhatIf(change="with --checkpointing", peak=peak(0.4), largest_batches=(110, None)),),
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("memory.txt", memory_text(answer()) + "\n"),
        ("memory.json", json.dumps(memory_document(answer()), indent=2) + "\n"),
    ],
)
def test_a_format_changes_only_when_we_mean_it(name, content):
    assert_golden_text(GOLDEN / name, content)


def test_the_document_is_what_the_schema_says_and_its_parts_add_up():
    document = memory_document(answer())
    jsonschema.validate(document, SCHEMA)
    assert sum(document["parts_mib"].values()) == pytest.approx(document["peak_mib"]["median"])


def test_nothing_is_told_as_certain():
    """0.999 is no 100 %: nobody measured that card."""
    assert "99 %" in memory_text(answer())
    assert "100 %" not in memory_text(answer())
