"""Questions that contradict themselves cannot be made, and each error names its field."""

from __future__ import annotations

import pytest

from advisor.domain import Task
from advisor.errors import UsageError
from advisor.questions.network import Compare, MemoryQuestion, Predict, Recommend
from advisor.questions.reading import from_fields, from_values

TRAINING = {"task": "training", "model": "resnet50"}
INFERENCE = {"task": "inference", "model": "resnet50"}
PREPROCESSING = {"task": "preprocessing", "model": "resnet50"}
ON_GPU = {"gpu": "T4,L4"}


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        (Recommend, {**TRAINING, "max_latency_ms": 5}, "max_latency_ms"),
        (Recommend, {**INFERENCE, "max_first_epoch_hours": 5}, "max_first_epoch_hours"),
        (Recommend, {**TRAINING, "max_cost": 5}, "max_cost"),
        (Recommend, {**TRAINING, "epochs": 5, "samples": 5}, "samples"),
        (Recommend, {**TRAINING, "precision": "amp", "tf32": "on"}, "tf32"),
        (Recommend, {**TRAINING, "horizon_hours": 5}, "horizon_hours"),
        (Recommend, {**PREPROCESSING, "max_gpus": 1}, "max_gpus"),
        (Recommend, {**PREPROCESSING, "stack": "compile"}, "stack"),
        (Predict, TRAINING, "instance"),
        (Compare, TRAINING, "instance"),
        (Compare, {**TRAINING, **ON_GPU, "instance": ["g5.xlarge"]}, "gpu"),
        (Compare, {**TRAINING, **ON_GPU, "disk": "gp3"}, "disk"),
        (Compare, {**TRAINING, **ON_GPU, "region": "eu-west-1"}, "region"),
        (Compare, {**TRAINING, **ON_GPU, "cloud": "gcp"}, "cloud"),
        (Compare, {**TRAINING, **ON_GPU, "market": "spot"}, "market"),
        (Compare, {**PREPROCESSING, **ON_GPU}, "gpu"),
        (MemoryQuestion, {"model": "resnet50", "task": "inference", "optimizer": "sgd"}, "optimizer"),
        (MemoryQuestion, {"model": "resnet50", "keep_graph": True}, "keep_graph"),
    ],
)
def test_an_option_that_another_one_makes_meaningless_is_refused(kind, values, field):
    with pytest.raises(UsageError) as refused:
        from_values(kind, values)
    assert refused.value.field == field
    assert refused.value.hint or "goes with" in str(refused.value)


def test_a_gpu_by_itself_has_no_host():
    for field, value in (("vcpus", 8), ("explain", True), ("epochs", 3.0), ("instance", "g5.xlarge")):
        with pytest.raises(UsageError, match="GPU without a host") as refused:
            from_fields(Predict, {"task": Task.INFERENCE, "model": "resnet50", "gpu": "T4", field: value})
        assert refused.value.field == field
