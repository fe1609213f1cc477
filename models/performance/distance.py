"""How far from what was measured a prediction is asked, fact by fact.

`wording.Wording` warns of what matters; here every fact is told, inside or outside, and how far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from advisor.domain import Gpu, Prediction, Resources, Stage, Task, Workload
from advisor.domain.explanation import Distance
from advisor.units import format_rate
from models.performance.join import exponents, smooth_minimum
from models.performance.memory.host import loader_workers
from models.performance.networks import NetworkTable
from models.performance.pipeline import BATCHES_AHEAD_A_WORKER, Pipeline
from models.performance.ranges import FACTS
from models.performance.scaling import bundled_scaling
from models.performance.step_times import StepTimes, arithmetic_of, chip
from models.performance.step_times_file import bundled_cpu_step_times
from models.performance.wording import MATTERS, SAME_SCORE, copy_assumed_note

# A number this much beyond the measured ones still counts as one of them.
AS_GOOD_AS = 1.1
_STAGES = {
    "vcpus": Stage.HOST,
    "sample_bytes": Stage.HOST,
    "decoded_pixels": Stage.HOST,
    "disk_throughput": Stage.STORAGE,
    "disk_iops": Stage.STORAGE,
}
# How each is told, and in what unit.
_TEXTS = {
    "vcpus": ("{} vCPUs", 1.0),
    "sample_bytes": ("samples of {} kB", 1e3),
    "decoded_pixels": ("images of {} thousand pixels", 1e3),
    "disk_throughput": ("a disk of {} MiB/s", 1.0),
    "disk_iops": ("a disk of {} IOPS", 1.0),
}


def distances(
    workload: Workload,
    resources: Resources,
    prediction: Prediction,
    pipeline: Pipeline,
    step_times: StepTimes,
    table: NetworkTable,
) -> tuple[Distance, ...]:
    """Every fact the prediction stands on: those of the stages that matter first."""
    weights = stage_weights(workload, resources, prediction, pipeline)
    matters = {stage: weight >= MATTERS for stage, weight in weights.items()}
    of = partial(_distance, matters)
    result = [
        *_of_accelerator(of, workload, resources, pipeline, step_times, table),
        *_of_sharing(of, workload, prediction),
        *_of_ranges(of, workload, resources, pipeline),
        _of_cpu(of, resources, pipeline),
        *_of_copying(of, prediction, resources),
    ]
    return tuple(sorted(result, key=lambda entry: not entry.matters))


def stage_weights(
    workload: Workload, resources: Resources, prediction: Prediction, pipeline: Pipeline
) -> Mapping[Stage, float]:
    """How much the joined rate depends on each stage, d log R / d log R_stage.

    A network on the CPU shares its cores with decoding: there both count as one stage does.
    """
    rates = np.array([list(prediction.stage_rates.values())])
    beside_gpu = resources.gpu is not None and workload.task is not Task.PREPROCESSING
    ahead = BATCHES_AHEAD_A_WORKER * loader_workers(resources.vcpus) * beside_gpu
    training = float(workload.task is Task.TRAINING)
    gamma = exponents(np.array([training]), np.array([ahead]), pipeline.parameters)
    weights = smooth_minimum(rates, gamma)[1][0].tolist()
    return dict(zip(prediction.stage_rates, weights, strict=True))


def _distance(
    matters: Mapping[Stage, bool],
    subject: str,
    stage: Stage,
    times: float | None,
    detail: str,
    tolerance: float = AS_GOOD_AS,
) -> Distance:
    """Inside where the fact is as good as a measured one."""
    return Distance(
        subject=subject,
        stage=stage,
        matters=matters.get(stage, False),
        inside=times is not None and 1 / tolerance <= times <= tolerance,
        times=times,
        detail=detail,
    )


def _of_ranges(
    of: partial[Distance], workload: Workload, resources: Resources, pipeline: Pipeline
) -> Iterator[Distance]:
    for name, (low, high) in pipeline.measured.items():
        value = FACTS[name](workload, resources)
        if value is not None:
            times = value / min(max(value, low), high)
            text, unit = _TEXTS[name]
            message = text.format(format_rate(value / unit))
            measured = _range_text(times, low / unit, high / unit)
            yield of(name, _STAGES[name], times, f"{message}, {measured}")


def _range_text(times: float, low: float, high: float) -> str:
    """'4 times the 2 that were measured', 'between the 12 and 125 that were measured'."""
    lowest, highest = format_rate(low), format_rate(high)
    if times > AS_GOOD_AS:
        return f"{format_rate(times)} times the {highest} that were measured"
    if times < 1 / AS_GOOD_AS:
        return f"{format_rate(times)} times the {lowest} that were measured"
    if low == high:
        return f"like the {lowest} that were measured"
    return f"within the {lowest} to {highest} that were measured"


def _of_cpu(of: partial[Distance], resources: Resources, pipeline: Pipeline) -> Distance:
    """Carrying decode rates to another CPU is a step away, however alike their marks are."""
    score = resources.cpu.single_thread_score if resources.cpu else None
    if not score:
        unknown = "the CPU's speed is unknown: the measured CPU's is assumed"
        return of("cpu", Stage.HOST, None, unknown)
    times = score / pipeline.reference.score
    message = f"a CPU with {times:.2f} of the measured CPU's single-thread mark"
    return of("cpu", Stage.HOST, times, message, tolerance=1 + SAME_SCORE)


def _of_accelerator(
    of: partial[Distance],
    workload: Workload,
    resources: Resources,
    pipeline: Pipeline,
    step_times: StepTimes,
    table: NetworkTable,
) -> Iterator[Distance]:
    if workload.task is Task.PREPROCESSING:
        return
    of = partial(of, stage=Stage.ACCELERATOR)
    name = f"{workload.network} {workload.task}"
    facts = table.of(workload)
    key = f"{facts.key}/{workload.task}"
    if resources.gpu is None:
        inside = key in pipeline.cpu_networks or key in bundled_cpu_step_times().networks
        message = f"{name} was {'' if inside else 'not '}measured on a CPU"
        yield of("network", times=1.0 if inside else None, detail=message)
        return
    if step_times.group(workload, resources.gpu, facts) == "cell":
        message = f"{name} in {workload.precision} was measured on {chip(resources.gpu.name)}"
        yield of("network", times=1.0, detail=message)
        return
    inside = step_times.knows(facts, workload)
    on_others = "on other GPUs" if inside else "with PyTorch on any GPU"
    message = f"{name} was {'' if inside else 'not '}measured {on_others}"
    yield of("network", times=1.0 if inside else None, detail=message)
    existing, message = _of_gpu(workload, resources.gpu, step_times)
    yield of("gpu", times=1.0 if existing else None, detail=message)


def _of_sharing(
    of: partial[Distance], workload: Workload, prediction: Prediction
) -> Iterator[Distance]:
    """How several GPUs scale was published, of other machines and mostly other software."""
    gpus = prediction.gpus_used
    if gpus > 1:
        largest = max(bundled_scaling().largest.values())
        message = f"{gpus} GPUs: how {workload.task} scales was published for 2 to {largest}"
        yield of("gpus", Stage.ACCELERATOR, max(1.0, gpus / largest), message)


def _of_gpu(workload: Workload, gpu: Gpu, step_times: StepTimes) -> tuple[bool, str]:
    """Whether the GPU was measured with PyTorch in that precision, else how near it is."""
    measured = step_times.measured_in(gpu)
    if arithmetic_of(workload.precision) in measured:
        return True, f"{gpu.name} was measured with other networks or precisions"
    if measured:
        return False, f"{gpu.name} was never measured in {workload.precision}"
    if gpu.compute_capability in step_times.capabilities:
        return False, f"{gpu.name} was not measured, its architecture ({gpu.architecture}) was"
    return False, f"neither {gpu.name} nor its architecture ({gpu.architecture}) was measured"


def _of_copying(
    of: partial[Distance], prediction: Prediction, resources: Resources
) -> Iterator[Distance]:
    if Stage.TRANSFER not in prediction.stage_rates:
        return
    rate = resources.host_to_gpu_gb_per_second
    if rate is None:
        yield of("host_to_gpu", Stage.TRANSFER, None, copy_assumed_note(resources.gpu))
    elif math.isfinite(rate):
        message = f"a host-to-GPU rate of {rate:.3g} GB/s, measured on this type of instance"
        yield of("host_to_gpu", Stage.TRANSFER, 1.0, message)
