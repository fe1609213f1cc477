"""Which format a path holds, and its samples."""

from __future__ import annotations

from pathlib import Path

from advisor.errors import UsageError
from advisor.messages import Message
from sweeps.datasets.jpeg_files import IMAGE_SUFFIXES, JPEG_FILES, JpegFiles
from sweeps.datasets.lmdb_images import DATA_FILE, LMDB, LmdbImages
from sweeps.datasets.recordio_images import RECORDIO, RecordIoImages
from sweeps.datasets.source import SampleSource
from sweeps.datasets.tar_shards import TAR, TarShards
from sweeps.datasets.text import TEXT

_FORMATS = "JPEG files, tar shards, RecordIO (.rec), an LMDB (data.mdb) or text (.txt)"
_SUFFIXES = {".tar": TAR, ".rec": RECORDIO, ".mdb": LMDB, ".txt": TEXT}


def recognise(path: Path) -> str:
    """The storage format of a file or folder: jpeg-files, tar, recordio, lmdb or text.

    JPEG files beneath a folder come first: a tar file among them is a user's copy. A file
    without a known suffix is taken for text. Raises `UsageError` for what is none of them.
    """
    if path.is_dir():
        return _recognise_folder(path)
    if not path.exists():
        raise UsageError(
            "no folder or file '{path}'",
            hint=Message("needed: {formats}", formats=_FORMATS),
            path=path,
        )
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        raise UsageError("'{path}' is one image", hint="name the folder of images", path=path)
    return _SUFFIXES.get(suffix, TEXT)


def open_dataset(path: Path) -> SampleSource:
    """The images of a data set in any format, readable in any order.

    Raises `UsageError` for what holds none, `DataError` for what is damaged.
    """
    kind = recognise(path)
    if kind == JPEG_FILES:
        return JpegFiles(path)
    if kind == TAR:
        return TarShards(_containers(path, ".tar"))
    if kind == RECORDIO:
        return RecordIoImages(_containers(path, ".rec"))
    if kind == LMDB:
        return LmdbImages(path / DATA_FILE if path.is_dir() else path)
    raise UsageError(
        "'{path}' is text, and this needs images: {formats}",
        path=path,
        formats=_FORMATS.partition(" or ")[0],
    )


def _recognise_folder(folder: Path) -> str:
    if any(path.suffix.lower() in IMAGE_SUFFIXES for path in folder.rglob("*")):
        return JPEG_FILES
    if (folder / DATA_FILE).exists():
        return LMDB
    for suffix in (".rec", ".tar", ".txt"):
        if _containers(folder, suffix):
            return _SUFFIXES[suffix]
    raise UsageError(
        "no images or text in '{folder}'",
        hint=Message("needed: {formats}", formats=_FORMATS),
        folder=folder,
    )


def _containers(path: Path, suffix: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix.lower() == suffix)
