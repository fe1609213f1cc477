"""Explains a prediction: its bottleneck, and the gain from a little more of each resource.

A gain is the difference between the median rates that the model predicts with and without the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog, resources_of
from advisor.domain import (
    Candidate,
    Disk,
    Gpu,
    InstancePrediction,
    InstanceType,
    OnGpu,
    OtherSetting,
    Prediction,
    Recommendation,
    Resources,
    Task,
    Workload,
)
from advisor.domain.decision import Explanation, Gain
from advisor.engine import decide
from advisor.engine.candidates import BATCH_SIZES, candidate_resources
from advisor.engine.limits import CLEARLY_LESS
from advisor.engine.prepared import Preparations
from advisor.engine.rejected import Rejections
from advisor.engine.table import NO_LIMIT
from advisor.engine.tasks.network import NetworkTask
from advisor.messages import Message
from advisor.models.bundled import IdentityCache
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.prepared import PreparedRows
from advisor.models.performance.settings import SettingGain

# The steps in which people buy RAM and IOPS.
MEMORY_STEP_MIB = 1024.0
IOPS_STEP = 100.0


class Change(NamedTuple):
    """A workload with a little more of one resource, or in a larger batch."""

    resource: str
    step: Message | str
    workload: Workload
    resources: Resources


def explain(
    catalog: Catalog,
    model: PerformanceModel,
    instance: InstanceType,
    disk: Disk,
    workload: Workload,
    prediction: Prediction,
) -> Explanation:
    """The explanation of a workload's `prediction` on an instance with a disk."""
    resources = resources_of(catalog, instance, disk, prediction.gpus_used)
    rates = dict(prediction.stage_rates)
    bound = rates.pop(prediction.bottleneck)
    following = min(rates, key=rates.__getitem__, default=None)
    return Explanation(
        bottleneck=prediction.bottleneck,
        bottleneck_rate=bound,
        next_stage=following,
        next_rate=rates[following] if following else None,
        gains=_step_gains(model, workload, resources, prediction),
        distances=model.distances(workload, resources, prediction),
    )


def changes(model: PerformanceModel, workload: Workload, has: Resources) -> Iterator[Change]:
    """Yield one step more of each resource that can be bought, and the next larger batch that fits."""
    step = "1 vCPU, a core" if has.physical_cores >= has.vcpus else "1 vCPU, half a core"
    yield Change("vcpus", step, workload, _with_vcpu(model, workload, has))
    more_memory = replace(has, memory_mib=has.memory_mib + MEMORY_STEP_MIB)
    yield Change("memory", "1 GiB of RAM", workload, more_memory)
    disk = has.disk
    if disk.read_mib_per_second is not None:
        faster = replace(disk, read_mib_per_second=disk.read_mib_per_second + 1)
        yield Change("disk_throughput", "1 MiB/s of disk", workload, replace(has, disk=faster))
    if disk.read_iops is not None:
        faster = replace(disk, read_iops=disk.read_iops + IOPS_STEP)
        yield Change("disk_iops", f"{IOPS_STEP:g} IOPS", workload, replace(has, disk=faster))
    larger = _larger_batch(model, workload, has)
    if larger:
        batch = Message("batch {larger}, not {now}", larger=larger.batch_size, now=workload.batch_size)
        yield Change("batch_size", batch, larger, has)


def _step_gains(
    model: PerformanceModel, workload: Workload, has: Resources, before: Prediction
) -> tuple[Gain, ...]:
    changed = list(changes(model, workload, has))
    pairs = [(change.workload, change.resources) for change in changed]
    predictions = model.predict(pairs, confidence=before.confidence)

    def relative(after: Prediction) -> float:
        gain = after.median / before.median - 1
        return gain if abs(gain) > _ROUNDING else 0.0

    gains = map(relative, predictions)
    return tuple(
        Gain(
            resource=change.resource,
            step=change.step,
            samples_per_second=gain * before.median,
            percent=100 * gain,
            bottleneck=after.bottleneck,
        )
        for change, after, gain in zip(changed, predictions, gains, strict=True)
    )


# What rounding alone adds is no gain: its digits differ from CPU to CPU.
_ROUNDING = 1e-12


def _with_vcpu(model: PerformanceModel, workload: Workload, has: Resources) -> Resources:
    """The resources with one vCPU more, which is half a core where a core is sold as two. The RAM of its
    loader process is added, too: otherwise the process would shrink the page cache, and a vCPU that need not
    be used would lower the rate."""
    cores = has.physical_cores * (has.vcpus + 1) / has.vcpus
    more = replace(has, vcpus=has.vcpus + 1, physical_cores=cores)
    loader_mib = model.host_memory_mib(workload, more) - model.host_memory_mib(workload, has)
    return replace(more, memory_mib=has.memory_mib + max(0.0, loader_mib))


