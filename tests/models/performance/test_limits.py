"""No network runs faster than GPUs compute and read it: every bundled network, GPU and format."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain import CacheState, DiskRate, Gpu, Precision, Resources, Task, Workload
from advisor.domain.machines import gpu_of_row
from advisor.models.data_sheets import read_data_sheets
from advisor.models.network_columns import KINDS
from advisor.models.performance import load_model
from advisor.models.performance.networks import bundled_networks

pytestmark = pytest.mark.vector

GPUS = [gpu_of_row(row) for row in csv.DictReader(io.StringIO(read_data_sheets()))]
# What Winograd's way with tiles of 4x4 saves of a convolution's products.
WINOGRAD = np.array([4.0 if kind in ("conv_3x3", "conv_kxk", "conv_grouped") else 1.0 for kind in KINDS])
PRODUCTS = np.array([kind.startswith(("conv", "linear", "attention")) for kind in KINDS])


def most_flops_per_second(gpu: Gpu, precision: Precision) -> float:
    """The largest dense peak that products of the format may run at."""
    capability = gpu.capability or 0.0
    if precision is Precision.FP32:
        return 1e12 * max(gpu.fp32_tflops, (capability >= 8) * (gpu.tf32_tflops or 0.0))
    if precision is Precision.BF16:
        return 1e12 * max(gpu.fp32_tflops, (capability >= 8) * (gpu.bf16_tflops or 0.0))
    return 1e12 * max(gpu.fp32_tflops, gpu.fp16_tflops or 0.0)


def machine(gpu: Gpu, gpus: int) -> Resources:
    """One on which nothing else holds its GPUs back."""
    return Resources(
        vcpus=192,
        physical_cores=96,
        memory_mib=2**21,
        gpu=gpu,
        gpu_count=gpus,
        disk=DiskRate(type="nvme", read_mib_per_second=7000, read_iops=10**6),
        host_to_gpu_gb_per_second=50,
    )


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
    network: str, task: Task, precision: Precision, batch: int, gpus: int, confidence: float
) -> None:
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
