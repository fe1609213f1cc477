"""The hook of an own training script: `for batch in steps(loader):` (standard library only).

    from sweeps.hook import steps

    for batch in steps(loader):
        ...

Under `advisor measure -- python train.py` it records how long each step took, how much of it
the loop waited for the loader, the batch size and the GPU's memory, and writes them to the file
that `ADVISOR_STEPS_FILE` names. Without that variable it hands the loader through, untouched.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

FILE_VARIABLE = "ADVISOR_STEPS_FILE"
SECONDS_VARIABLE = "ADVISOR_STEPS_SECONDS"
SCHEMA = "advisor.steps/1"
_DEFAULT_SECONDS = 120.0
# Bunches of prefetched batches and the choice of algorithms lie in the first steps.
_WARMUP_SECONDS_SHARE = 0.1
_WARMUP_STEPS = 5
_MIB = 2**20

Batch = TypeVar("Batch")


def steps(loader: Iterable[Batch]) -> Iterable[Batch]:
    """The loader's batches, each step timed where `advisor measure` asks for it.

    Call it once an epoch, as the loader itself. Of several processes of one training (torchrun)
    only the first records.
    """
    place = os.environ.get(FILE_VARIABLE)
    if not place or os.environ.get("RANK", "0") != "0":
        return loader
    global _recorder
    if _recorder is None:
        seconds = float(os.environ.get(SECONDS_VARIABLE, _DEFAULT_SECONDS))
        _recorder = Recorder(Path(place), seconds)
        atexit.register(_recorder.finish)
    return _recorder.watch(loader)


class Recorder:
    """Times the steps of all epochs until the seconds are over, then writes the file once.

    The device is synchronised twice only, where counting begins and where it ends: a loop that
    runs ahead of its GPU keeps doing so. Single steps are what the loop took, the rate over all
    of them is exact.
    """

    def __init__(
        self, place: Path, seconds: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._place = place
        self._seconds = seconds
        self._clock = clock
        self._started = clock()
        self._pid = os.getpid()
        self._warmup: list[list[float]] = []
        self._counted: list[list[float]] = []
        self._counted_from: float | None = None
        self._done = False
        begun_mark(place).touch()

    def watch(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """Hand on the batches; rows are [seconds waited, seconds of the step, batch size]."""
        batches = iter(loader)
        while True:
            begun = self._clock()
            try:
                batch = next(batches)
            except StopIteration:
                return
            waited = self._clock() - begun
            yield batch
            self._take(begun, waited, batch)

    def finish(self) -> None:
        """Write what was recorded, whole; nothing when no step was, or it is written already."""
        # A forked loader process inherits the exit handler, but has nothing to report.
        if self._done or os.getpid() != self._pid or not (self._counted or self._warmup):
            return
        self._done = True
        _synchronize()
        counted_seconds = self._clock() - (self._counted_from or self._started)
        part = self._place.with_name(f"{self._place.name}.part")
        part.write_text(json.dumps(self._document(counted_seconds)))
        part.replace(self._place)

    def _take(self, begun: float, waited: float, batch: Any) -> None:
        if self._done:
            return
        now = self._clock()
        row = [waited, now - begun, float(batch_size(batch))]
        if self._counted_from is None:
            self._warmup.append(row)
            self._end_warmup(now)
        else:
            self._counted.append(row)
        if now - self._started >= self._seconds:
            self.finish()

    def _end_warmup(self, now: float) -> None:
        early = now - self._started < self._seconds * _WARMUP_SECONDS_SHARE
        if len(self._warmup) >= _WARMUP_STEPS and not early:
            _synchronize()
            _forget_peaks()
            self._counted_from = self._clock()

    def _document(self, counted_seconds: float) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "columns": ["waited_seconds", "step_seconds", "batch_size"],
            "warmup": self._warmup,
            "counted": self._counted,
            "counted_seconds": counted_seconds if self._counted_from is not None else None,
            **_torch_facts(),
        }


_recorder: Recorder | None = None


def begun_mark(place: Path) -> Path:
    """The empty file that says that the script has called the hook."""
    return place.with_name(f"{place.name}.begun")


def batch_size(batch: Any) -> int:
    """Rows of the first tensor or array in a batch, however it is nested; 0 where none is."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(batch_size, batch) if size), 0)
    return 0


def _cuda() -> Any:
    """torch.cuda where the script uses it; torch is never imported for the hook's sake."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def _synchronize() -> None:
    if cuda := _cuda():
        cuda.synchronize()


def _forget_peaks() -> None:
    if cuda := _cuda():
        cuda.reset_peak_memory_stats()


def _torch_facts() -> dict[str, Any]:
    torch, cuda = sys.modules.get("torch"), _cuda()
    facts: dict[str, Any] = {
        "torch": str(torch.__version__) if torch else None,
        "threads": torch.get_num_threads() if torch else None,
        "device": "cuda" if cuda else "cpu",
        "gpu": None,
        "gpu_peak_allocated_mib": None,
        "gpu_peak_reserved_mib": None,
    }
    if cuda:
        facts |= {
            "gpu": cuda.get_device_name(),
            "gpu_peak_allocated_mib": cuda.max_memory_allocated() / _MIB,
            "gpu_peak_reserved_mib": cuda.max_memory_reserved() / _MIB,
        }
    return facts
