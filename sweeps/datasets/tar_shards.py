"""Reads and writes tar shards in WebDataset's layout: members `KEY.jpg` and `KEY.cls` in turn.

The standard library suffices: the `webdataset` package adds a stream of samples, but a trial reads in random
order, by an index of offsets, from every format."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import numpy as np

from advisor.errors import DataError
from advisor.sweeps.datasets.source import IMAGE_SUFFIXES, FileSpans, Sample, SampleKind

TAR = "tar"
SAMPLES_A_SHARD = 10_000
SHARD_BYTES = 1 << 30
_MOST_LABEL_BYTES = 20


class TarShards(FileSpans):
    """A `SampleSource` over tar files; each sample is the span of a JPEG member."""

    storage_format = TAR
    unit = "member"

    @staticmethod
    def scan(shard: Path) -> np.ndarray:
        """Rows of (offset, bytes, label). Raises `DataError` if it is no tar file or is cut off."""
        images: dict[str, tuple[int, int]] = {}
        labels: dict[str, int] = {}
        try:
            size = shard.stat().st_size
            with tarfile.open(shard, "r:") as archive:
                for member in archive:
                    if member.offset_data + member.size > size:
                        raise DataError(f"'{shard}' ends inside {member.name}", hint="copy it again")
                    key, dot, suffix = member.name.rpartition(".")
                    if dot + suffix.lower() in IMAGE_SUFFIXES:
                        images[key] = (member.offset_data, member.size)
                    elif suffix == "cls" and member.size <= _MOST_LABEL_BYTES:
                        content = archive.extractfile(member)
                        text = content.read().strip() if content else b""
                        labels[key] = int(text) if text.isdigit() else 0
        except (tarfile.TarError, OSError) as error:
            raise DataError(f"cannot read '{shard}' as a tar file ({error})", hint="copy it again") from error
        rows = [(offset, length, labels.get(key, 0)) for key, (offset, length) in images.items()]
        return np.array(rows, np.int64).reshape(-1, 3)

    def read(self, index: int) -> Sample:
        content, (_, size, label) = self._bytes(index), map(int, self._rows[index])
        if len(content) < size:
            raise DataError(f"{self.name(index)} is cut off", hint="copy the shard again")
        return Sample(SampleKind.JPEG, content, label)


def write_shards(folder: Path, samples: Iterable[Sample]) -> None:
    """Write `shard-000000.tar` and so on.

    A shard ends at 10,000 samples or 1 GiB. The format is ustar and times are zero, so that equal samples
    give equal bytes."""
    pending = enumerate(samples)
    for shard, first in enumerate(pending):
        path = folder / f"shard-{shard:06d}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for number, sample in chain((first,), islice(pending, SAMPLES_A_SHARD - 1)):
                archive.addfile(*_member(f"{number:08d}.cls", str(sample.label).encode()))
                archive.addfile(*_member(f"{number:08d}.jpg", sample.content))
                if archive.offset >= SHARD_BYTES:
                    break


def _member(name: str, content: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, io.BytesIO(content)
