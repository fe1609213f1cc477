"""How far each fact behind a prediction lies from the measured rows.

`wording.Wording` warns only of facts that matter; this module reports every fact, inside or outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from advisor.domain import Gpu, Prediction, Resources, Stage, Task, Workload
from advisor.domain.decision import Distance
from advisor.messages import Message
from advisor.models.performance.cpu_step_times import bundled_cpu_step_times
from advisor.models.performance.machines import FACTS, SAME_SCORE
from advisor.models.performance.memory.steps import loader_workers
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.pipeline import (
    BATCHES_AHEAD_A_WORKER,
    Pipeline,
    exponents,
    logs_by_stage,
    smooth_log_minimum,
)
from advisor.models.performance.prepared import MATTERS, copy_assumed_note
from advisor.models.performance.scaling import bundled_scaling, kind_of
from advisor.models.performance.step_times import StepTimes, arithmetic_of, chip

# A number beyond the measured range by up to this factor still counts as inside.
AS_GOOD_AS = 1.1
_STAGES = {
    "vcpus": Stage.HOST,
    "sample_bytes": Stage.HOST,
    "decoded_pixels": Stage.HOST,
    "disk_throughput": Stage.STORAGE,
    "disk_iops": Stage.STORAGE,
}


def distances(
    workload: Workload,
    resources: Resources,
    prediction: Prediction,
    pipeline: Pipeline,
    step_times: StepTimes,
    table: NetworkTable,
) -> tuple[Distance, ...]:
    """The distance of every fact behind the prediction, those of the stages that matter first."""
    weights = stage_weights(workload, resources, prediction, pipeline)
    matters = {stage: weight >= MATTERS for stage, weight in weights.items()}
    of = partial(_distance, matters)
    result = [*_of_accelerator(of, workload, resources, pipeline, step_times, table)]
    if (gpus := prediction.gpus_used) > 1 and resources.gpu is not None:
        largest = bundled_scaling().largest[kind_of(workload.task, resources.gpu.name)]
        message = Message(
            "{count} GPUs: how {task} scales was published for 2 to {most}",
            count=gpus,
            task=Message(str(workload.task)),
            most=largest,
        )
        result.append(of("gpus", Stage.ACCELERATOR, max(1.0, gpus / largest), message))
    result += [*_of_ranges(of, workload, resources, pipeline), _of_cpu(of, resources, pipeline)]
    copied = resources.host_to_gpu_gb_per_second
    if Stage.TRANSFER in prediction.stage_rates and copied is None:
        result.append(of("host_to_gpu", Stage.TRANSFER, None, copy_assumed_note(resources.gpu)))
    elif Stage.TRANSFER in prediction.stage_rates and math.isfinite(copied or 0.0):
        message = Message(
            "a host-to-GPU rate of {rate:.3g} GB/s, measured on this type of instance", rate=copied
        )
        result.append(of("host_to_gpu", Stage.TRANSFER, 1.0, message))
    return tuple(sorted(result, key=lambda entry: not entry.matters))


def stage_weights(
    workload: Workload, resources: Resources, prediction: Prediction, pipeline: Pipeline
) -> Mapping[Stage, float]:
    """The weight of each stage in the joined rate R: d log R / d log R_stage.

    A network on the CPU shares its cores with decoding, but counts as a separate stage here."""
    rates = np.array([list(prediction.stage_rates.values())])
    beside_gpu = resources.gpu is not None and workload.task is not Task.PREPROCESSING
    ahead = BATCHES_AHEAD_A_WORKER * loader_workers(resources.vcpus) * beside_gpu
    training = float(workload.task is Task.TRAINING)
    gamma = exponents(np.array([training]), np.array([ahead]), pipeline.parameters)
    weights = smooth_log_minimum(logs_by_stage(rates), gamma)[1][:, 0].tolist()
    return dict(zip(prediction.stage_rates, weights, strict=True))


def _distance(
    matters: Mapping[Stage, bool],
    subject: str,
    stage: Stage,
    times: float | None,
    detail: Message | str,
    tolerance: float = AS_GOOD_AS,
) -> Distance:
    """The record of one fact; it is inside where `times` is within a factor `tolerance` of 1."""
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
        value, amount_of = FACTS[name](workload, resources), _AMOUNTS[name]
        if value is not None:
            times = value / min(max(value, low), high)
            amount, span = amount_of(value), _span(times, amount_of(low), amount_of(high))
            detail = Message("{amount}, {span}", amount=amount, span=span)
            yield of(name, _STAGES[name], times, detail)


_AMOUNTS: Mapping[str, Callable[[float], Message]] = {
    "vcpus": lambda value: Message("{count:rate} vCPUs", count=value),
    "sample_bytes": lambda value: Message("samples of {size:rate} kB", size=value / 1e3),
    "decoded_pixels": lambda value: Message("images of {count:rate} thousand pixels", count=value / 1e3),
    "disk_throughput": lambda value: Message("a disk of {rate:rate} MiB/s", rate=value),
    "disk_iops": lambda value: Message("a disk of {rate:rate} IOPS", rate=value),
}


def _span(times: float, low: Message, high: Message) -> Message:
    """Such as '4 times the 2 that were measured', or 'within the 12 to 125 that were measured'."""
    (lowest,), (highest,) = low.parameters.values(), high.parameters.values()
    if times > AS_GOOD_AS:
        return Message("{times:rate} times the {known:rate} that were measured", times=times, known=highest)
    if times < 1 / AS_GOOD_AS:
        return Message("{times:rate} times the {known:rate} that were measured", times=times, known=lowest)
    if lowest == highest:
        return Message("like the {known:rate} that were measured", known=lowest)
    return Message("within the {low:rate} to {high:rate} that were measured", low=lowest, high=highest)


def _of_cpu(of: partial[Distance], resources: Resources, pipeline: Pipeline) -> Distance:
    """The distance of the CPU from the measured ones, by its single-thread mark."""
    if pipeline.measured_on(resources):
        return of("cpu", Stage.HOST, 1.0, Message("a CPU that was measured"))
    score = resources.cpu.single_thread_score if resources.cpu else None
    if not score:
        unknown = Message("the CPU's speed is unknown: the measured CPU's is assumed")
        return of("cpu", Stage.HOST, None, unknown)
    times = score / pipeline.reference.score
    message = Message("a CPU with {times:.2f} of the measured CPU's single-thread mark", times=times)
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
    name = Message("{network} {task}", network=workload.network, task=Message(str(workload.task)))
    facts = table.of(workload)
    key = f"{facts.key}/{workload.task}"
    if resources.gpu is None:
        inside = key in pipeline.cpu_networks or key in bundled_cpu_step_times().networks
        message = Message("{name} was not measured on a CPU", name=name)
        if inside:
            message = Message("{name} was measured on a CPU", name=name)
        yield of("network", times=1.0 if inside else None, detail=message)
        return
    if step_times.group(workload, resources.gpu, facts) == "cell":
        message = Message(
            "{name} in {precision} was measured on {card}",
            name=name,
            precision=workload.precision,
            card=chip(resources.gpu.name),
        )
        yield of("network", times=1.0, detail=message)
        return
    inside = step_times.knows(facts, workload)
    message = Message("{name} was not measured with PyTorch on any GPU", name=name)
    if inside:
        message = Message("{name} was measured on other GPUs", name=name)
    yield of("network", times=1.0 if inside else None, detail=message)
    existing, message = _of_gpu(workload, resources.gpu, step_times)
    yield of("gpu", times=1.0 if existing else None, detail=message)


def _of_gpu(workload: Workload, gpu: Gpu, step_times: StepTimes) -> tuple[bool, Message]:
    """A flag that PyTorch was measured on the GPU in that precision, and a message that says what was."""
    measured = step_times.measured_in(gpu)
    if arithmetic_of(workload.precision) in measured:
        return True, Message("{card} was measured with other networks or precisions", card=gpu.name)
    if measured:
        return False, Message(
            "{gpu} was never measured in {precision}", gpu=gpu.name, precision=workload.precision
        )
    names = {"card": gpu.name, "architecture": gpu.architecture}
    if gpu.compute_capability in step_times.capabilities:
        return False, Message("{card} was not measured, its architecture ({architecture}) was", **names)
    return False, Message("neither {card} nor its architecture ({architecture}) was measured", **names)
