"""The same workload on instances, or on GPUs alone, beside one of them that counts as 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from advisor.catalog import Catalog
from advisor.domain import Gpu, InstancePrediction, OnGpu, Prediction, Request, Workload
from advisor.engine.candidates import PerformanceModel, workloads_of
from advisor.engine.judging import GOOD_ENOUGH
from advisor.engine.single import predict_instance


class GpuModel(Protocol):
    """What a comparison of GPUs needs of a performance model."""

    def predict_gpu(
        self, workloads: Sequence[Workload], gpu: Gpu, *, confidence: float
    ) -> list[Prediction]:
        """What the GPU reaches alone, one prediction a workload of one cell."""

    def gpu_memory_mib(self, workload: Workload) -> float:
        """GPU memory the workload takes."""


def compare_instances(
    request: Request, catalog: Catalog, model: PerformanceModel, names: Sequence[str]
) -> list[InstancePrediction]:
    """One prediction an instance, in the order asked; `UsageError` where it cannot run there."""
    return [predict_instance(request, catalog, model, name) for name in names]


def on_gpu(request: Request, model: GpuModel, gpu: Gpu) -> OnGpu:
    """The request's network on one GPU, whatever host feeds it."""
    fitting = [w for w in workloads_of(request) if model.gpu_memory_mib(w) <= gpu.memory_mib]
    if not fitting:
        return OnGpu(gpu=gpu, network=request.network)
    predictions = model.predict_gpu(fitting, gpu, confidence=request.confidence)
    enough = GOOD_ENOUGH * max(one.median for one in predictions)
    workload, prediction = next(
        (w, one) for w, one in zip(fitting, predictions, strict=True) if one.median >= enough
    )
    return OnGpu(gpu=gpu, network=request.network, workload=workload, prediction=prediction)
