"""Reads and writes MXNet's RecordIO: records in dmlc-core's framing, each with an image header.

Framing (dmlc-core, include/dmlc/recordio.h): magic 0xced7230a, then a word whose upper 3 bits say which part
of a record this is and whose lower 29 bits are its length, the content, and zeros up to a multiple of 4
bytes. A magic word inside the content (at a multiple of 4) is left out and splits the record, so that a
reader can find its way from any place.

Image header (MXNet, python/mxnet/recordio.py): flag uint32, label float32, id uint64, id2 uint64; with flag >
0 that many float32 labels follow. All little-endian."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from advisor.errors import DataError
from advisor.sweeps.datasets.source import FileSpans, Sample, SampleKind

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
    if start > len(content) or label != label:
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
