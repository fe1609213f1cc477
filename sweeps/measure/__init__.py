"""Measures one network on this machine for two minutes (docs/how-to/measuring.md).

In a notebook: `from advisor.sweeps.measure import measure_network`. It needs torch and NumPy, torchvision for
networks from there, torchvision and Pillow for `data`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Task
from advisor.sweeps.measure.document import COMPUTED
from advisor.sweeps.probe.session import load_torch


def measure_network(
    reference: str,
    *,
    minutes: float = 2.0,
    tasks: Sequence[Task] = COMPUTED,
    precision: Precision = Precision.FP32,
    data: Path | None = None,
    device: str | None = None,
    batches: Mapping[Task, int] | None = None,
    profile: bool = True,
    report: Callable[[str], None] = lambda _line: None,
    keep: Callable[[dict[str, Any]], None] = lambda _document: None,
) -> dict[str, Any]:
    """The document `advisor.anchor/1` of a network of the zoo, or of `path/to/file.py:build`.

    `device` is by default CUDA if torch sees one, else the CPU. `data` is a folder of JPEG files for networks
    that take images. `batches` fixes the batch size of each task, to repeat another process's runs; without
    `profile` there is no table of operations. `keep` gets the present document after each run. Raises
    `UsageError` for wrong arguments, `MeasuringError` if torch or the device is missing, or nothing could be
    measured."""
    load_torch()
    from advisor.sweeps.measure.network import measure, open_session

    ends_at = time.monotonic() + minutes * 60
    session = open_session(reference, device, precision, ends_at, data=data, report=report, keep=keep)
    return measure(session, tasks, batches, profile)


__all__ = ["measure_network"]
