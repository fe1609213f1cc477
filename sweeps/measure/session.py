"""The settings of one measuring session, and its results so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.domain import AUGMENTED, SERVED, Precision, Status, Task
from advisor.domain.results import mean_step_seconds, stall_share
from advisor.errors import UsageError
from advisor.models.zoo.opening import Runnable
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.machine.gpu_sampling import GpuSampler, busy_percent
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.measure.document import LOADER, Run, document
from advisor.sweeps.probe.accelerator import missing
from advisor.sweeps.quality.timing import count_warmup_steps
from advisor.sweeps.worker.host_engine import HostEngine
from advisor.sweeps.worker.policy import PREFETCH_FACTOR, loader_workers
from advisor.sweeps.worker.timed_run import StepRunner, TimeBox, timed_steps, warm_up
from advisor.sweeps.worker.torch_engine import forget_peaks, gpu_uuid, peaks, torch_facts


class AnchorSession(Struct, kw_only=True):
    """The settings of one measuring session. `ends_at` is a time.monotonic() moment; `keep` gets the
    document after each run."""

    network: Runnable
    device: str
    device_facts: Mapping[str, Any]
    precision: Precision
    data: Path | None
    ends_at: float
    report: Callable[[str], None]
    keep: Callable[[dict[str, Any]], None]
    begun: float = field(default_factory=time.monotonic)
    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    operators: dict[str, Any] = field(default_factory=dict)
    stage_rates: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        """Until nothing new is begun."""
        return self.ends_at - time.monotonic()

    def sampler(self) -> GpuSampler:
        """The sampler that watches the GPU while steps are timed."""
        return GpuSampler(gpu_uuid() if self.device == "cuda" else None)

    def run_of(
        self,
        task: Task,
        source: str,
        batch_size: int,
        steps: Sequence[float],
        sampler: GpuSampler,
        period: int = 1,
    ) -> Run:
        """The run of steps on batches from `source`; its rate is in the network's samples."""
        samples, memory = batch_size * self.network.info.samples_per_row, peaks(self.device)
        warmup = count_warmup_steps(steps, period)
        counted = list(steps[warmup:])
        return {
            "task": task.value,
            "precision": self.precision.value,
            "input": source,
            "batch_size": batch_size,
            "status": Status.OK.value,
            "samples_per_second": samples / mean_step_seconds(counted),
            "stall_share": stall_share(counted, period),
            "step_seconds": counted,
            "warmup_step_seconds": list(steps[:warmup]),
            "gpu_peak_allocated_mib": memory.get("gpu_peak_allocated_mib"),
            "gpu_peak_reserved_mib": memory.get("gpu_peak_reserved_mib"),
            "gpu_state": sampler.environment,
            "reason": "",
        }

    def add(self, run: Run) -> None:
        """One more run."""
        self.runs.append(run)
        if run["samples_per_second"] is not None:
            self.keep(self.document())

    def document(self, **more: Any) -> dict[str, Any]:
        """The document of everything measured so far."""
        info = self.network.info
        return document(
            what={
                "kind": "network",
                "name": info.name,
                "fingerprint": self.network.fingerprint,
                "input_shape": list(info.input_shape),
                "unit": info.unit,
                "samples_per_row": info.samples_per_row,
            },
            device=self.device_facts,
            runs=self.runs,
            seconds=time.monotonic() - self.begun,
            warnings=self.warnings,
            stage_rates=self.stage_rates,
            operators=self.operators,
            **more,
        )


def device_facts(device: str) -> dict[str, Any]:
    """Facts of the device and its load by others; read first, since a GPU that has failed reports
    nothing, and one that has just computed looks busy."""
    facts = {"kind": device, "gpu": None, **torch_facts(device)}
    busy = busy_percent(gpu_uuid()) if device == "cuda" else None
    return facts if busy is None else facts | {"gpu_utilization_before_percent": busy}


_LEAST_STEPS = 4


def measure_with_loader(
    session: AnchorSession, runner: StepRunner, task: Task, batch_size: int, seconds: float
) -> None:
    """Adds the run with the loader, and the rate of the loader alone (`host`), in `seconds`.

    Files that the machine has just read come from its page cache: the disk is not measured.
    Raises `UsageError` for a folder without enough JPEG files.
    """
    workers = loader_workers(machine_size().vcpus)
    drained = workers * PREFETCH_FACTOR
    box = TimeBox(seconds=seconds / 4, min_steps=_LEAST_STEPS, max_seconds=seconds / 2, period=workers)
    session.report(f"{task} batch {batch_size} with {workers} loader processes")
    on_gpu = session.device == "cuda"
    with _batches(session, task, batch_size, workers, pinned=on_gpu) as batches:
        forget_peaks(session.device)
        with session.sampler() as sampler:
            steps = steps_on(runner, _with_targets(session, batches), box, drained)
    session.add(session.run_of(task, LOADER, batch_size, steps, sampler, workers))
    if "host" not in session.stage_rates[task.value]:
        with _batches(session, task, batch_size, workers, pinned=on_gpu) as batches:
            alone = steps_on(StepRunner(HostEngine(), depth=0), batches, box, drained)
        rate = batch_size / mean_step_seconds(alone[count_warmup_steps(alone, workers) :])
        session.stage_rates[task.value]["host"] = rate


def steps_on(runner: StepRunner, batches: Iterator[Any], box: TimeBox, drained: int = 0) -> list[float]:
    """Seconds of steps on the batches, after `drained` and the first ones."""
    runner.restart()
    # Batches made while nothing consumed them would make the first steps look fast.
    warm_up(runner, batches, 1 + drained + runner.depth)
    return timed_steps(runner, batches, box)


def _with_targets(session: AnchorSession, batches: Iterator[Any]) -> Iterator[Any]:
    """Targets that fit the network; they are made once, since they cost the loader nothing."""
    targets = None
    for inputs, _labels in batches:
        if targets is None:
            targets = session.network.synthetic_targets(inputs)
        yield inputs, targets


@contextmanager
def _batches(
    session: AnchorSession, task: Task, batch_size: int, workers: int, *, pinned: bool
) -> Iterator[Iterator[Any]]:
    """Endless batches (images, labels); the loader's processes are gone on leaving."""
    try:
        from advisor.sweeps.worker.inputs import make_loader
    except ModuleNotFoundError as error:
        raise missing(error.name or "Pillow") from error
    assert session.data is not None
    source = open_dataset(session.data)
    if len(source) < batch_size:
        raise UsageError(
            "'{data}' has {count} images, a batch takes {batch_size}",
            hint="name a data set with more of them with --data",
            data=session.data,
            count=len(source),
            batch_size=batch_size,
        )
    batches = iter(
        make_loader(
            source,
            pixels=session.network.info.input_pixels,
            batch_size=batch_size,
            workers=workers,
            prefetch_factor=PREFETCH_FACTOR,
            pin_memory=pinned,
            transform=SERVED if task is Task.INFERENCE else AUGMENTED,
        )
    )
    try:
        yield batches
    finally:
        del batches  # ends the loader's processes
