"""The hook for a user's training script: `for batch in steps(loader):` (standard library only).

    from advisor.sweeps.hook import steps

    for batch in steps(loader):
        ...

Under `advisor measure -- python train.py` it records how long each step took, how long the
loop waited for the loader, the batch size and the GPU's memory, and writes them to the file
that `ADVISOR_STEPS_FILE` names. Without that variable it returns the loader untouched.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

_KEPT_OPERATORS = 30
FILE_VARIABLE = "ADVISOR_STEPS_FILE"
SECONDS_VARIABLE = "ADVISOR_STEPS_SECONDS"
# 0: no operation profile after the counted steps.
PROFILE_VARIABLE = "ADVISOR_STEPS_PROFILE"
SCHEMA = "advisor.steps/2"
_DEFAULT_SECONDS = 120.0
# A script that is killed loses at most the records of this time.
_WRITE_EVERY_SECONDS = 1.0
_PROFILED_STEPS = 5
_PROFILED_SECONDS = 10.0
_MIB = 2**20

Batch = TypeVar("Batch")


def steps(loader: Iterable[Batch]) -> Iterable[Batch]:
    """The loader's batches; under `advisor measure` each step is timed.

    Call it once an epoch, like the loader. Of several processes of one training (torchrun) only the first
    one records."""
    path = os.environ.get(FILE_VARIABLE)
    if not path or os.environ.get("RANK", "0") != "0":
        return loader
    global _recorder
    if _recorder is None:
        seconds = float(os.environ.get(SECONDS_VARIABLE, _DEFAULT_SECONDS))
        profiles = os.environ.get(PROFILE_VARIABLE, "1") != "0"
        _recorder = Recorder(Path(path), seconds, profiles=profiles)
        atexit.register(_recorder.close)
    return _Watched(loader, _recorder)


class _Watched(Generic[Batch]):
    """A loader, with its length and attributes, that times its batches."""

    def __init__(self, loader: Iterable[Batch], recorder: Recorder) -> None:
        self._loader = loader
        self._recorder = recorder

    def __iter__(self) -> Iterator[Batch]:
        return self._recorder.watch(self._loader)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Mark:
    """A moment of the loop: the host's clock, and on a GPU an event after the work enqueued so far."""

    __slots__ = ("event", "host")

    def __init__(self, host: float, event: Any) -> None:
        self.host = host
        self.event = event

    def seconds_until(self, later: _Mark) -> float:
        """Seconds between the two events if both marks have one, else by the host's clock."""
        if self.event is not None and later.event is not None:
            return float(self.event.elapsed_time(later.event)) / 1e3
        return later.host - self.host


class _Step(NamedTuple):
    begun: _Mark
    given: _Mark
    ended: _Mark
    samples: int
    # For the first step of an epoch: the end of the epoch before (`begun` in the first epoch); else None.
    last_epoch: _Mark | None


