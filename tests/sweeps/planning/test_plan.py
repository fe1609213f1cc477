import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import CacheState, DiskRate, MemoryFormat, Precision, Stack, Task
from advisor.errors import UsageError
from advisor.sweeps.planning.disks import UNLIMITED, parse_named_rate, split_disks
from advisor.sweeps.planning.networks import StoredData, SweepData, planned_network
from advisor.sweeps.planning.plan import Machine, plan_trials, usual_seconds
from tests.sweeps.builders import MACHINE, PROFILE, images_at, measurement, request


def pace(_workload, _gpu):
    return 0.03


def planned(*requests, machine=MACHINE):
    return plan_trials(requests, machine, pace)


def test_there_is_exactly_one_trial_for_each_cell_however_it_is_asked_for_and_wherever_its_data_lie():
    axes = {"networks": ("alexnet", "googlenet"), "tasks": (Task.TRAINING, Task.INFERENCE)}
    axes |= {"vcpus": (0.5, 1.0, 2.0), "memory_mib": (1024.0, 2048.0), "stacks": tuple(Stack)}
    axes |= {"disks": (DiskRate(type="a"), DiskRate(type="b", read_iops=100.0)), "caches": tuple(CacheState)}
    trials = planned(request(accelerator="cuda", **axes))
    assert len(trials) == len({trial.trial_id for trial in trials}) == 2 * 2 * 3 * 2 * 2 * 2 * 2
    forward = planned(request(vcpus=(0.5, 1.0, 2.0)))
    assert planned(request(vcpus=(2.0, 1.0, 0.5))) == forward
    assert planned(request(), request()) == planned(request())
    (here,), (there,) = planned(request()), planned(request(data=images_at("/elsewhere")))
    assert here.trial_id == there.trial_id


def test_an_emulated_gpu_brings_its_pace_and_what_only_a_gpu_has_is_planned_for_one_alone():
    for task, result in ((Task.INFERENCE, ("emulated:T4", 0.03)), (Task.PREPROCESSING, ("cpu", None))):
        (trial,) = planned(request(tasks=(task,), accelerator="emulated:T4"))
        assert (str(trial.accelerator), trial.emulated_step_seconds) == result
    settings = {"cudnn_benchmark": True, "synchronise_each_step": True}
    inference = {"tasks": (Task.INFERENCE,), **settings}
    (gpu,) = planned(request(accelerator="cuda", **inference))
    (emulated,) = planned(request(accelerator="emulated:T4", **inference))
    (cpu,) = planned(request(accelerator="cpu", **inference))
    kept = [[name for name in settings if entry.plan.get(name)] for entry in (gpu, emulated, cpu)]
    assert kept == [list(settings), ["synchronise_each_step"], []]


@pytest.mark.parametrize(("vcpus", "cores"), [(0.5, 0.5), (1.0, 1.0), (2.0, 1.0), (4.0, 2.0)])
def test_vcpus_are_hardware_threads_of_whole_cores(vcpus, cores):
    machine = Machine(cpus=8, physical_cores=4, memory_mib=24_000.0, cpu=None)
    (trial,) = planned(request(vcpus=(vcpus,)), machine=machine)
    assert trial.resources.physical_cores == cores


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vcpus": (1.0, 4.0)}, "this machine has 2.*--ray-address"),
        ({"vcpus": (0.01,)}, "at least 0.1"),
        ({"memory_mib": (1e6,)}, "ask for less"),
        ({"networks": ()}, "at least one network"),
        ({"memory_mib": tuple(float(i) for i in range(1, 10_002))}, "10,001 trials are more"),
    ],
)
def test_what_cannot_be_held_is_refused_with_the_way_out(changes, words):
    with pytest.raises(UsageError, match=words):
        planned(request(**changes))


@pytest.mark.parametrize(
    ("changes", "trial_id"),
    [
        ({}, "23568e1d65d66237"),
        ({"tasks": (Task.INFERENCE,), "accelerator": "emulated:T4"}, "bc0f729ba5cffeba"),  # not augmented
        ({"tasks": (Task.TRAINING,), "networks": ("alexnet",)}, "9352a7ecc33fcc7b"),
    ],
)
def test_trials_of_before_there_were_settings_are_the_same_trials(changes, trial_id):
    (trial,) = planned(request(**changes))
    assert trial.trial_id == trial_id


def formats_of(**changes):
    values = {"tasks": (Task.TRAINING,), "accelerator": "cuda", "precision": Precision.AMP}
    trials = planned(request(**{**values, **changes}))
    return {trial.workload.memory_format for trial in trials}


def test_images_on_a_gpu_are_measured_in_both_formats_where_sixteen_bits_compute():
    contiguous, both = {MemoryFormat.CONTIGUOUS}, set(MemoryFormat)
    assert formats_of() == formats_of(precision=Precision.BF16) == both
    assert formats_of(precision=Precision.FP32) == contiguous
    assert formats_of(tasks=(Task.PREPROCESSING,)) == contiguous
    assert formats_of(accelerator="emulated:T4") == formats_of(accelerator="cpu") == contiguous
    assert formats_of(networks=("bert_base",)) == contiguous
    assert formats_of(memory_formats=(MemoryFormat.CHANNELS_LAST,)) == {MemoryFormat.CHANNELS_LAST}


