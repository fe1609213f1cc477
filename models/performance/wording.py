"""Where a prediction comes from, and what lies outside the measured range, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.domain import Precision, Prediction, Provenance, Resources, Stage, Workload
from models.performance.cpu import bundled_cpu_rates
from models.performance.features import ASSUMED_COPY_GB_PER_SECOND, Load, PipelineRequest
from models.performance.gpu_rates import GpuRate
from models.performance.pipeline import Pipeline, ReferenceCpu

# A stage that the rate depends on less than this is not worth a word.
MATTERS = 0.05
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


def provenance_of(
    row: PipelineRequest, weights: list[float], gpu_rate: GpuRate | None, pipeline: Pipeline
) -> Provenance:
    """The worst of the stages that matter; `weights` are in the order of `STAGES`."""
    kinds = [gpu_rate.provenance] if gpu_rate and weights[0] >= MATTERS else []
    if row.on_cpu and cpu_key(row.workload) not in pipeline.cpu_networks:
        kinds.append(Provenance.MODELLED)  # a core was measured, not this machine
    if weights[1] >= MATTERS or row.on_cpu:
        kinds.append(_host_provenance(row.resources, pipeline))
    return max(kinds, key=list(Provenance).index, default=Provenance.MODELLED)


def notes_of(
    row: PipelineRequest, weights: list[float], gpu_rate: GpuRate | None, pipeline: Pipeline
) -> tuple[str, ...]:
    """What lies outside the measured range and matters for this rate."""
    notes = list(gpu_rate.notes) if gpu_rate and weights[0] >= MATTERS else []
    if weights[1] >= MATTERS or row.on_cpu:
        notes += _host_notes(row.resources, pipeline)
    if is_unmeasured_on_cpu(row, pipeline):
        notes.append(f"{row.workload.network} was not measured on a CPU like this")
    if weights[3] >= MATTERS and row.resources.host_to_gpu_gb_per_second is None:
        notes.append(
            f"the host-to-GPU rate is unknown: {ASSUMED_COPY_GB_PER_SECOND:g} GB/s is assumed"
        )
    return tuple(notes)


def is_unmeasured_on_cpu(row: PipelineRequest | Load, pipeline: Pipeline) -> bool:
    """Whether the network runs on the CPU as no trial did (other network, task or format)."""
    if not row.on_cpu:
        return False
    key = cpu_key(row.workload)
    known = key in pipeline.cpu_networks or key in bundled_cpu_rates().networks
    return row.workload.precision is not Precision.FP32 or not known


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


def _host_notes(resources: Resources, pipeline: Pipeline) -> Iterator[str]:
    if resources.vcpus > pipeline.largest_vcpus:
        yield (
            f"{resources.vcpus:g} vCPUs lie beyond the {pipeline.largest_vcpus:g} that were "
            "measured"
        )
    if not (resources.cpu and resources.cpu.single_thread_score):
        yield "the CPU's speed is unknown: the measured CPU's is assumed"
    elif not is_same_architecture(resources, pipeline.reference):
        yield (
            f"{resources.cpu.architecture} cores were not measured: rates are carried from "
            f"{pipeline.reference.architecture} by a single-thread mark, which tells little"
        )
