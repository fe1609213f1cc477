"""Reads and writes images in an LMDB as Caffe and NVCaffe do: decoded, 256 x 256, one Datum a record.

Datum is a protocol buffer (src/caffe/proto/caffe.proto): 1 channels, 2 height, 3 width, 4 data (uint8 planes,
blue-green-red), 5 label, 7 encoded (then `data` is a compressed image). It is read and written here in twenty
lines, so that no protobuf package is needed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.errors import DataError, MeasuringError, UsageError
from advisor.extras import install_hint
from advisor.sweeps.datasets.source import Sample, SampleKind

if TYPE_CHECKING:
    import lmdb


LMDB = "lmdb"
DATA_FILE = "data.mdb"
# Caffe's examples/imagenet/create_imagenet.sh makes both sides this long, whatever the picture's shape.
SIDE = 256
# A Datum of 196,608 bytes and its head take 49 pages of 4 KiB; one more is for branches and leaves.
BYTES_A_RECORD = 50 * 4096
_RECORDS_A_TRANSACTION = 500
_MAP_BYTES = 1 << 42  # address space, not disk
# LMDB allows one environment of a file in a process, and none that was opened before a fork. It is opened at
# the first read: before, its mapped pages would stay in memory when a trial empties the page cache.
_OPEN: dict[tuple[int, int], lmdb.Environment] = {}  # by device and inode


class LmdbImages:
    """A `SampleSource` over an LMDB file, opened by each process when it first reads."""

    storage_format = LMDB

    def __init__(self, file: Path) -> None:
        self.files: Sequence[Path] = (file,)
        facts = file.stat()
        self._place = facts.st_dev, facts.st_ino
        if former := _OPEN.pop(self._place, None):
            former.close()
        self._keys = _keys_of(file)
        if not len(self._keys):
            raise UsageError(f"no records in '{file}'", hint="an image set needs at least one")

    def __len__(self) -> int:
        return len(self._keys)

    def read(self, index: int) -> Sample:
        lmdb = _library()
        try:
            if self._place not in _OPEN:
                _OPEN[self._place] = _open(self.files[0])
            with _OPEN[self._place].begin() as transaction:
                message = transaction.get(bytes(self._keys[index]))
            if message is None:
                raise DataError("the record has gone")
            return sample_of(message)
        except (lmdb.Error, DataError) as error:
            raise DataError(f"{self.name(index)}: {error}", hint="convert it again") from error

    def name(self, index: int) -> str:
        return f"'{self.files[0]}' (record {index})"


def _keys_of(file: Path) -> np.ndarray:
    """All keys in one array: as objects they would be copied into every loader process."""
    try:
        with _open(file) as environment, environment.begin() as transaction:
            return np.array(list(transaction.cursor().iternext(values=False)), dtype=bytes)
    except _library().Error as error:
        raise DataError(f"cannot list the LMDB's records ({error})", hint="convert it again") from error


def write_lmdb(folder: Path, samples: Iterable[Sample]) -> None:
    """Write `data.mdb` with samples of pixels.

    Keys are zero-padded numbers, as in Caffe's convert_imageset."""
    lmdb = _library()
    pending = enumerate(samples)
    try:
        # `sync=False`: the data set is renamed into place only after the one sync at the end.
        with lmdb.open(str(folder), map_size=_MAP_BYTES, sync=False, lock=False) as environment:
            while batch := list(islice(pending, _RECORDS_A_TRANSACTION)):
                with environment.begin(write=True) as transaction:
                    for number, sample in batch:
                        transaction.put(f"{number:08d}".encode(), datum(sample), append=True)
            environment.sync(True)
    except lmdb.Error as error:
        raise DataError(
            f"cannot write the LMDB ({error})", hint="free some space, or name another place"
        ) from error


def _close_inherited() -> None:
    """Close the environments in a forked child: lmdb refuses to open a file that the parent has open."""
    for environment in _OPEN.values():
        environment.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_inherited)


def _open(file: Path) -> lmdb.Environment:
    """Open the file's LMDB environment as Caffe does: read-only, without a lock file, with readahead."""
    library = _library()
    try:
        environment: lmdb.Environment = library.open(
            str(file), subdir=False, readonly=True, lock=False, create=False
        )
    except library.Error as error:
        raise DataError(f"cannot open '{file}' as an LMDB ({error})", hint="convert it again") from error
    # Reading a mapped page beyond the end of the file kills the process (SIGBUS).
    pages = environment.info()["last_pgno"] + 1
    if file.stat().st_size < pages * environment.stat()["psize"]:
        environment.close()
        raise DataError(f"'{file}' is cut off", hint="convert or copy it again")
    return environment


def _library() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise MeasuringError("an LMDB needs the lmdb package", hint=install_hint("formats")) from error
    return lmdb


_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7
_VARINT, _BYTES = 0, 2
_SKIPPED = {1: 8, 5: 4}  # wire types of fixed size, in bytes
_PLANES = 3
_NO_DATUM = "the record is no Datum of Caffe"


def datum(sample: Sample) -> bytes:
    """The Datum message of a sample of pixels."""
    numbers = ((_CHANNELS, _PLANES), (_HEIGHT, sample.height), (_WIDTH, sample.width))
    head = b"".join(bytes([field << 3 | _VARINT]) + _varint(value) for field, value in numbers)
    data = bytes([_DATA << 3 | _BYTES]) + _varint(len(sample.content)) + sample.content
    return head + data + bytes([_LABEL << 3 | _VARINT]) + _varint(sample.label)


def sample_of(message: bytes) -> Sample:
    """The sample in a Datum message. Raises `DataError` if the bytes are no such message."""
    stream, fields = io.BytesIO(message), dict[int, int | bytes]()
    while stream.tell() < len(message):
        field, value = _field(stream)
        fields[field] = value
    content, label = fields.get(_DATA, b""), fields.get(_LABEL, 0)
    if not isinstance(content, bytes) or not isinstance(label, int):
        raise DataError(_NO_DATUM)
    if fields.get(_ENCODED):
        return Sample(SampleKind.JPEG, content, label)
    height, width = fields.get(_HEIGHT, 0), fields.get(_WIDTH, 0)
    are_sizes = isinstance(height, int) and isinstance(width, int)
    if not are_sizes or not content or len(content) != _PLANES * height * width:  # type: ignore[operator]
        raise DataError(f"{_NO_DATUM} with three planes of pixels")
    return Sample(SampleKind.PIXELS, content, label, height, width)  # type: ignore[arg-type]


def _field(stream: io.BytesIO) -> tuple[int, int | bytes]:
    """The number and the value of the stream's next field."""
    key = _read_varint(stream)
    field, wire = key >> 3, key & 7
    if wire == _VARINT:
        return field, _read_varint(stream)
    if wire != _BYTES and wire not in _SKIPPED:
        raise DataError(_NO_DATUM)
    length = _read_varint(stream) if wire == _BYTES else _SKIPPED[wire]
    content = stream.read(length)
    if len(content) < length:
        raise DataError("the record is cut off")
    return field, content


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _read_varint(stream: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise DataError("the record is cut off")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise DataError(_NO_DATUM)
