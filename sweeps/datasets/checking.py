"""Which samples of a data set cannot be read: all of them, not only the first."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from advisor.errors import DataError
from sweeps.datasets.opening import open_dataset
from sweeps.datasets.side_processes import in_order
from sweeps.datasets.source import Kind, SampleSource
from sweeps.datasets.transforming import picture

_CHUNK = 64
Span = tuple[Path, int, int]


def broken_samples(
    path: Path, processes: int, progress: Callable[[int, int], None]
) -> tuple[int, list[str]]:
    """How many samples there are, and a line for each that a trial would fail at.

    Every sample is read and decoded, in `processes` side processes. Raises `UsageError` and
    `DataError` where the data set as a whole cannot be opened.
    """
    count = len(open_dataset(path))
    spans = [(path, first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK)]
    broken: list[str] = []
    for span, result in zip(spans, in_order(_broken_chunk, spans, processes), strict=True):
        broken += result
        progress(span[2], count)
    return count, broken


@lru_cache(maxsize=1)
def _source(path: Path) -> SampleSource:
    return open_dataset(path)


def _broken_chunk(span: Span) -> list[str]:
    path, first, last = span
    answer = (_fault(_source(path), index) for index in range(first, last))
    return [fault for fault in answer if fault]


def _fault(source: SampleSource, index: int) -> str | None:
    try:
        sample = source.read(index)
        if sample.kind is Kind.JPEG:
            picture(source, index, sample)
    except DataError as error:
        return str(error)
    return None
