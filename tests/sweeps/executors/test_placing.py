"""Which node of a cluster takes which trial, and what is said when none does."""

import pytest

from advisor.domain import DiskRate
from advisor.errors import MeasuringError
from sweeps.executors.ray.placing import (
    FreeCapacity,
    needs_of,
    needs_of_own_machine,
    refuse_impossible,
    slots,
    task_options,
)
from tests.sweeps.builders import TIME_BOX, resources, trial


def node(gpu=None, disk=None, *, cpus=4.0, trials=1.0, gpus=1.0):
    own = {"CPU": cpus, "advisor_trial": trials}
    if gpu:
        own |= {"GPU": gpus, f"accelerator_type:{gpu}": 1.0}
    return own | ({f"advisor_disk:{disk}": 1.0} if disk else {})


HEAD = {"CPU": 2.0}
T4, L4, PLAIN = node("T4", "gp3"), node("L4"), node()
CLUSTER = [HEAD, T4, L4, PLAIN]


def on(accelerator, vcpus=1.0, mounted=None):
    disk = DiskRate(type=mounted or "unlimited")
    return trial(
        accelerator=accelerator,
        resources=resources(vcpus=vcpus, disk=disk),
        plan={**TIME_BOX, "disk_source": "mounted"} if mounted else TIME_BOX,
    )


@pytest.mark.parametrize(
    ("asked", "taken_at_once"),
    [
        (on("cuda:T4"), 1), (on("cuda:L4"), 1), (on("cpu"), 3), (on("cuda"), 2),
        (on("cpu", mounted="gp3"), 1), (on("cuda:L4", mounted="gp3"), 0), (on("cuda:H100"), 0),
        (on("cpu", vcpus=5.0), 0),
    ],
)  # fmt: skip
def test_a_trial_goes_to_nodes_with_its_gpu_disk_and_cpus(asked, taken_at_once):
    assert slots(needs_of(asked), CLUSTER) == taken_at_once


def test_a_node_takes_a_trial_a_gpu_at_a_time():
    eight = node("T4", cpus=96.0, trials=8.0, gpus=8.0)
    assert slots(needs_of(on("cuda:T4", vcpus=4.0)), [eight]) == 8
    assert slots(needs_of(on("cuda:T4", vcpus=48.0)), [eight]) == 2


def test_trials_of_one_gpu_that_differ_in_cpus_leave_the_other_gpu_to_others():
    room = FreeCapacity([T4, L4], [needs_of(on("cuda:T4", vcpus=1.0))])
    assert not room.take(needs_of(on("cuda:T4", vcpus=2.0)))
    assert room.take(needs_of(on("cuda:L4")))
    assert not room.take(needs_of(on("cpu")))


def test_what_runs_on_any_node_is_thought_of_where_no_gpu_is():
    running = [needs_of(on("cpu")), needs_of(on("cuda:L4")), needs_of(on("cpu", mounted="gp3"))]
    assert FreeCapacity([T4, L4, PLAIN, node()], running).take(needs_of(on("cpu")))
    assert not FreeCapacity([T4, L4, PLAIN], running).take(needs_of(on("cpu")))


def test_what_runs_where_no_node_is_any_more_takes_no_room():
    assert FreeCapacity([L4], [needs_of(on("cuda:T4"))]).take(needs_of(on("cuda:L4")))


def test_the_needs_are_options_of_a_task_that_leave_ray_nothing_to_guess():
    options = task_options(needs_of(on("cuda:T4", vcpus=0.5, mounted="gp3")))
    assert options["num_cpus"] == 0.5
    assert options["num_gpus"] == 1
    assert set(options["resources"]) == {
        "advisor_trial", "accelerator_type:T4", "advisor_disk:gp3",
    }  # fmt: skip
    assert task_options(needs_of_own_machine(on("cuda")))["num_gpus"] == 0


@pytest.mark.parametrize(
    ("asked", "nodes", "said"),
    [
        (on("cuda:H100"), CLUSTER, r"no node has the GPU H100 \(there: L4, T4\).*--accelerator"),
        (on("cpu", mounted="io2"), CLUSTER, r"no node has the disk io2 \(there: gp3\)"),
        (on("cuda:L4", mounted="gp3"), CLUSTER, "no one node has all of"),
        (on("cuda"), [PLAIN], "no node has a GPU"),
        (on("cpu", vcpus=8.0), CLUSTER, "need 8 vCPUs, and the largest node has 4"),
        (on("cpu"), [HEAD], "ray start --resources"),
        (on("cuda"), CLUSTER, "several kinds of GPUs.*cuda:L4,cuda:T4"),
    ],
)
def test_what_no_node_takes_is_refused_with_the_way_out(asked, nodes, said):
    with pytest.raises(MeasuringError, match=said):
        refuse_impossible([asked], nodes)


def test_what_some_node_takes_is_not_refused():
    refuse_impossible([on("cuda:T4"), on("cuda:L4"), on("cpu")], CLUSTER)
