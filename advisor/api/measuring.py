"""Anchors measured from Python, either from your own loop while it runs or from a network alone.

An anchor is the file that `advisor measure` writes; questions take it as `anchor=`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from math import inf
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from advisor.api.calling import errors_with_fields
from advisor.api.modules import network
from advisor.domain import MEASURABLE_PRECISIONS, Precision, Task
from advisor.errors import MeasuringError, UsageError, unknown_name
from advisor.files import require_writable, write_whole
from advisor.sweeps.hook import Recorder, gpu_uuid_in_use, unfinished
from advisor.sweeps.machine.gpu import GpuSampler
from advisor.sweeps.measure.document import anchor_of_script, read_steps

Batch = TypeVar("Batch")
_COMPUTED = (Task.TRAINING, Task.INFERENCE)
_PRECISIONS = tuple(MEASURABLE_PRECISIONS)
_NO_WAITING = "how long the loop waited for its data is not known: its rate counts as the network's"


class Measuring:
    """The context manager that `measure` returns; the anchor is written to `file` when the block ends."""

    def __init__(self, file: Path, what: dict[str, Any], ran: dict[str, Any]) -> None:
        self.file = file
        self.document: dict[str, Any] | None = None
        self._what, self._ran = what, ran
        self._warnings: list[str] = []
        self._running: Recorder | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="advisor-measure-"))
        self._running = Recorder(self._folder / "steps.jsonl", inf, profiles=False)
        self._sampler = GpuSampler(gpu_uuid_in_use()).__enter__()
        self._entered = time.monotonic()
        self._running.begin()
        return self

    @property
    def _recorder(self) -> Recorder:
        if self._running is None:
            hint = "write: with advisor.measure(..) as m:"
            raise UsageError("nothing is measured outside of its block", hint=hint)
        return self._running

    def step(self, samples: int) -> None:
        """Record the end of a step (an optimizer step, or one computed batch) of that many samples. On a GPU,
        events on the CUDA stream time the steps, so the loop never waits."""
        self._warnings = [_NO_WAITING]
        self._recorder.step(samples)

    def steps(self, loader: Iterable[Batch]) -> Iterable[Batch]:
        """Yield the loader's batches; time each step separately from the wait for its batch."""
        return self._recorder.watch(loader)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._recorder.close()
            self._running = None
            self._sampler.__exit__(kind, error, trace)
            if error is None:
                self._write()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self) -> None:
        recorded = read_steps(unfinished(self._folder / "steps.jsonl"))
        recorded.facts["gpu_state"] = self._sampler.environment
        if not recorded.rows:
            raise MeasuringError(
                "the loop of '{name}' told of no step",
                name=self._what["name"],
                hint="loop over m.steps(loader), or call m.step(samples) after each step",
            )
        with errors_with_fields():
            self.document = anchor_of_script(
                sys.argv[:1],
                [recorded],
                time.monotonic() - self._entered,
                self._warnings,
                self._what,
                self._ran,
            )
            write_whole(self.file, json.dumps(self.document, indent=1) + "\n")

    @property
    def samples_per_second(self) -> float | None:
        """The loop's rate without its warm-up steps; None until the block has ended."""
        return float(self.document["runs"][0]["samples_per_second"]) if self.document else None


def measure(
    name: str,
    *,
    precision: str = "fp32",
    task: str = "training",
    input_shape: Sequence[int] | None = None,
    out: str | PathLike[str] | None = None,
) -> Measuring:
    """Measure your own loop while it runs, and write an anchor for this machine's GPU.

        with advisor.measure("my_net", precision="amp") as m:
            for images, labels in m.steps(loader):
                ...
        advisor.recommend(task="training", model="my_net", precision="amp", anchor=m.file, ..)

    Without a loader, call `m.step(samples)` after each step. `precision` is fp32, amp or bf16, `task` is
    training or inference. Give the `input_shape` of one sample, such as (3, 224, 224), if you can. When the
    block ends without an error, the anchor is written to `out` (default: anchor-NAME.json). Raises
    `UsageError` for an unknown name or an unwritable file, `MeasuringError` for too few steps.
    """
    with errors_with_fields():
        file = Path(fspath(out)) if out is not None else Path(f"anchor-{Path(name).name}.json")
        require_writable(file)
        what = {"name": name, **({"input_shape": _sizes(input_shape)} if input_shape else {})}
        ran = {
            "task": _known("task", task, _COMPUTED),
            "precision": _known("precision", precision, _PRECISIONS),
        }
        return Measuring(file, what, ran)


def anchor(
    module_or_function: Any,
    example: Any = None,
    *,
    loss: Any = None,
    name: str | None = None,
    task: str | None = None,
    precision: str = "fp32",
    minutes: float = 2.0,
    out: str | PathLike[str] | None = None,
) -> Path:
    """Measure a network alone on this machine, for some minutes, in fresh processes.

    `module_or_function`, `example` and `loss` are as in `advisor.network`; the first may also be a network's
    name or `file.py:build`. Without `task`, inference and training are measured. Returns the path of the
    anchor, which `advisor measure --model` would write too. Raises `UsageError` if it is not a network, and
    `MeasuringError` if torch is missing or nothing could be measured."""
    from advisor.answers.measuring import measure_reference

    with errors_with_fields():
        reference = module_or_function
        if not isinstance(reference, str):
            reference = network(module_or_function, example, loss=loss, name=name)
        title = name or Path(reference.partition(".py")[0]).name
        file = Path(fspath(out)) if out is not None else Path(f"anchor-{title}.json")
        require_writable(file)
        document = measure_reference(
            reference,
            minutes=minutes,
            precision=Precision(_known("precision", precision, _PRECISIONS)),
            data=None,
            tasks=(Task(_known("task", task, _COMPUTED)),) if task else _COMPUTED[::-1],
            on_progress=lambda line: print(line, file=sys.stderr),  # noqa: T201
        )
        write_whole(file, json.dumps(document, indent=1) + "\n")
    return file


def _sizes(shape: Any) -> list[int]:
    sizes = list(shape) if isinstance(shape, Iterable) else []
    if not sizes or not all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
        raise UsageError(
            "input_shape is the sizes of one sample, not {shape}",
            shape=str(shape),
            field="input_shape",
            hint="as (3, 224, 224)",
        )
    return [int(size) for size in sizes]


def _known(noun: str, name: str, names: Sequence[str]) -> str:
    if name not in list(names):
        raise unknown_name(noun, str(name), names, field=noun)
    return str(name)
