"""Records refuse what cannot be, so that nothing downstream has to check again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import (
    IMAGENET,
    ON_CPU,
    Accelerator,
    Cpu,
    DiskRate,
    LimitedBy,
    Measurement,
    Precision,
    Price,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)


def trial(**changes):
    values = {
        "workload": Workload(network="googlenet", task=Task.INFERENCE, batch_size=32),
        "resources": Resources(vcpus=2, physical_cores=2, memory_mib=2048, disk=DiskRate(type="gp3")),
        "accelerator": ON_CPU,
    }
    return Trial(**{**values, **changes})


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_a_price_that_is_no_price_is_refused(value):
    with pytest.raises(ValueError, match="usd_per_hour"):
        Price(usd_per_hour=value, kind="list", as_of=None, source="x")


def test_an_emulated_accelerator_needs_its_pace_and_what_was_not_measured_is_no_number():
    with pytest.raises(ValueError, match="emulated_step_seconds"):
        trial(accelerator=Accelerator.parse("emulated:T4"))
    with pytest.raises(ValueError, match="emulated_step_seconds"):
        trial(emulated_step_seconds=0.1)
    failed = Measurement(trial=trial(), status=Status.OUT_OF_MEMORY, limited_by=LimitedBy.CGROUP_V1)
    assert failed.throughput_samples_per_second is None
    with pytest.raises(ValueError, match="second_thread_yield"):
        Cpu(model="x", architecture="x86_64", second_thread_yield=1.5)
    assert 130_000 < IMAGENET.total_mib < 145_000


def test_a_trials_name_is_its_content_and_not_the_place_of_its_data():
    assert trial().trial_id == trial(dataset_path="/elsewhere").trial_id
    other = Workload(network="googlenet", task=Task.TRAINING, batch_size=32)
    assert trial().trial_id != trial(workload=other).trial_id
    bf16 = Workload(network="googlenet", task=Task.INFERENCE, batch_size=32, precision=Precision.BF16)
    assert trial().trial_id != trial(workload=bf16).trial_id


@given(st.lists(st.floats(min_value=1e-4, max_value=10), min_size=1, max_size=50))
def test_throughput_is_the_batch_over_a_step_that_was_really_seen(steps):
    measured = Measurement(
        trial=trial(), status=Status.OK, limited_by=LimitedBy.HOST, step_seconds=tuple(steps)
    )
    rate = measured.throughput_samples_per_second
    assert 32 / max(steps) * 0.999 <= rate <= 32 / min(steps) * 1.001
