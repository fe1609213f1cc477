"""Images in an LMDB as Caffe and NVCaffe store them: decoded, 256 x 256, one Datum a record."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.errors import DataError, MeasuringError, UsageError
from sweeps.datasets.datum import datum, sample_of
from sweeps.datasets.source import PerProcess, Sample

if TYPE_CHECKING:
    import lmdb

LMDB = "lmdb"
DATA_FILE = "data.mdb"
# Caffe's examples/imagenet/create_imagenet.sh: both sides, whatever the picture's shape.
SIDE = 256
# A Datum of 196,608 bytes and its head take 49 pages of 4 KiB; branches and leaves the rest.
BYTES_A_RECORD = 50 * 4096
_RECORDS_A_TRANSACTION = 500
_ROOM_BYTES = 64 << 20


class LmdbImages:
    """A `SampleSource` over an LMDB folder, opened by each process when it first reads."""

    storage_format = LMDB

    def __init__(self, folder: Path) -> None:
        self.files: Sequence[Path] = (folder / DATA_FILE,)
        self._folder = folder
        # Closed again before the page cache is emptied: mapped pages would stay in it.
        with _environment(folder) as environment:
            self._keys = _Keys(environment)
        if not len(self._keys):
            raise UsageError(f"no records in '{folder}'; an image set needs at least one")
        self._environment = PerProcess[Any](self._opened)

    def __len__(self) -> int:
        return len(self._keys)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        lmdb = _library()
        try:
            with self._environment.get().begin() as transaction:
                message = transaction.get(self._keys[index])
            if message is None:
                raise DataError("the record has gone")
            return sample_of(message)
        except (lmdb.Error, DataError) as error:
            raise DataError(f"{self.name(index)}: {error}; convert it again") from error

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        return f"'{self.files[0]}' (record {index})"

    def _opened(self) -> lmdb.Environment:
        return _open(self._folder)


class _Keys:
    """All keys in one block of bytes: a list of a million objects would be copied into every
    loader process by its reference counts."""

    def __init__(self, environment: lmdb.Environment) -> None:
        lmdb = _library()
        try:
            with environment.begin() as transaction:
                keys = list(transaction.cursor().iternext(values=False))
        except lmdb.Error as error:
            raise DataError(
                f"cannot list the LMDB's records ({error}); convert it again"
            ) from error
        self._block = b"".join(keys)
        self._ends = np.cumsum([len(key) for key in keys], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> bytes:
        start = int(self._ends[index - 1]) if index else 0
        return self._block[start : int(self._ends[index])]


def write_lmdb(folder: Path, samples: Iterable[Sample], most: int) -> int:
    """`data.mdb` with up to `most` samples of pixels; returns how many.

    Keys are zero-padded numbers, as Caffe's convert_imageset writes them. Raises `OSError`
    (ENOSPC) when the disk is full, as the other writers do.
    """
    lmdb = _library()
    size = most * BYTES_A_RECORD * 2 + _ROOM_BYTES  # address space, not disk
    count, pending = 0, iter(samples)
    try:
        # `sync=False`: the data set is renamed into place only after the one sync at the end.
        with lmdb.open(str(folder), map_size=size, sync=False, lock=False) as environment:
            while batch := list(islice(pending, _RECORDS_A_TRANSACTION)):
                with environment.begin(write=True) as transaction:
                    for sample in batch:
                        transaction.put(f"{count:08d}".encode(), datum(sample), append=True)
                        count += 1
            environment.sync(True)
    except lmdb.Error as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise DataError(f"cannot write the LMDB ({error})") from error
    return count


@contextmanager
def _environment(folder: Path) -> Iterator[lmdb.Environment]:
    environment = _open(folder)
    try:
        yield environment
    finally:
        environment.close()


def _open(folder: Path) -> lmdb.Environment:
    """Read-only and without a lock file, with the kernel's readahead, as Caffe opens it."""
    library = _library()
    try:
        environment: lmdb.Environment = library.open(
            str(folder), readonly=True, lock=False, create=False
        )
    except library.Error as error:
        raise DataError(f"cannot open '{folder}' as an LMDB ({error}); convert it again") from error
    return environment


def _library() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise MeasuringError(
            "an LMDB needs the lmdb package: pip install 'instance-sizing-advisor[formats]'"
        ) from error
    return lmdb
