"""Which node of a cluster takes which trial, and what is said when none does."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import CacheState, DiskRate, Task
from advisor.errors import MeasuringError
from advisor.runs.sweeps.sweeping import executor_name
from advisor.sweeps.run.ray import cluster
from advisor.sweeps.trial.placement import Core, GpuDevice, placed
from advisor.sweeps.trial.placement import Node as Machine
from advisor.sweeps.trial.trial_process import stays_in_memory
from tests.sweeps.builders import TIME_BOX, resources, trial
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with

GIB = 2.0**30


def node(gpu=None, disk=None, *, cpus=4.0, trials=1.0, gpus=1.0, memory_gib=16):
    own = {"CPU": cpus, "memory": memory_gib * GIB, "advisor_trial": trials}
    if gpu:
        own |= {"GPU": gpus, f"accelerator_type:{gpu}": 1.0}
    return own | ({f"advisor_disk:{disk}": 1.0} if disk else {})


HEAD = {"CPU": 2.0}
T4, L4, PLAIN = node("T4", "gp3"), node("L4"), node()
CLUSTER = [HEAD, T4, L4, PLAIN]


def on(accelerator, vcpus=1.0, mounted=None, memory_gib=1, **more):
    disk = DiskRate(type=mounted or "unlimited")
    return trial(
        accelerator=accelerator,
        resources=resources(vcpus=vcpus, memory_mib=1024.0 * memory_gib, disk=disk),
        plan={**TIME_BOX, "disk_source": "mounted"} if mounted else TIME_BOX,
        **more,
    )


@pytest.mark.parametrize(
    ("wanted", "taken_at_once"),
    [
        (on("cuda:T4"), 1),
        (on("cuda:L4"), 1),
        (on("cpu"), 3),
        (on("cuda"), 2),
        (on("cpu", mounted="gp3"), 1),
        (on("cuda:L4", mounted="gp3"), 0),
        (on("cuda:H100"), 0),
        (on("cpu", vcpus=5.0), 0),
        (on("cpu", memory_gib=16), 3),
        (on("cpu", memory_gib=32), 0),
    ],
)
def test_a_trial_goes_to_nodes_with_its_gpu_disk_and_cpus(wanted, taken_at_once):
    assert cluster.slots(cluster.needs_of(wanted), CLUSTER) == taken_at_once


def test_trials_share_a_node_only_as_far_as_its_gpus_cpus_memory_and_disk_reach():
    gpus = node("T4", cpus=96.0, trials=8.0, gpus=8.0)
    assert cluster.slots(cluster.needs_of(on("cuda:T4", vcpus=4.0)), [gpus]) == 8
    assert cluster.slots(cluster.needs_of(on("cuda:T4", vcpus=48.0)), [gpus]) == 2
    eight = node(cpus=8.0, trials=8.0, memory_gib=32)
    assert (
        cluster.slots(cluster.needs_of(on("cpu", vcpus=0.5)), [eight]) == 8
    )  # a CPU each, also for half of one
    assert cluster.slots(cluster.needs_of(on("cpu", vcpus=2.0)), [eight]) == 4
    assert cluster.slots(cluster.needs_of(on("cpu", memory_gib=12)), [eight]) == 2
    eight = node(disk="gp3", cpus=8.0, trials=8.0)
    cold = {"cache": CacheState.COLD, "dataset_path": "/data"}
    for mounted in (None, "gp3"):
        assert cluster.slots(cluster.needs_of(on("cpu", mounted=mounted, **cold)), [eight]) == 1
        assert cluster.slots(cluster.needs_of(on("cpu", mounted=mounted, dataset_path="/data")), [eight]) == 8
    four = on("cuda:T4", task=Task.INFERENCE)
    four = replace(four, resources=replace(four.resources, gpu_count=4))
    assert cluster.slots(cluster.needs_of(four), [T4, T4, T4, T4]) == 0
    assert cluster.slots(cluster.needs_of(four), [node("T4", trials=8.0, gpus=8.0, cpus=8.0)]) == 2
    with pytest.raises(MeasuringError, match="they need 4 GPUs, and the largest node has 1"):
        cluster.refuse([cluster.needs_of(four)], {cluster.needs_of(four): 1}, [T4])
    options = cluster.task_options(cluster.needs_of(on("cuda:T4", vcpus=0.5, mounted="gp3", memory_gib=2)))
    assert options["num_cpus"] == 1
    assert options["memory"] == 2 * GIB
    assert options["num_gpus"] == 1
    assert set(options["resources"]) == {"advisor_trial", "accelerator_type:T4", "advisor_disk:gp3"}


@st.composite
def machines(draw):
    threads = draw(st.lists(st.integers(1, 2), min_size=1, max_size=8))
    cores = tuple(Core(n, tuple(range(2 * n, 2 * n + has))) for n, has in enumerate(threads))
    gpus = tuple(GpuDevice(f"GPU-{n}") for n in range(draw(st.integers(0, 3))))
    return Machine(cores, gpus, memory_mib=4096.5)


@st.composite
def machines_with_trials(draw):
    """A machine and trials that each fit on it, up to the whole of it."""
    machine = draw(machines())
    cpus = sum(len(core.cpus) for core in machine.cores)
    trials = st.builds(
        lambda gpu, vcpus, memory, folder: trial(
            accelerator="cuda" if gpu else "cpu",
            dataset_path=folder,
            resources=resources(vcpus=vcpus, memory_mib=memory),
        ),
        st.booleans(),
        st.sampled_from([0.5, 1.0, 2.0, float(cpus)]).filter(lambda n: n <= cpus),
        st.sampled_from([100.5, 1024.0, 4096.5]),
        st.sampled_from(["", "/tmp"]),
    )
    return machine, draw(st.lists(trials, max_size=8))


@given(machines_with_trials())
def test_our_own_ray_starts_what_fits_and_places_together_what_it_starts_together(drawn):
    machine, trials = drawn
    left = {cluster.OWN_DISK: 1.0, **cluster.resources_of(machine, trials=8)}
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory()))
        for entry in trials:
            needs = cluster.needs_of(entry, machine)
            if not cluster.slots(needs, [left]):
                continue
            left |= {name: left[name] - amount for name, amount in needs}
            placement = placed(
                entry.resources.vcpus,
                memory_mib=entry.resources.memory_mib,
                on_gpu=entry.accelerator.is_gpu,
                disk="8:0" if entry.dataset_path else "",
                shares_disk=stays_in_memory(entry),
                node=machine,
                folder=folder,
                patience_seconds=0.0,
            )
            held.enter_context(placement)
    has = cluster.resources_of(machine, trials=1)
    for entry in trials:
        needs = cluster.needs_of(entry, machine)
        assert cluster.slots(needs, [has]) == 1
        assert all(amount < 1 or amount == int(amount) for _, amount in needs)  # Ray's rule


def test_ray_is_the_executor_of_a_cluster_and_of_several_gpus_and_of_nothing_else(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert executor_name(None, None, [on("cuda")]) == "process"
    assert executor_name(None, "10.0.0.1:6379", [on("cuda")]) == "ray"
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"), GpuStandIn(uuid="GPU-b2"))
    assert executor_name(None, None, [on("cuda")]) == "ray"
    assert executor_name("process", None, [on("cuda")]) == "process"
    assert executor_name(None, None, [on("cpu")]) == "process"
    assert cluster.trials_at_a_time([on("cpu"), on("cpu", vcpus=2.0)]) == 1
    assert cluster.trials_at_a_time([on("cpu"), on("cuda")]) == 2


def refused(trials, nodes):
    kinds = Counter(map(cluster.needs_of, trials))
    cluster.refuse([needs for needs in kinds if not cluster.slots(needs, nodes)], kinds, nodes)
    cluster.refuse_ambiguous(trials, nodes)


@pytest.mark.parametrize(
    ("wanted", "nodes", "message"),
    [
        (on("cuda:H100"), CLUSTER, r"no node has the GPU H100 \(there: L4, T4\)"),
        (on("cpu", mounted="io2"), CLUSTER, r"no node has the disk io2 \(there: gp3\)"),
        (on("cuda:L4", mounted="gp3"), CLUSTER, "no one node has all of"),
        (on("cuda"), [PLAIN], "need 1 GPUs, and the largest node has 0"),
        (on("cpu", vcpus=8.0), CLUSTER, "need 8 CPUs, and the largest node has 4"),
        (on("cpu", memory_gib=32), CLUSTER, "need 32 GiB of memory, and the largest node has 16"),
        (on("cpu"), [HEAD], "ray start --resources"),
        (on("cuda"), CLUSTER, "several kinds of GPUs.*cuda:L4,cuda:T4"),
    ],
)
def test_what_no_node_takes_is_refused_with_the_way_out(wanted, nodes, message):
    refused([on("cuda:T4"), on("cuda:L4"), on("cpu")], CLUSTER)
    with pytest.raises(MeasuringError, match=message):
        refused([wanted], nodes)
