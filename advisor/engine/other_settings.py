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
    Resources,
    Task,
    Workload,
)
from advisor.engine.candidates import candidate_resources
from advisor.engine.probability import NO_LIMIT
from advisor.models.bundled import IdentityCache
from advisor.models.performance.settings import SettingGain

if TYPE_CHECKING:
    from advisor.engine.model import PreparedRows, SettingsModel


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
            prediction=prediction,
            gain=prediction.median / before.median,
        )
        for better, prediction in zip(gains, after, strict=True)
    )
