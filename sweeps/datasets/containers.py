"""Reads and writes images in a few large files: tar shards in WebDataset's layout, and MXNet's RecordIO.

Shards have members `KEY.jpg` and `KEY.cls` in turn. The standard library suffices: the `webdataset` package
adds a stream of samples, but a trial reads in random order, by an index of offsets, from every format.

RecordIO has records in dmlc-core's framing, each with an image header. Framing (dmlc-core,
include/dmlc/recordio.h): magic 0xced7230a, then a word whose upper 3 bits say which part of a record this is
and whose lower 29 bits are its length, the content, and zeros up to a multiple of 4 bytes. A magic word
inside the content (at a multiple of 4) is left out and splits the record, so that a reader can find its way
from any place. Image header (MXNet, python/mxnet/recordio.py): flag uint32, label float32, id uint64, id2
uint64; with flag > 0 that many float32 labels follow. All little-endian."""

from __future__ import annotations

import io
import math
import os
import re
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from advisor.errors import DataError, UsageError
from advisor.files import manifests_folder, system_errors
from advisor.sweeps.datasets.source import IMAGE_SUFFIXES, Sample, SampleKind, save_array


class FileSpans:
    """A `SampleSource` of spans in a few large files; a format says how to find them.

    A file is opened at its first read; a forked child may share it, since `pread` uses no file position."""

    storage_format: str
    unit: str  # what a span is called in messages

    def __init__(self, files: Sequence[Path]) -> None:
        self._opened: dict[int, int] = {}
        self.files: Sequence[Path] = tuple(files)
        parts = [_index_of(path, self.scan) for path in files]
        self._numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self._rows = np.concatenate(parts)
        if not len(self._rows):
            raise UsageError(f"no {self.unit} in '{files[0]}'", hint="an image set needs at least one")

    @staticmethod
    def scan(file: Path) -> np.ndarray:
        """Rows of samples that begin with offset and bytes. Raises `DataError` if the file is damaged."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._rows)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": {}}

    def __del__(self) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)

    def name(self, index: int) -> str:
        path = self.files[int(self._numbers[index])]
        return f"'{path}' ({self.unit} at byte {int(self._rows[index][0])})"

    def _bytes(self, index: int) -> bytes:
        """The bytes of a sample; fewer than its row says if the file was cut off."""
        number, (offset, size) = int(self._numbers[index]), map(int, self._rows[index][:2])
        try:
            if number not in self._opened:
                self._opened[number] = os.open(self.files[number], os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._opened[number], size, offset)
        except OSError as error:
            raise DataError(f"cannot read {self.name(index)}: {error.strerror}") from error


def _index_of(file: Path, scan: Callable[[Path], np.ndarray]) -> np.ndarray:
    """The rows of a file's spans, kept in the user's cache until the file changes."""
    with system_errors(DataError, f"cannot read '{file}'"):
        facts = file.stat()
        # By its inode: a data set that was just made is renamed.
        about = f"{facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}"
        kept = manifests_folder() / f"{sha256(about.encode()).hexdigest()[:16]}.npy"
        with suppress(OSError, ValueError, EOFError):
            rows: np.ndarray = np.load(kept)
            return rows
        rows = scan(file)
    with suppress(OSError, DataError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_array(kept, rows)
    return rows


TAR = "tar"
SAMPLES_A_SHARD = 10_000
SHARD_BYTES = 1 << 30
_MOST_LABEL_BYTES = 18  # of a number that 64 bits hold


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


MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_FRAME = struct.Struct("<II")
_IMAGE_HEADER = struct.Struct("<IfQQ")
_LENGTH_BITS = 29
MOST_BYTES = (1 << _LENGTH_BITS) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


def frame(content: bytes) -> bytes:
    """The content as one record. Raises `DataError` above 512 MiB, which the 29 bits cannot express."""
    if len(content) > MOST_BYTES:
        raise DataError(f"a record of {len(content):,} bytes is more than RecordIO can hold")
    # Two magic words cannot overlap: no suffix of the word is a prefix of it.
    cuts = [
        match.start() for match in re.finditer(re.escape(_MAGIC_BYTES), content) if match.start() % 4 == 0
    ]
    if not cuts:
        return _part(_WHOLE, content)
    parts: list[bytes] = []
    start = 0
    for cut in cuts:
        parts.append(_part(_MIDDLE if parts else _FIRST, content[start:cut]))
        start = cut + len(_MAGIC_BYTES)
    return b"".join([*parts, _part(_LAST, content[start:])])


def unframe(record: bytes) -> bytes:
    """The content of one whole record, the inverse of `frame`; bytes after the record are ignored."""
    contents, offset = [], 0
    while True:
        part, length = _part_header(record, offset)
        offset += _FRAME.size
        content = record[offset : offset + length]
        if len(content) < length:
            raise DataError("the record is cut off")
        contents.append(content)
        offset += _padded(length)
        if part in (_WHOLE, _LAST):
            return _MAGIC_BYTES.join(contents)


def spans(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of each record of a file of `size` bytes; reads only the frame words."""
    start = offset = 0
    while offset < size:
        file.seek(offset)
        part, length = _part_header(file.read(_FRAME.size), 0)
        offset += _FRAME.size + _padded(length)
        if offset > size:
            raise DataError(f"the record at byte {start} is cut off")
        if part in (_WHOLE, _LAST):
            yield start, offset - start
            start = offset
    if start != offset:
        raise DataError(f"the record at byte {start} has no last part")


