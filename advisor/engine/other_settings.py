"""The effect of another stack, memory format or precision on a spec, with its host and disk as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog, resources_of
from advisor.domain import (
    Candidate,
    Gpu,
    InstancePrediction,
    OnGpu,
    OtherSetting,
    Prediction,
    Recommendation,
    Resources,
    Task,
    Workload,
)
from advisor.engine import decide
from advisor.engine.candidates import candidate_resources
from advisor.engine.prepared import Preparations
from advisor.engine.probability import NO_LIMIT
from advisor.engine.rejected import Rejections
from advisor.engine.tasks.network import NetworkTask
from advisor.models.bundled import IdentityCache
from advisor.models.performance.settings import SettingGain

if TYPE_CHECKING:
    from advisor.engine.model import PreparedRows, SettingsModel


# A change of the code has to bring the price below this share of it.
_CLEARLY_LESS = 0.95


class _Prepared(NamedTuple):
    """What other settings bring a GPU, and rows with them on an instance, whatever its disk."""

    gains: Sequence[SettingGain]
    rows: PreparedRows | None


_PREPARED: IdentityCache[_Prepared] = IdentityCache(512)


def settings_of_candidate(
    candidate: Candidate, catalog: Catalog, model: SettingsModel
) -> tuple[OtherSetting, ...]:
    """Of all instances of a candidate together."""
    resources = candidate_resources(catalog, candidate)
    return _other_settings(model, candidate.workload, resources, candidate.prediction, candidate.spec.count)


def with_cheaper_specs(
    answer: Recommendation, settings: Sequence[OtherSetting], preparations: Preparations, model: SettingsModel
) -> tuple[OtherSetting, ...]:
    """The settings, each with the spec that the target takes under it where that costs clearly less: among
    the GPUs that are just too slow as it is, and only where rows tell the setting's gain there."""
    request, chosen = answer.request, answer.chosen
    if chosen is None or not request.ranks_by_price:
        return tuple(settings)
    most = _CLEARLY_LESS * chosen.spec.total_usd_per_hour
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
        gains = _that_fit(model, before, gpu, request.confidence)
        return other if any(gain.setting.name == setting.name for gain in gains) else None

    return tuple(replace(setting, instead=cheaper(setting)) for setting in settings)


def settings_of_instance(
    shown: InstancePrediction, catalog: Catalog, model: SettingsModel
) -> tuple[OtherSetting, ...]:
    """Of a named instance."""
    resources = resources_of(catalog, shown.instance, shown.disk, shown.prediction.gpus_used)
    return _other_settings(model, shown.workload, resources, shown.prediction)


def _other_settings(
    model: SettingsModel, workload: Workload, resources: Resources, before: Prediction, count: int = 1
) -> tuple[OtherSetting, ...]:
    gpu, confidence = resources.gpu, before.confidence
    if gpu is None or workload.task is Task.PREPROCESSING:
        return ()

    def prepared() -> _Prepared:
        gains = _that_fit(model, workload, gpu, confidence)
        pairs = [(gain.workload, resources) for gain in gains]
        return _Prepared(gains, model.prepare(pairs, confidence=confidence) if pairs else None)

    key = workload, replace(resources, disk=NO_LIMIT), confidence
    gains, rows = _PREPARED.get((model,), key, prepared)
    if rows is None:
        return ()
    after = rows.with_disks(range(len(gains)), [resources.disk] * len(gains))
    return _settings(gains, [prediction.times(count) for prediction in after], before)


def with_settings(on_gpu: OnGpu, model: SettingsModel) -> OnGpu:
    """A GPU by itself, where nothing else binds, with what other settings bring it."""
    if on_gpu.workload is None or on_gpu.prediction is None:
        return on_gpu
    gains = _that_fit(model, on_gpu.workload, on_gpu.gpu, on_gpu.prediction.confidence)
    after = [
        model.predict_gpu([gain.workload], on_gpu.gpu, confidence=on_gpu.prediction.confidence)[0]
        for gain in gains
    ]
    return replace(on_gpu, other_settings=_settings(gains, after, on_gpu.prediction))


def _that_fit(model: SettingsModel, workload: Workload, gpu: Gpu, confidence: float) -> list[SettingGain]:
    gains = model.setting_gains(workload, gpu, confidence=confidence)
    return [gain for gain in gains if model.gpu_memory_mib(gain.workload) <= gpu.memory_mib]


def _settings(
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
