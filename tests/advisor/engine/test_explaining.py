"""What more of a resource brings is what the model says of the changed resources, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog, resources_of
from advisor.domain import IMAGENET, DiskRate, Precision, Task, Workload
from advisor.engine.explaining import changes, explain
from advisor.models.performance import load_model
from tests.advisor.catalog.builders import order
from tests.popular import POPULAR

CATALOG, MODEL = load_catalog(), load_model()
NAMES = ("g4dn.xlarge", "g5.xlarge", "g6.2xlarge", "p4d.24xlarge", "p5.4xlarge")
DISKS = ({"iops": None, "mib_per_second": None}, {"iops": 8000, "mib_per_second": 250})
SMALL = replace(IMAGENET, name="small", samples=50_000)

workloads = st.builds(
    Workload,
    network=st.sampled_from(POPULAR),
    task=st.sampled_from(Task),
    batch_size=st.sampled_from((1, 8, 32, 64)),
    precision=st.sampled_from(Precision),
    dataset=st.sampled_from((IMAGENET, SMALL)),
)
disks = st.builds(
    lambda name, rates: (
        CATALOG.instance(name),
        CATALOG.disks.attach(CATALOG.instance(name), order("gp3", 500, **rates), "us-east-1"),
    ),
    st.sampled_from(NAMES),
    st.sampled_from(DISKS),
)


def on_gp3(name):
    instance = CATALOG.instance(name)
    return instance, CATALOG.disks.attach(instance, order("gp3", 500), "us-east-1")


def explained(instance, disk, workload):
    has = resources_of(CATALOG, instance, disk)
    (prediction,) = MODEL.predict([(workload, has)])
    return explain(CATALOG, MODEL, instance, disk, workload, prediction), prediction, has


@given(disks, workloads)
def test_gains_are_what_the_model_predicts_with_more_and_never_a_loss(machine, workload):
    explanation, before, has = explained(*machine, workload)
    disk = has.disk
    cores = has.physical_cores / has.vcpus
    wider = replace(has, vcpus=has.vcpus + 1, physical_cores=has.physical_cores + cores)
    loader = MODEL.host_memory_mib(workload, wider) - MODEL.host_memory_mib(workload, has)
    changed = {
        "vcpus": replace(wider, memory_mib=has.memory_mib + loader),
        "memory": replace(has, memory_mib=has.memory_mib + 1024),
        "disk_throughput": replace(has, disk=replace(disk, read_mib_per_second=disk.read_mib_per_second + 1)),
        "disk_iops": replace(has, disk=replace(disk, read_iops=disk.read_iops + 100)),
    }
    gains = {gain.resource: gain for gain in explanation.gains}
    for resource, more in changed.items():
        (after,) = MODEL.predict([(workload, more)])
        gain = gains[resource]
        assert gain.samples_per_second == pytest.approx(after.median - before.median, abs=1e-9)
        assert gain.percent == pytest.approx(100 * (after.median / before.median - 1), abs=1e-9)
        assert gain.samples_per_second >= -1e-9 * before.median
        assert gain.bottleneck is after.bottleneck


@given(disks, workloads)
def test_the_next_stage_leaves_headroom_and_every_fact_is_told(machine, workload):
    explanation, prediction, _ = explained(*machine, workload)
    assert explanation.bottleneck is prediction.bottleneck
    assert explanation.bottleneck_rate == prediction.stage_rates[explanation.bottleneck]
    assert explanation.next_rate >= explanation.bottleneck_rate
    assert explanation.next_rate == prediction.stage_rates[explanation.next_stage]
    assert all(distance.detail for distance in explanation.distances)
    matters = [distance.matters for distance in explanation.distances]
    assert matters == sorted(matters, reverse=True)


def test_the_next_batch_is_told_where_it_fits_and_a_disk_without_limits_has_nothing_to_add():
    has = resources_of(CATALOG, *on_gp3("g4dn.xlarge"))
    offered = {}
    for batch in (8, 256):
        workload = Workload(network="vgg16", task=Task.TRAINING, batch_size=batch)
        offered[batch] = [change for change in changes(MODEL, workload, has) if change.workload != workload]
    assert offered[8][0].workload.batch_size == 16
    assert not offered[256]
    sizes = [replace(offered[8][0].workload, batch_size=size) for size in (16, 32, 64, 128, 256)]
    full = [each for each in sizes if MODEL.gpu_memory_mib(each) <= has.gpu.memory_mib][-1]
    assert all(change.workload == full for change in changes(MODEL, full, has))
    has = replace(resources_of(CATALOG, *on_gp3("c7i.large")), disk=DiskRate(type="memory"))
    workload = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=32)
    assert [change.resource for change in changes(MODEL, workload, has)] == ["vcpus", "memory"]
