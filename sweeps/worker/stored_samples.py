"""A random part of a data set, read from its disk or into the page cache."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from advisor.domain import MIB
from advisor.errors import MeasuringError
from advisor.sweeps.datasets.source import Sample, SampleSource
from advisor.sweeps.worker.page_cache import cached_share, evict

_STILL_CACHED = 0.2
_LOOKED_AT_FILES = 500
_MOST_SAMPLES = 65_536  # gigabytes of photographs; a data set may have millions


class Reading(Struct, frozen=True):
    """How many samples and bytes were read, in how long."""

    samples: int
    size: int
    seconds: float


class StoredPart:
    """About `mib` MiB of a source, none of it twice: a `SampleSource` of its own. A smaller part
    is the beginning of a larger one."""

    def __init__(self, source: SampleSource, mib: float, bytes_per_sample: float) -> None:
        wanted = max(1, math.ceil(mib * MIB / bytes_per_sample))
        drawn = random.Random(2).sample(range(len(source)), min(_MOST_SAMPLES, len(source)))
        self._indices = drawn[:wanted]
        self._source = source
        self.storage_format = source.storage_format
        # Files of one sample each are emptied one by one; larger ones as a whole.
        alone = len(source.files) == len(source)
        self.files = [source.files[index] for index in self._indices] if alone else source.files

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def is_all(self) -> bool:
        """Whether that is the whole source."""
        return len(self) == len(self._source)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        return self._source.read(self._indices[index])

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        return self._source.name(self._indices[index])

    def evict(self) -> None:
        """Drop it from the page cache; `MeasuringError` where it stays."""
        evict(self.files)
        looked_at = random.Random(1).sample(self.files, min(_LOOKED_AT_FILES, len(self.files)))
        if (cached_share(looked_at) or 0.0) > _STILL_CACHED:
            raise MeasuringError(
                "the samples stay in the page cache: they lie in memory (tmpfs), or somebody uses them"
            )

    def keep(self, count: int) -> None:
        """Forget all samples but the first ones."""
        del self._indices[count:]


def read_for(seconds: float, part: StoredPart, *, workers: int) -> Reading:
    """Read the samples of the part once, by so many threads, until time is up."""
    start = time.perf_counter()
    # The first opens what a process opens once, before several threads would.
    first = len(part.read(0).content)
    coming = iter(range(1, len(part)))  # shared: each sample is read by one thread
    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(_sizes, part, coming, start + seconds) for _ in range(workers)]
        sizes = [first, *(size for job in jobs for size in job.result())]
    return Reading(len(sizes), sum(sizes), time.perf_counter() - start)


def _sizes(part: StoredPart, coming: Iterator[int], deadline: float) -> list[int]:
    sizes = []
    while time.perf_counter() < deadline and (index := next(coming, None)) is not None:
        sizes.append(len(part.read(index).content))
    return sizes
