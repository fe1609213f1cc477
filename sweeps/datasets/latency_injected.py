"""A data set on a disk that answers no sooner than another type would."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path

from sweeps.datasets.source import Sample, SampleSource


class LatencyInjected:
    """A `SampleSource` whose reads from the disk take at least `seconds`.

    Bandwidth and IOPS are the kernel's to hold; it has no limit for latency. What comes out of
    the page cache is not held up: the kernel counts the blocks that this thread had read for it.
    """

    def __init__(self, source: SampleSource, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self.storage_format = source.storage_format
        self.files: Sequence[Path] = source.files

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        start, blocks = time.perf_counter(), _blocks_read()
        sample = self._source.read(index)
        if _blocks_read() > blocks:
            time.sleep(max(0.0, self._seconds - (time.perf_counter() - start)))
        return sample

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        return self._source.name(index)


def _blocks_read() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
