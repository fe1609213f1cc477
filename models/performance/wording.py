"""Where a prediction comes from, and what lies outside the measured range, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.domain import Gpu, Precision, Prediction, Provenance, Resources, Stage, Workload
from advisor.messages import Message
from models.performance.machines import assumed_copy_gb_per_second
from models.performance.pipeline import Load, Pipeline, ReferenceCpu
from models.performance.scaling import Scaling
from models.performance.step_times import GpuRate
from models.performance.step_times_file import bundled_cpu_step_times

# A stage that the rate depends on less than this is not worth a word.
MATTERS = 0.05
# Bits of stages, in the order of `STAGES`.
_ACCELERATOR, _HOST, _TRANSFER = 1, 2, 8
_WORSE = list(Provenance)
# Single-thread marks nearer than this are one CPU.
SAME_SCORE = 0.02


def alone(rate: GpuRate, confidence: float) -> Prediction:
    """A GPU's rate as the prediction of a machine on which nothing else limits."""
    median = rate.samples_per_second
    return Prediction(
        lower=median * math.exp(-rate.widths.lower),
        median=median,
        upper=median * math.exp(rate.widths.upper),
        confidence=confidence,
        stage_rates={Stage.ACCELERATOR: median},
        bottleneck=Stage.ACCELERATOR,
        provenance=rate.provenance,
        extrapolation=rate.notes,
        calibrated=rate.widths.calibrated,
    )


class Wording:
    """Where rates come from, and notes on them. Many requests share both, so that each is told
    once for a load, a GPU's rate and its scaling, a CPU and the stages that matter."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._wordings: dict[tuple[object, ...], tuple[Provenance, tuple[Message, ...]]] = {}

    def of(
        self,
        load: Load,
        resources: Resources,
        gpu_rate: GpuRate | None,
        scaling: Scaling,
        matters: int,
    ) -> tuple[Provenance, tuple[Message, ...]]:
        """Provenance and notes; bit k of `matters` says whether the k-th of `STAGES` does."""
        stated_bus = resources.host_to_gpu_gb_per_second is not None
        machine = (id(resources.cpu), resources.vcpus, stated_bus)
        # By identity: the caller holds on to all of them, and hashing them takes a while.
        key = (id(load), id(gpu_rate), id(scaling), *machine, matters)
        if key not in self._wordings:
            rate = gpu_rate if matters & _ACCELERATOR else None
            wanted = (load, resources, rate, scaling, matters, self._pipeline)
            self._wordings[key] = _provenance(*wanted), tuple(_notes(*wanted))
        return self._wordings[key]


def _provenance(
    load: Load,
    resources: Resources,
    gpu_rate: GpuRate | None,
    scaling: Scaling,
    matters: int,
    pipeline: Pipeline,
) -> Provenance:
    """The worst of the stages that matter."""
    kinds = [gpu_rate.provenance] if gpu_rate else []
    if gpu_rate and scaling.gpus > 1:
        kinds.append(Provenance.MODELLED)
    if load.on_cpu and cpu_key(load.workload) not in pipeline.cpu_networks:
        kinds.append(Provenance.MODELLED)  # a core was measured, not this machine
    if matters & _HOST or load.on_cpu:
        kinds.append(_host_provenance(resources, pipeline))
    return max(kinds, key=_WORSE.index, default=Provenance.MODELLED)


def _notes(
    load: Load,
    resources: Resources,
    gpu_rate: GpuRate | None,
    scaling: Scaling,
    matters: int,
    pipeline: Pipeline,
) -> Iterator[Message]:
    """What lies outside the measured range and matters for this rate."""
    if gpu_rate:
        yield from gpu_rate.notes
        yield from scaling.notes
    if matters & _HOST or load.on_cpu:
        yield from _host_notes(resources, pipeline)
    if is_unmeasured_on_cpu(load, pipeline):
        yield Message(
            "{network} was not measured on a CPU like this", network=load.workload.network
        )
    if matters & _TRANSFER and resources.host_to_gpu_gb_per_second is None:
        yield copy_assumed_note(resources.gpu)


def copy_assumed_note(gpu: Gpu | None) -> Message:
    """That nobody measured how fast this type of instance copies to its GPU."""
    rate = assumed_copy_gb_per_second(gpu)
    return Message("the host-to-GPU rate is unknown: {rate:g} GB/s is assumed", rate=rate)


def is_unmeasured_on_cpu(load: Load, pipeline: Pipeline) -> bool:
    """Whether the network runs on the CPU as no trial did (other network, task or format)."""
    if not load.on_cpu:
        return False
    key = cpu_key(load.workload)
    existing = key in pipeline.cpu_networks or key in bundled_cpu_step_times().networks
    return load.workload.precision is not Precision.FP32 or not existing


def cpu_key(workload: Workload) -> str:
    """How steps on a CPU are filed."""
    return f"{workload.network}/{workload.task}"


def _host_provenance(resources: Resources, pipeline: Pipeline) -> Provenance:
    score = resources.cpu.single_thread_score if resources.cpu else None
    alike = is_same_architecture(resources, pipeline.reference)
    same = alike and score and abs(score / pipeline.reference.score - 1) < SAME_SCORE
    inside = resources.vcpus <= pipeline.largest_vcpus
    return Provenance.MEASURED if same and inside else Provenance.MODELLED


def is_same_architecture(resources: Resources, reference: ReferenceCpu) -> bool:
    """Whether the CPU runs the measured one's machine code, as far as anyone says."""
    return resources.cpu is None or resources.cpu.architecture == reference.architecture


def _host_notes(resources: Resources, pipeline: Pipeline) -> Iterator[Message]:
    if resources.vcpus > pipeline.largest_vcpus:
        yield Message(
            "host rates were measured on up to {largest:g} vCPUs, not {vcpus:g}",
            vcpus=resources.vcpus,
            largest=pipeline.largest_vcpus,
        )
    if not (resources.cpu and resources.cpu.single_thread_score):
        yield Message("the CPU's speed is unknown: the measured CPU's is assumed")
    elif not is_same_architecture(resources, pipeline.reference):
        yield Message(
            "{architecture} cores were not measured: rates are carried from {reference} by a "
            "single-thread mark, which tells little",
            architecture=resources.cpu.architecture,
            reference=pipeline.reference.architecture,
        )
