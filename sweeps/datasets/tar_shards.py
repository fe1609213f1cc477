"""Reads and writes tar shards in WebDataset's layout: members `KEY.jpg` and `KEY.cls` in turn.

The standard library suffices: the `webdataset` package adds a stream of samples, but a trial reads in random
order, by an index of offsets, from every format."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from advisor.errors import DataError, UsageError
from advisor.files import manifests_folder
from advisor.sweeps.datasets.source import IMAGE_SUFFIXES, FileSpans, Sample, SampleKind

TAR = "tar"
SAMPLES_A_SHARD = 10_000
SHARD_BYTES = 1 << 30
_INDEX_SUFFIX = ".index.npy"
_MOST_LABEL_BYTES = 20
Row = tuple[int, int, int]


class TarShards(FileSpans):
    """A `SampleSource` over tar files; each sample is the span of a JPEG member."""

    storage_format = TAR
    unit = "member"

    def __init__(self, shards: Sequence[Path]) -> None:
        super().__init__(shards, _index_of)
        if not len(self):
            raise UsageError(f"no JPEG members in '{shards[0]}'", hint="an image set needs at least one")

    def read(self, index: int) -> Sample:
        content, (_, size, label) = self._bytes(index), map(int, self._rows[index])
        if len(content) < size:
            raise DataError(f"{self.name(index)} is cut off", hint="copy the shard again")
        return Sample(SampleKind.JPEG, content, label)


def write_shards(folder: Path, samples: Iterable[Sample]) -> int:
    """Write `shard-000000.tar` and so on, each with an index file; returns the number of samples.

    A shard ends at 10,000 samples or 1 GiB. The format is ustar and times are zero, so that equal samples
    give equal bytes."""
    count, shard_number, pending = 0, 0, iter(samples)
    while rows := _write_shard(folder / f"shard-{shard_number:06d}.tar", pending, count):
        count += rows
        shard_number += 1
    return count


def _write_shard(path: Path, samples: Iterator[Sample], first: int) -> int:
    """Write as many samples as fit into one shard; returns their number. No samples, no file."""
    sample = next(samples, None)
    if sample is None:
        return 0
    rows: list[Row] = []
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        while sample is not None:
            key = f"{first + len(rows):08d}"
            archive.addfile(*_member(f"{key}.cls", str(sample.label).encode()))
            offset = archive.offset + tarfile.BLOCKSIZE
            archive.addfile(*_member(f"{key}.jpg", sample.content))
            rows.append((offset, len(sample.content), sample.label))
            full = len(rows) >= SAMPLES_A_SHARD or archive.offset >= SHARD_BYTES
            sample = None if full else next(samples, None)
    _save_index(path.with_name(path.name + _INDEX_SUFFIX), path, rows)
    return len(rows)


def _member(name: str, content: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, io.BytesIO(content)


def _save_index(index: Path, shard: Path, rows: list[Row]) -> None:
    """Write the index; its first row has the shard's size, so that a changed shard is noticed."""
    part = index.with_name(f"{index.name}.{os.getpid()}")
    with part.open("wb") as out:
        np.save(out, np.array([(shard.stat().st_size, 0, 0), *rows], dtype=np.int64))
    part.replace(index)


def _index_of(shard: Path) -> np.ndarray:
    """Rows of (offset, bytes, label) of a shard, from its index file, the user's cache or the tar headers."""
    about = f"{shard.resolve()}/{shard.stat().st_mtime_ns}" if shard.exists() else str(shard)
    # The cached index of a shard that comes without one, until the shard changes.
    kept = manifests_folder() / (sha256(os.fsencode(about)).hexdigest()[:16] + _INDEX_SUFFIX)
    for index in (shard.with_name(shard.name + _INDEX_SUFFIX), kept):
        # A missing or foreign index is no error: the headers have the same facts, only slower.
        with suppress(OSError, ValueError, EOFError, IndexError):
            table: np.ndarray = np.load(index)
            if table.ndim == 2 and table.shape[1] == 3 and table[0, 0] == shard.stat().st_size:
                return table[1:]
    rows = _scan(shard)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        _save_index(kept, shard, rows)
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _scan(shard: Path) -> list[Row]:
    """The rows of a shard from its tar headers. Raises `DataError` if it is no tar file or is cut off."""
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
    return [(offset, length, labels.get(key, 0)) for key, (offset, length) in images.items()]
