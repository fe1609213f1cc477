"""Images in RecordIO files: `NAME.rec` with its `NAME.idx`, as MXNet's im2rec writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from advisor.errors import DataError, UsageError
from sweeps.datasets.recordio import frame, pack_image, spans, unframe, unpack_image
from sweeps.datasets.source import Kind, OpenFiles, Sample

RECORDIO = "recordio"


class RecordIoImages:
    """A `SampleSource` over RecordIO files that hold JPEG images."""

    storage_format = RECORDIO

    def __init__(self, records: Sequence[Path]) -> None:
        self.files: Sequence[Path] = tuple(records)
        parts = [_index_of(path) for path in records]
        self._numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self._spans = np.concatenate(parts)
        if not len(self._spans):
            raise UsageError(
                "no records in '{records}'",
                hint="an image set needs at least one",
                records=records[0],
            )
        self._opened = OpenFiles(self.files)

    def __len__(self) -> int:
        return len(self._spans)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        offset, size = map(int, self._spans[index])
        try:
            record = self._opened.read(int(self._numbers[index]), offset, size)
            content, label = unpack_image(unframe(record))
        except OSError as error:
            raise DataError(
                "cannot read {name}: {strerror}", name=self.name(index), strerror=error.strerror
            ) from error
        except DataError as error:
            raise DataError(
                "{name}: {error}",
                hint="convert or copy it again",
                name=self.name(index),
                error=error,
            ) from error
        return Sample(Kind.JPEG, content, label)

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        path = self.files[int(self._numbers[index])]
        return f"'{path}' (record at byte {int(self._spans[index][0])})"


def write_records(folder: Path, samples: Iterable[Sample]) -> int:
    """`images.rec` and `images.idx` (lines of number, tab, offset); returns how many."""
    count = offset = 0
    with (folder / "images.rec").open("wb") as records, (folder / "images.idx").open("w") as index:
        for count, sample in enumerate(samples, start=1):
            record = frame(pack_image(sample.content, sample.label, count - 1))
            index.write(f"{count - 1}\t{offset}\n")
            offset += records.write(record)
    return count


def _index_of(path: Path) -> np.ndarray:
    """Rows of (offset, bytes), by the index beside the file, else by its frame words."""
    try:
        size = path.stat().st_size
        offsets = _indexed_offsets(path.with_suffix(".idx"), size)
        with path.open("rb") as file:
            if offsets is None:
                rows = list(spans(file, size))
                return np.array(rows, dtype=np.int64).reshape(-1, 2)
            _check_last(file, int(offsets[-1]), size)
    except OSError as error:
        raise DataError(
            "cannot read '{path}': {strerror}", path=path, strerror=error.strerror
        ) from error
    except DataError as error:
        raise DataError(
            "'{path}': {error}", hint="convert or copy it again", path=path, error=error
        ) from error
    return np.stack([offsets, np.diff(offsets, append=size)], axis=1)


def _check_last(file: object, offset: int, size: int) -> None:
    """A file that was cut off is told at once, not by the trial that happens to read its end."""
    file.seek(offset)  # type: ignore[attr-defined]
    unframe(file.read(size - offset))  # type: ignore[attr-defined]


def _indexed_offsets(index: Path, size: int) -> np.ndarray | None:
    """All offsets, sorted; None without an index, or with one that does not fit the file."""
    try:
        lines = index.read_text().splitlines()
        offsets = np.array(sorted(int(line.split("\t")[1]) for line in lines), dtype=np.int64)
    except (OSError, ValueError, IndexError):
        return None
    fits = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] < size
    return offsets if fits else None
