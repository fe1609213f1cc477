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


def settings_of_candidate(one: Candidate, catalog: Catalog, model: SettingsModel) -> tuple[OtherSetting, ...]:
    """Of all instances of a candidate together."""
    resources = candidate_resources(catalog, one)
    return _other_settings(model, one.workload, resources, one.prediction, one.spec.count)


def settings_of_instance(
    one: InstancePrediction, catalog: Catalog, model: SettingsModel
) -> tuple[OtherSetting, ...]:
    """Of a named instance."""
    resources = resources_of(catalog, one.instance, one.disk, one.prediction.gpus_used)
    return _other_settings(model, one.workload, resources, one.prediction)


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
    return _settings(gains, [one.times(count) for one in after], before)


def with_settings(one: OnGpu, model: SettingsModel) -> OnGpu:
    """A GPU by itself, where nothing else binds, with what other settings bring it."""
    if one.workload is None or one.prediction is None:
        return one
    gains = _that_fit(model, one.workload, one.gpu, one.prediction.confidence)
    after = [
        model.predict_gpu([gain.workload], one.gpu, confidence=one.prediction.confidence)[0] for gain in gains
    ]
    return replace(one, other_settings=_settings(gains, after, one.prediction))


def _that_fit(model: SettingsModel, workload: Workload, gpu: Gpu, confidence: float) -> list[SettingGain]:
    gains = model.setting_gains(workload, gpu, confidence=confidence)
    return [one for one in gains if model.gpu_memory_mib(one.workload) <= gpu.memory_mib]


def _settings(
    gains: Sequence[SettingGain], after: Sequence[Prediction], before: Prediction
) -> tuple[OtherSetting, ...]:
    return tuple(
        OtherSetting(
            name=one.setting.name,
            option=one.setting.option,
            gpu_gain=one.gain.factor,
            measured=one.gain.measured,
            prediction=prediction,
            gain=prediction.median / before.median,
        )
        for one, prediction in zip(gains, after, strict=True)
    )
