"""The part of a performance model that the engine uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.domain import CacheState, DiskRate, Gpu, Prediction, Resources, Workload
from advisor.models.performance.machines import DiskTable

if TYPE_CHECKING:
    from advisor.domain.decision import Distance
    from advisor.models.performance.settings import SettingGain

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]


class Rates(Protocol):
    """Samples per second with both bounds, and whether residuals back them; columns (n,)."""

    @property
    def lower(self) -> Floats:
        """The lower bound."""

    @property
    def median(self) -> Floats:
        """The median."""

    @property
    def upper(self) -> Floats:
        """The upper bound."""

    @property
    def calibrated(self) -> Booleans:
        """Whether held-out residuals back the bounds."""

    @property
    def bottleneck(self) -> Integers:
        """Which of `STAGES` binds."""


class PreparedRows(Protocol):
    """Workloads on machines, predicted but for their disks; `cache` None: as the task has it."""

    def beside(self, other: Any) -> PreparedRows:
        """These, then those of another one at the same confidence."""

    def columns_with(self, rows: Integers, disks: DiskTable, cache: CacheState | None = None) -> Rates:
        """Rates of some rows, each with a disk of its own."""

    def with_disks(self, rows: Sequence[int], disks: Sequence[DiskRate]) -> list[Prediction]:
        """The same as records."""

    def log_lowers(self, rows: Integers, disks: DiskTable, cache: CacheState | None = None) -> Floats:
        """Logarithms of the lower bounds, of the shape of `rows`; they follow the scarcer of the
        disk's bandwidth and IOPS, and more of either is never slower."""


class SettingsChoice(Protocol):
    """A model that knows how a GPU is used best."""

    def usual_settings(
        self,
        workload: Workload,
        gpus: Sequence[Gpu],
        *,
        precision: bool,
        memory_format: bool,
        smallest_batch: int,
    ) -> Sequence[Workload]:
        """The workload on each GPU as people run it there, where its precision and memory format are open."""


class PerformanceModel(SettingsChoice, Protocol):
    """What a decision needs."""

    def remembering(self) -> PerformanceModel:
        """The same for many questions of like workloads."""

    def predict(
        self,
        requests: Sequence[tuple[Workload, Resources]],
        *,
        confidence: float,
        cache: CacheState | None = None,
    ) -> list[Prediction]:
        """One prediction for each workload on its resources; `cache` None: as the task has it."""

    def prepare(self, requests: Sequence[tuple[Workload, Resources]], *, confidence: float) -> PreparedRows:
        """The same requests, of which disks are to be changed; one at least."""

    def gpu_memory_mib(self, workload: Workload) -> float:
        """GPU memory the workload takes."""

    def host_memory_mib(self, workload: Workload, resources: Resources) -> float:
        """RAM below which the workload dies."""

    def most_on_cpu(
        self, workloads: Sequence[Workload], cores: Floats, marks: Floats, cpus: Sequence[str]
    ) -> Floats:
        """No median of any of the workloads is above this, on CPUs of these whole cores,
        single-thread marks (nan: unknown) and names, each (n,); 0 where nothing tells."""


class GpuModel(SettingsChoice, Protocol):
    """What a comparison of GPUs needs."""

    def predict_gpu(self, workloads: Sequence[Workload], gpu: Gpu, *, confidence: float) -> list[Prediction]:
        """What the GPU reaches alone, one prediction a workload of one cell."""

    def gpu_memory_mib(self, workload: Workload) -> float:
        """GPU memory the workload takes."""


class SettingsModel(PerformanceModel, GpuModel, Protocol):
    """A model that knows how rates change with how PyTorch runs."""

    def setting_gains(self, workload: Workload, gpu: Gpu, *, confidence: float) -> Sequence[SettingGain]:
        """What each other setting brings the GPU alone, where rows tell it."""


class ExplainingModel(PerformanceModel, Protocol):
    """A model that knows how far from its measurements it is asked."""

    def distances(
        self, workload: Workload, resources: Resources, prediction: Prediction
    ) -> tuple[Distance, ...]:
        """How far each fact that the prediction stands on lies from what was measured."""
