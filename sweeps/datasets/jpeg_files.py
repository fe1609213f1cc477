"""Samples as a folder of JPEG files, one a sample; a file's folder is its class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.manifest import manifest_of
from advisor.sweeps.datasets.source import Sample, SampleKind

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg"})
JPEG_FILES = "jpeg-files"


class JpegFiles:
    """A `SampleSource` over the JPEG files beneath a folder."""

    storage_format = JPEG_FILES

    def __init__(self, folder: Path) -> None:
        self._manifest = manifest_of(folder, IMAGE_SUFFIXES)
        self.files: Sequence[Path] = self._manifest
        if not self.files:
            raise UsageError("no JPEG files beneath '{folder}'", hint="name a folder of them", folder=folder)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """See `SampleSource`."""
        path = self.files[index]
        try:
            return Sample(SampleKind.JPEG, path.read_bytes(), self._manifest.label(index))
        except OSError as error:
            raise DataError("cannot read '{path}': {strerror}", path=path, strerror=error.strerror) from error

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
