"""A measured step of a network on cores of the reference CPU."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.domain import Task


@dataclass(frozen=True, slots=True)
class CpuRow:
    """Seconds of one step, batch made in memory, fp32, on whole `cores`."""

    network: str
    task: Task
    batch_size: int
    cores: float
    seconds: float
