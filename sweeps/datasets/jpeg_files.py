"""Samples as a folder of JPEG files, one a sample; a file's folder is its class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from advisor.errors import DataError, UsageError
from sweeps.datasets.source import Sample, SampleKind

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg"})
JPEG_FILES = "jpeg-files"


def image_files(folder: Path) -> list[Path]:
    """All JPEG files beneath the folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)


class JpegFiles:
    """A `SampleSource` over the JPEG files beneath a folder."""

    storage_format = JPEG_FILES

    def __init__(self, folder: Path) -> None:
        self.files: Sequence[Path] = image_files(folder)
        if not self.files:
            raise UsageError(
                "no JPEG files beneath '{folder}'", hint="name a folder of them", folder=folder
            )
        classes = sorted({path.parent for path in self.files})
        self._labels = {parent: number for number, parent in enumerate(classes)}

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        path = self.files[index]
        try:
            return Sample(SampleKind.JPEG, path.read_bytes(), self._labels[path.parent])
        except OSError as error:
            raise DataError(
                "cannot read '{path}': {strerror}", path=path, strerror=error.strerror
            ) from error

    def name(self, index: int) -> str:
        """See `SampleSource`."""
        return f"'{self.files[index]}'"


def write_files(folder: Path, samples: Iterable[Sample]) -> int:
    """One file a sample, `CLASS/NUMBER.jpg`; returns how many."""
    count = 0
    for count, sample in enumerate(samples, start=1):
        place = folder / f"{sample.label:05d}"
        place.mkdir(exist_ok=True)
        (place / f"{count - 1:08d}.jpg").write_bytes(sample.content)
    return count
