"""Columns of machines give the numbers that single predictions give."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import IMAGENET, CacheState, Cpu, DiskRate, Precision, Resources, Task, Workload
from advisor.domain.machines import gpu_of_row
from advisor.models.bundled import read_data_sheets
from advisor.models.network_columns import KINDS
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.machines import DiskTable
from advisor.models.performance.memory.steps import host_memory_mib
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import STAGES, PipelineRequest, pipeline_columns

pytestmark = pytest.mark.vector

maybe = st.one_of(st.none(), st.floats(20.0, 4000.0))
ANY_CPU = Cpu(model="any", architecture="x86_64")
changes = {"single_thread_score": maybe, "second_thread_yield": st.floats(0, 1)}
cpus = st.none() | st.builds(replace, st.just(ANY_CPU), **changes)
machines = st.builds(
    Resources,
    vcpus=st.sampled_from((0.5, 2.0, 8.0, 96.0)),
    physical_cores=st.sampled_from((0.5, 1.0, 4.0, 48.0)),
    memory_mib=st.floats(500, 500_000),
    disk=st.builds(
        DiskRate,
        type=st.just("any"),
        read_mib_per_second=maybe,
        read_iops=maybe,
        read_latency_seconds=st.one_of(st.none(), st.floats(1e-5, 1e-2)),
    ),
    cpu=cpus,
    gpu=st.sampled_from((None, *map(paced_gpu, ("T4", "L4", "A100", "H100-SXM5-80GB")))),
    host_to_gpu_gb_per_second=st.one_of(st.none(), st.floats(1.0, 50.0)),
)
workloads = st.builds(
    Workload,
    network=st.sampled_from(("alexnet", "resnet50", "vgg16")),
    task=st.sampled_from(list(Task)),
    batch_size=st.sampled_from((1, 32, 500)),
    precision=st.sampled_from((Precision.FP32, Precision.AMP)),
)
ANY = Resources(vcpus=8, physical_cores=4, memory_mib=32768, disk=DiskRate(type="any"))


@given(workloads, st.lists(machines, min_size=1, max_size=6), st.sampled_from((0.5, 0.9, 0.95)))
def test_columns_and_single_predictions_agree(workload, request, confidence):
    """Every number of a machine among others is the one that `predict` tells of it alone."""
    model = load_model()
    result = model.prepare([(workload, entry) for entry in request], confidence=confidence).estimates()
    for index, entry in enumerate(request):
        alone = model.predict([(workload, entry)], confidence=confidence)[0]
        numbers = (result.lower[index], result.median[index], result.upper[index])
        assert numbers == pytest.approx((alone.lower, alone.median, alone.upper), rel=1e-12)
        assert STAGES[result.bottleneck[index]] is alone.bottleneck
        assert bool(result.calibrated[index]) is alone.calibrated


disks = machines.map(lambda entry: entry.disk)


@given(st.lists(st.tuples(workloads, machines, disks), min_size=1, max_size=5))
def test_rows_with_other_disks_are_predicted_as_if_they_had_come_with_them(request):
    """`prepare` changes nothing but how often the rest is computed; `lowers` are the lower ones."""
    model = load_model()
    rows = model.prepare([(workload, entry) for workload, entry, _ in request], confidence=0.9)
    places, other = range(len(request)), [disk for *_, disk in request]
    result = rows.with_disks(places, other)
    come = [(workload, replace(entry, disk=disk)) for workload, entry, disk in request]
    for entry, alone in zip(result, model.predict(come, confidence=0.9), strict=True):
        assert entry.lower == pytest.approx(alone.lower, rel=1e-12)
        assert entry.stage_rates == pytest.approx(alone.stage_rates, rel=1e-12)
        assert (entry.bottleneck, entry.provenance) == (alone.bottleneck, alone.provenance)
        assert entry.extrapolation == alone.extrapolation
    lowers = rows.columns_with(np.array(places), DiskTable.of(other)).lower
    assert lowers == pytest.approx([entry.lower for entry in result], rel=1e-12)


# No network runs faster than GPUs compute and read it: every bundled network, GPU and format.

GPUS = [gpu_of_row(row) for row in csv.DictReader(io.StringIO(read_data_sheets()))]
# What Winograd's way with tiles of 4x4 saves of a convolution's products.
WINOGRAD = np.array([4.0 if kind in ("conv_3x3", "conv_kxk", "conv_grouped") else 1.0 for kind in KINDS])
PRODUCTS = np.array([kind.startswith(("conv", "linear", "attention")) for kind in KINDS])


def most_flops_per_second(gpu, precision):
    """The largest dense peak that products of the format may run at."""
    capability = gpu.capability or 0.0
    if precision is Precision.FP32:
        return 1e12 * max(gpu.fp32_tflops, (capability >= 8) * (gpu.tf32_tflops or 0.0))
    if precision is Precision.BF16:
        return 1e12 * max(gpu.fp32_tflops, (capability >= 8) * (gpu.bf16_tflops or 0.0))
    return 1e12 * max(gpu.fp32_tflops, gpu.fp16_tflops or 0.0)


def machine(gpu, gpus):
    """One on which nothing else holds its GPUs back."""
    disk = DiskRate(type="nvme", read_mib_per_second=7000, read_iops=10**6)
    host = {"vcpus": 192, "physical_cores": 96, "memory_mib": 2**21, "disk": disk}
    return Resources(**host, gpu=gpu, gpu_count=gpus, host_to_gpu_gb_per_second=50)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(bundled_networks().names),
    st.sampled_from((Task.INFERENCE, Task.TRAINING)),
    st.sampled_from(list(Precision)),
    st.integers(1, 1024),
    st.sampled_from((1, 8)),
    st.floats(0.55, 0.99),
)
def test_no_gpu_runs_a_network_faster_than_it_computes_and_reads(
    network, task, precision, batch, gpus, confidence
):
    """On every GPU of the catalogue, by all three bounds. Products outside of tensor cores may be
    Winograd's; of the weights, what fits into a cache need not be read again."""
    facts = bundled_networks()[network]
    if task not in facts.kernels:
        return
    rows = facts.kernels[task]
    flops = rows["flops"].astype(float) * rows["count"] * PRODUCTS[rows["kind"]]
    least, saved = flops.sum(), (flops / WINOGRAD[rows["kind"]]).sum()
    products = (rows["flops"] > 0) & PRODUCTS[rows["kind"]] & (rows["backward"] == 0)
    read = 2.0 * float((rows["fixed_elements"].astype(float) * rows["count"])[products].sum())
    workload = Workload(network=network, task=task, batch_size=batch, precision=precision)
    machines = [(workload, machine(gpu, gpus)) for gpu in GPUS]
    rates = load_model().prepare(machines, confidence=confidence, cache=CacheState.WARM)
    result, exact = rates.estimates(), gpus * (1 + 1e-6)
    for bound in (result.lower, result.median, result.upper):
        for gpu, rate in zip(GPUS, bound.tolist(), strict=True):
            peak = most_flops_per_second(gpu, precision)
            on_tensor_cores = peak > 1e12 * gpu.fp32_tflops and (gpu.capability or 0) >= 7
            assert rate * (least if on_tensor_cores else saved) <= peak * exact
            cached = 2.0**20 * (gpu.l2_mib or 4.0)
            moved = rate / batch * max(0.0, read - cached)
            assert moved <= gpu.memory_gb_per_second * 1e9 * exact