def window(**changes):
    (trial,) = planned(request(tasks=(Task.INFERENCE,), **changes))
    names = ("warmup_seconds", "measure_seconds", "max_seconds")
    return tuple(trial.plan.get(name) for name in names)


def test_a_gpu_is_measured_for_a_minute_after_one_unless_a_shorter_time_is_named_and_the_forecast_has_both():
    assert window(accelerator="cuda") == (60.0, 60.0, 120.0)
    assert window(accelerator="cuda", iterations=100) == (60.0, 60.0, 120.0)
    assert window(accelerator="cuda", measure_seconds=5.0) == (None, 5.0, 20.0)
    assert window(accelerator="emulated:T4") == (None, 4.0, 20.0)
    # A cold epoch has no minute to spare.
    assert window(accelerator="cuda", caches=(CacheState.COLD,)) == (None, 60.0, 120.0)
    asked = [request(tasks=(Task.INFERENCE,), accelerator=name) for name in ("cuda", "emulated:T4")]
    gpu, emulated = (usual_seconds(*planned(each)) for each in asked)
    assert gpu - emulated == (60 + 60 + 10) - 4


OWN = """
import torch
INPUT_SHAPE = (3, 8, 8)
SAMPLES_PER_ROW = 2
def build():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4))
"""


def planned_in_zoo(**changes):
    return plan_trials([request(**changes)], MACHINE, pace, planned_network)


def test_a_network_reads_the_data_of_its_kind_and_others_are_refused_with_the_way_out():
    text = StoredData(replace(PROFILE, storage_format="text", samples=929_589), "/text")
    data = SweepData(text=text)
    (entry,) = planned_in_zoo(networks=("lstm_ptb_small",), tasks=(Task.TRAINING,), data=data)
    assert entry.workload.dataset == text.profile
    assert (entry.dataset_path, entry.plan["loader_workers"]) == ("/text", 0)
    row = measurement(trial=entry, step_seconds=(0.5,) * 8)
    assert row.throughput_samples_per_second == 32 * 20 / 0.5
    (entry,) = planned_in_zoo(networks=("cifar10_cnn",), tasks=(Task.TRAINING,), data=SweepData())
    assert entry.workload.dataset.storage_format == "synthetic"
    with pytest.raises(UsageError, match=r"lstm_ptb_small reads text; .* --data"):
        planned_in_zoo(networks=("lstm_ptb_small",), tasks=(Task.TRAINING,))


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("lstm_ptb_small", Task.PREPROCESSING, "has no preprocessing.*training or inference"),
        ("cifar10_cnn", Task.PREPROCESSING, "has no preprocessing"),
        ("deeplabv3_resnet50", Task.TRAINING, "batches of 2 or more"),
    ],
)
def test_what_a_network_does_not_do_is_refused_in_the_plan(name, task, words):
    with pytest.raises(UsageError, match=words):
        planned_in_zoo(networks=(name,), tasks=(task,), batch_sizes=(1,))


@pytest.mark.slow
def test_an_own_network_is_planned_by_its_content_and_one_that_fails_is_told_in_one_line(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(OWN)
    reference = f"{file}:build"
    (first,) = planned_in_zoo(networks=(reference,), tasks=(Task.TRAINING,))
    assert first.plan["samples_per_row"] == 2
    file.write_text(f"{OWN}# changed\n")
    planned_network.cache_clear()
    (second,) = planned_in_zoo(networks=(reference,), tasks=(Task.TRAINING,))
    assert first.trial_id != second.trial_id
    file = tmp_path / "net.py"
    file.write_text("import no_such_package\ndef build(): ...\n")
    with pytest.raises(UsageError, match="no_such_package") as caught:
        planned_network(str(file))
    assert "\n" not in str(caught.value)


FAR = DiskRate(type="far", read_mib_per_second=9.0, read_latency_seconds=0.002)


@pytest.mark.parametrize(
    ("text", "disk"),
    [
        ("slow=50MiB/s", DiskRate(type="slow", read_mib_per_second=50.0)),
        ("s=1GiB/s,500iops", DiskRate(type="s", read_mib_per_second=1024.0, read_iops=500.0)),
        ("few=200 IOPS", DiskRate(type="few", read_iops=200.0)),
        ("far=9MiB/s, 2 ms", FAR),
        ("unlimited", UNLIMITED),
        ("host", UNLIMITED),
        ("gp3", None),
        ("st1:500GiB", None),
    ],
)
def test_a_disk_is_a_rate_or_a_type(text, disk):
    assert parse_named_rate(text) == disk


@pytest.mark.parametrize("text", ["slow=", "slow=fast", "=5MiB/s", "slow=0MiB/s", "slow=5MiB"])
def test_a_rate_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        parse_named_rate(text)


@given(st.lists(st.sampled_from(["gp3", "a=5MiB/s", "a=5MiB/s,10iops", "st1:1TiB"]), min_size=1))
def test_a_comma_before_iops_does_not_split(disks):
    assert split_disks(",".join(disks)) == disks