def pack_image(content: bytes, label: int, number: int) -> bytes:
    """An image with its header, as `mxnet.recordio.pack` writes it."""
    return _IMAGE_HEADER.pack(0, float(label), number, 0) + content


def unpack_image(content: bytes) -> tuple[bytes, int]:
    """The image and its label, the first one if there are several."""
    if len(content) < _IMAGE_HEADER.size:
        raise DataError("the record is shorter than an image header")
    flag, label, _, _ = _IMAGE_HEADER.unpack_from(content)
    start = _IMAGE_HEADER.size + 4 * flag
    if flag and start <= len(content):
        (label,) = struct.unpack_from("<f", content, _IMAGE_HEADER.size)
    if start > len(content) or not math.isfinite(label):
        raise DataError("the record's image header is damaged")
    return content[start:], int(label)


def _part(number: int, content: bytes) -> bytes:
    word = number << _LENGTH_BITS | len(content)
    return _FRAME.pack(MAGIC, word) + content.ljust(_padded(len(content)), b"\0")


def _part_header(record: bytes, offset: int) -> tuple[int, int]:
    if offset + _FRAME.size > len(record):
        raise DataError("the record is cut off")
    magic, word = _FRAME.unpack_from(record, offset)
    if magic != MAGIC:
        raise DataError("no record begins where one should (wrong magic number)")
    return word >> _LENGTH_BITS, word & MOST_BYTES


def _padded(length: int) -> int:
    return -(-length // 4) * 4


RECORDIO = "recordio"


class RecordIoImages(FileSpans):
    """RecordIO files that hold JPEG images."""

    storage_format = RECORDIO
    unit = "record"

    @staticmethod
    def scan(file: Path) -> np.ndarray:
        """Rows of (offset, bytes) of a file's records. An .idx file is not needed, nor believed."""
        try:
            with file.open("rb") as opened:
                return np.array(list(spans(opened, file.stat().st_size)), dtype=np.int64).reshape(-1, 2)
        except DataError as error:
            raise DataError(f"'{file}': {error}", hint="convert or copy it again") from error

    def read(self, index: int) -> Sample:
        record = self._bytes(index)
        try:
            content, label = unpack_image(unframe(record))
        except DataError as error:
            raise DataError(f"{self.name(index)}: {error}", hint="convert or copy it again") from error
        return Sample(SampleKind.JPEG, content, label)


def write_records(folder: Path, samples: Iterable[Sample]) -> None:
    """Write `images.rec` and `images.idx` (lines of number, tab, offset)."""
    offset = 0
    with (folder / "images.rec").open("wb") as records, (folder / "images.idx").open("w") as index:
        for number, sample in enumerate(samples):
            index.write(f"{number}\t{offset}\n")
            record = frame(pack_image(sample.content, sample.label, number))
            offset += records.write(record)