def _larger_batch(model: PerformanceModel, workload: Workload, has: Resources) -> Workload | None:
    """The workload with the next larger batch size; None if there is none, or it does not fit."""
    larger = [size for size in BATCH_SIZES if size > workload.batch_size]
    if not larger or workload.task is Task.PREPROCESSING:
        return None
    next_one = replace(workload, batch_size=larger[0])
    if has.gpu is not None and model.gpu_memory_mib(next_one) > has.gpu.memory_mib:
        return None
    return next_one if model.host_memory_mib(next_one, has) <= has.memory_mib else None


# Gains of other settings on a GPU, and prepared predictions with them for an instance with any disk.
_Settings = tuple[Sequence[SettingGain], PreparedRows | None]
_KEPT: IdentityCache[_Settings] = IdentityCache(512)


def settings_of_candidate(
    candidate: Candidate, catalog: Catalog, model: PerformanceModel
) -> tuple[OtherSetting, ...]:
    """The other settings of a candidate, with the rates of all its instances together."""
    resources = candidate_resources(catalog, candidate)
    return _other_settings(model, candidate.workload, resources, candidate.prediction, candidate.spec.count)


def with_cheaper_specs(
    answer: Recommendation,
    settings: Sequence[OtherSetting],
    preparations: Preparations,
    model: PerformanceModel,
) -> tuple[OtherSetting, ...]:
    """The settings, each with a spec that meets the target only with it, if that costs clearly less. Only
    GPUs that are a little too slow without it are searched, and only gains known for them count."""
    request, chosen = answer.request, answer.chosen
    if chosen is None or not request.ranks_by_price:
        return tuple(settings)
    most = CLEARLY_LESS * chosen.spec.total_usd_per_hour
    catalog, rejected = preparations.catalog, answer.rejected
    gpus = rejected.nearly_fast_gpus(most) if isinstance(rejected, Rejections) else ()
    if not gpus:
        return tuple(settings)
    near = request.replace(gpus=gpus, max_usd_per_hour=most, max_results=1)

    def cheaper(setting: OtherSetting) -> Candidate | None:
        changed = near.replace(**{setting.field: setting.value})
        other = decide.recommend(NetworkTask(preparations), changed, today=answer.today, whole=False).chosen
        gpu = catalog.gpu_of(other.spec.offer.instance) if other else None
        if other is None or gpu is None:
            return None
        before = replace(other.workload, **{setting.field: getattr(chosen.workload, setting.field)})
        gains = _gpu_gains(model, before, gpu, request.confidence)
        return other if any(gain.setting.name == setting.name for gain in gains) else None

    return tuple(replace(setting, instead=cheaper(setting)) for setting in settings)


def settings_of_instance(
    shown: InstancePrediction, catalog: Catalog, model: PerformanceModel
) -> tuple[OtherSetting, ...]:
    """The other settings of a prediction for a named instance."""
    resources = resources_of(catalog, shown.instance, shown.disk, shown.prediction.gpus_used)
    return _other_settings(model, shown.workload, resources, shown.prediction)


def _other_settings(
    model: PerformanceModel, workload: Workload, resources: Resources, before: Prediction, count: int = 1
) -> tuple[OtherSetting, ...]:
    gpu, confidence = resources.gpu, before.confidence
    if gpu is None or workload.task is Task.PREPROCESSING:
        return ()

    def prepared() -> _Settings:
        gains = _gpu_gains(model, workload, gpu, confidence)
        pairs = [(gain.workload, resources) for gain in gains]
        return gains, model.prepare(pairs, confidence=confidence) if pairs else None

    key = workload, replace(resources, disk=NO_LIMIT), confidence
    gains, rows = _KEPT.get((model,), key, prepared)
    if rows is None:
        return ()
    after = rows.with_disks(range(len(gains)), [resources.disk] * len(gains))
    return _settings_with_rates(gains, [prediction.times(count) for prediction in after], before)


def with_settings(on_gpu: OnGpu, model: PerformanceModel) -> OnGpu:
    """The prediction for a GPU alone, with the rates under other settings."""
    if on_gpu.workload is None or on_gpu.prediction is None:
        return on_gpu
    gains = _gpu_gains(model, on_gpu.workload, on_gpu.gpu, on_gpu.prediction.confidence)
    after = [
        model.predict_gpu([gain.workload], on_gpu.gpu, confidence=on_gpu.prediction.confidence)[0]
        for gain in gains
    ]
    return replace(on_gpu, other_settings=_settings_with_rates(gains, after, on_gpu.prediction))


def _gpu_gains(model: PerformanceModel, workload: Workload, gpu: Gpu, confidence: float) -> list[SettingGain]:
    gains = model.setting_gains(workload, gpu, confidence=confidence)
    return [gain for gain in gains if model.gpu_memory_mib(gain.workload) <= gpu.memory_mib]


def _settings_with_rates(
    gains: Sequence[SettingGain], after: Sequence[Prediction], before: Prediction
) -> tuple[OtherSetting, ...]:
    return tuple(
        OtherSetting(
            name=better.setting.name,
            option=better.setting.option,
            gpu_gain=better.gain.factor,
            measured=better.gain.measured,
            field=better.setting.field,
            value=better.setting.value,
            prediction=prediction,
            gain=prediction.median / before.median,
        )
        for better, prediction in zip(gains, after, strict=True)
    )