FILES = replace(IMAGENET, name="photographs", samples=4_000, bytes_per_sample=104_000)
LMDB_SET = replace(FILES, storage_format="lmdb", bytes_per_sample=200_741, width=256, height=256)


def columns_of_request(dataset, task=Task.INFERENCE, **known):
    workload = Workload(network="alexnet", task=task, batch_size=32, dataset=dataset)
    request = PipelineRequest(workload, ANY, on_cpu=False, cache=CacheState.COLD, **known)
    return pipeline_columns([request], bundled_networks())


def test_what_a_format_reads_and_decodes_of_an_image_is_what_its_network_takes():
    files, lmdb = columns_of_request(FILES), columns_of_request(LMDB_SET)
    shards = columns_of_request(replace(FILES, storage_format="tar"))
    assert (files.decoded_pixels[0], files.encoded_bytes[0]) == (187_500, 104_000)
    assert (lmdb.decoded_pixels[0], lmdb.encoded_bytes[0], lmdb.holds_pixels[0]) == (0, 0, 1)
    assert lmdb.resampled_pixels[0] == 0  # 256 pixels are cropped as they are
    assert shards.decoded_pixels[0] == files.decoded_pixels[0]
    assert (files.files[0], shards.files[0], lmdb.files[0]) == (1, 0, 0)
    encoded = columns_of_request(replace(LMDB_SET, bytes_per_sample=35_000))
    assert (encoded.holds_pixels[0], encoded.decoded_pixels[0]) == (0, 256 * 256)
    inorder, shuffled = (columns_of_request(LMDB_SET, shuffled=each) for each in (False, True))
    assert shuffled.missed_bytes[0] > 1.5 * inorder.missed_bytes[0] == 1.5 * inorder.stored_bytes[0]
    recordio = columns_of_request(replace(FILES, storage_format="recordio"), shuffled=True)
    assert recordio.missed_bytes[0] == recordio.stored_bytes[0]
    assert 0 < recordio.files[0] < 1
    served, trained = (columns_of_request(FILES, task) for task in (Task.INFERENCE, Task.TRAINING))
    assert served.resampled_pixels[0] > 1.5 * trained.resampled_pixels[0] > 0
    old = columns_of_request(FILES, Task.INFERENCE, augmented=True)  # a trial of before that was served
    assert old.resampled_pixels[0] == trained.resampled_pixels[0]


@pytest.mark.parametrize(
    ("shuffled", "room", "answered"),
    [(True, 0.515, 0.25), (True, 0.676, 0.38), (True, 0.817, 0.56), (True, 1.0, 1.0), (False, 0.923, 0.0)],
)
def test_the_page_cache_answers_fewer_reads_than_it_holds(shuffled, room, answered):
    """As counted in a cgroup of Linux 6.18: epochs of 5,000 files in new orders, and of a shard from end to
    end, by /proc/self/io."""
    dataset = FILES if shuffled else replace(FILES, storage_format="tar")
    workload = Workload(network="alexnet", task=Task.PREPROCESSING, batch_size=1, dataset=dataset)
    machine = replace(ANY, vcpus=1.0, gpu=None)
    needed = host_memory_mib(bundled_networks()["alexnet"], workload, machine, on_cpu=False)
    machine = replace(machine, memory_mib=needed + 0.01 + room * dataset.total_mib)
    request = PipelineRequest(workload, machine, on_cpu=False)
    (hits,) = pipeline_columns([request], bundled_networks()).cached_share
    assert hits == pytest.approx(answered, abs=0.1)