class Recorder:
    """Times the steps of all epochs for `seconds`, and writes them.

    A step lasts from the completion of the previous step until it completes. On a GPU both ends are events on
    the stream, so that the loop waits for the GPU only at the end of an epoch. The first step of an epoch
    begins when `steps` is called and includes the loader's start; work between two epochs belongs to no step.
    No error of the recorder reaches the loop."""

    def __init__(
        self,
        path: Path,
        seconds: float,
        *,
        profiles: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._place = path
        self._seconds = seconds
        self._profiles = profiles
        self._clock = clock
        self._started = self._written = clock()
        self._pid = os.getpid()
        self._begun = _Mark(self._started, None)
        self._device: int | None = None
        self._unread: deque[_Step] = deque()
        self._steps = 0
        self._lines: dict[str, list[Any]] = {"steps": [], "epochs": []}
        self._epoch_ended: _Mark | None = None
        self._profile: Profile | None = None
        self._done = False
        self._write({"schema": SCHEMA, "columns": ["waited_seconds", "step_seconds", "samples"]})

    def watch(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, and time the loop's work on each."""
        begun = self._mark()
        last_epoch: _Mark | None = self._epoch_ended or begun
        batches = iter(loader)
        try:
            for batch in batches:
                given = self._mark()
                yield batch
                ended = self._mark()
                if not self._done:
                    self._take(_Step(begun, given, ended, batch_size(batch), last_epoch))
                begun, last_epoch = ended, None
        finally:
            self._epoch_ended = begun
            if not self._done and os.getpid() == self._pid:
                if self._profile:
                    self.finish()
                else:
                    self._read(wait=True)
                    self._write(self._news() | {"loader_workers": getattr(loader, "num_workers", None)})

    def begin(self) -> None:
        """Begin the first step of a loop that does not read its batches through `watch`."""
        self._begun = self._mark()

    def step(self, samples: int) -> None:
        """Record a step that ends now and began with the previous one's end; its wait for data is unknown."""
        begun, self._begun = self._begun, self._mark()
        if not self._done:
            first = None if self._steps or self._unread else begun
            self._take(_Step(begun, begun, self._begun, samples, first))

    def close(self) -> None:
        """Write the remaining records, once."""
        # A forked loader process inherits the exit handler, but has nothing to report.
        if self._done or os.getpid() != self._pid:
            return
        self._done = True
        self._read(wait=True)
        operators = self._profile.operators() if self._profile else {}
        self._write(self._news() | operators)

    def finish(self) -> None:
        """Close, and give the file its final name: a sign to `advisor measure` that it is complete."""
        if not self._done:
            self.close()
            if self._steps:
                _quietly(unfinished(self._place).replace, self._place)

    def _mark(self) -> _Mark:
        event = None if self._done else _quietly(_recorded_event, self._device)
        return _Mark(self._clock(), event)

    def _take(self, step: _Step) -> None:
        now = step.ended.host
        if self._profile:
            if self._profile.is_over(now):
                self.finish()
            return
        self._unread.append(step)
        if self._device is None:
            self._device = _quietly(_fullest_device)
        self._read(wait=False)
        if now - self._started >= self._seconds:
            self._read(wait=True)
            self._write(self._news())
            on_gpu = self._device is not None
            self._profile = _quietly(Profile, self._clock, on_gpu) if self._profiles else None
            if not self._profile:
                self.finish()
        elif now - self._written >= _WRITE_EVERY_SECONDS:
            self._write(self._news())

    def _read(self, *, wait: bool) -> None:
        """Take the rows of the steps that the device has completed."""
        if wait and self._unread and (last := self._unread[-1].ended.event) is not None:
            _quietly(last.synchronize)
        # Steps whose end the device has reached.
        while self._unread and ((event := self._unread[0].ended.event) is None or _quietly(event.query)):
            _quietly(self._take_row, self._unread.popleft())

    def _take_row(self, step: _Step) -> None:
        waited = step.begun.seconds_until(step.given)
        if step.last_epoch:
            epoch = {"first_step": self._steps, "gap_seconds": step.last_epoch.seconds_until(step.begun)}
            self._lines["epochs"].append(epoch | {"loader_start_seconds": waited})
        self._lines["steps"].append([waited, step.begun.seconds_until(step.ended), float(step.samples)])
        self._steps += 1

    def _news(self) -> dict[str, Any]:
        news, self._lines = self._lines, {"steps": [], "epochs": []}
        return {**news, **(_quietly(_torch_facts, self._device) or {})}

    def _write(self, line: dict[str, Any]) -> None:
        self._written = self._clock()
        with suppress(OSError), unfinished(self._place).open("a") as file:
            file.write(json.dumps(line) + "\n")


_recorder: Recorder | None = None


class Profile:
    """Torch's profiler over a few steps after the recorded ones."""

    def __init__(self, clock: Callable[[], float], on_gpu: bool, seconds: float = _PROFILED_SECONDS) -> None:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
        self._on_gpu = on_gpu
        self._steps = 0
        self._ends_at = clock() + seconds
        self._profiler = profile(activities=activities)
        self._profiler.start()

    def is_over(self, now: float) -> bool:
        """Count one more step; returns whether it was the last one."""
        self._steps += 1
        return self._steps >= _PROFILED_STEPS or now >= self._ends_at

    def operators(self) -> dict[str, Any]:
        """The 30 `operators` with the most self time, per step: GPU time of their kernels, else CPU time.
        `share` is the part of all operators' self time. Without a step the list is empty; after an error
        `no_profile` has the reason."""
        try:
            self._profiler.stop()
            averages, steps = self._profiler.key_averages(), self._steps
        except Exception as error:
            return {"no_profile": f"{type(error).__name__}: {error}"}
        # Kernels have rows, too, but their time is already the self time of the operators that started them.
        name = "self_device_time_total" if self._on_gpu else "self_cpu_time_total"
        operators = (entry for entry in averages if str(entry.device_type).endswith("CPU"))
        rows = [(entry, float(getattr(entry, name))) for entry in operators] if steps else []
        total = sum(microseconds for _, microseconds in rows) or 1.0
        rows.sort(key=lambda row: row[1], reverse=True)
        table = [
            {
                "name": average.key,
                "calls_per_step": average.count / steps,
                "self_seconds_per_step": microseconds / steps / 1e6,
                "share": microseconds / total,
            }
            for average, microseconds in rows[:_KEPT_OPERATORS]
            if microseconds > 0
        ]
        return {"operators": table}


def unfinished(path: Path) -> Path:
    """The path of the growing file, which exists as soon as the script has called the hook."""
    return path.with_name(f"{path.name}.part")


def batch_size(batch: Any) -> int:
    """Rows of the first tensor or array in a batch, at any depth; 0 if there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(batch_size, batch) if size), 0)
    return 0


def _quietly(action: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except Exception:
        return None


def _cuda() -> Any:
    """torch.cuda if the script uses it, else None; the hook never imports torch itself."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def _fullest_device() -> int | None:
    """The number of the GPU where the script has allocated most memory; it need not be the current one."""
    cuda = _cuda()
    used = [cuda.memory_allocated(number) for number in range(cuda.device_count())] if cuda else []
    return used.index(max(used)) if any(used) else None


def gpu_uuid_in_use() -> str | None:
    """The driver's UUID of the GPU that holds most of this process's memory; None without a GPU."""
    device = _quietly(_fullest_device)
    return (_quietly(_torch_facts, device) or {}).get("gpu_uuid") or None


def _recorded_event(device: int | None) -> Any:
    if device is None:
        return None
    cuda = _cuda()
    event = cuda.Event(enable_timing=True, blocking=True)
    event.record(cuda.current_stream(device))
    return event


def _torch_facts(device: int | None) -> dict[str, Any]:
    torch, cuda = sys.modules.get("torch"), _cuda()
    facts: dict[str, Any] = {
        "torch": str(torch.__version__) if torch else None,
        "threads": torch.get_num_threads() if torch else None,
        "device": "cpu",
        "gpu": None,
        "gpu_peak_allocated_mib": None,
        "gpu_peak_reserved_mib": None,
    }
    if device is not None and cuda:
        properties = cuda.get_device_properties(device)
        facts |= {
            "device": "cuda",
            "gpu": properties.name,
            "gpu_uuid": str(getattr(properties, "uuid", "")),
            "gpu_memory_mib": properties.total_memory / _MIB,
            "gpu_sm_count": properties.multi_processor_count,
            "gpu_peak_allocated_mib": cuda.max_memory_allocated(device) / _MIB,
            "gpu_peak_reserved_mib": cuda.max_memory_reserved(device) / _MIB,
        }
    return facts
