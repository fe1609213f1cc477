"""Opens a path as a data set: its format, samples and profile; writes folders of data sets atomically.

A text has words between spaces and one sentence a line, which ends with `<eos>` when read: the layout of
Mikolov's Penn Treebank, and of any text file."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

import numpy as np
from msgspec import Struct

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.files import system_errors
from advisor.records import asdict
from advisor.sweeps.datasets.containers import RECORDIO, TAR, RecordIoImages, TarShards
from advisor.sweeps.datasets.lmdb_images import DATA_FILE, LMDB, LmdbImages
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.datasets.source import (
    IMAGE_SUFFIXES,
    JPEG_FILES,
    JpegFiles,
    SampleKind,
    SampleSource,
    is_kept,
    keep_profile,
    kept_profile,
    stored_bytes,
)
from advisor.sweeps.datasets.transforming import picture
from advisor.sweeps.trial.ownership import FOLDER_ON_MOUNTS, forget_unfinished, unfinished_name

TEXT = "text"
VOCABULARY = 10_000
END_OF_SENTENCE, UNKNOWN = "<eos>", "<unk>"
_TRAINING_NAMES = ("train.txt", "ptb.train.txt")


class Corpus(Struct, frozen=True, kw_only=True):
    """A text as word numbers (`tokens`: int64, shape (tokens,)); number n is `words[n]`.

    Words are ordered by falling frequency; words outside the vocabulary are `<unk>`."""

    tokens: np.ndarray
    words: tuple[str, ...]


def text_file(path: Path) -> Path:
    """The text of a data set: the file itself, or a folder's train.txt, ptb.train.txt or only .txt file."""
    if not path.is_dir():
        return path
    for name in _TRAINING_NAMES:
        if (path / name).is_file():
            return path / name
    texts = sorted(path.glob("*.txt"))
    if len(texts) != 1:
        raise UsageError(f"{len(texts)} text files in '{path}' and no train.txt", hint="name one of them")
    return texts[0]


def read_corpus(path: Path, vocabulary: int = VOCABULARY) -> Corpus:
    """The text as numbers of at most `vocabulary` words. Raises `UsageError` if the file is no text."""
    words = _words(text_file(path))
    kept = [word for word, _ in Counter(words).most_common(vocabulary)]
    if len(set(words)) > vocabulary and UNKNOWN not in kept:
        kept[-1] = UNKNOWN
    numbers = {word: number for number, word in enumerate(kept)}
    rare = numbers.get(UNKNOWN, 0)
    tokens = np.fromiter((numbers.get(word, rare) for word in words), np.int64, len(words))
    return Corpus(tokens=tokens, words=tuple(kept))


def profile_text(path: Path) -> DatasetProfile:
    """The profile of a text. A sample is a token of size 1 x 1, as there is no image to decode."""
    file = text_file(path)
    tokens = len(_words(file))
    return DatasetProfile(
        name=path.stem if path.is_file() else path.name,
        samples=tokens,
        bytes_per_sample=file.stat().st_size / tokens,
        storage_format=TEXT,
        width=1,
        height=1,
    )


def _words(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"'{file}' is no UTF-8 text (byte {error.start})", hint="convert it with iconv -t utf-8"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot read '{file}': {error.strerror}") from error
    if "\0" in text:
        raise UsageError(f"'{file}' is no text (it has zero bytes)", hint="name a text file")
    lines = (line.split() for line in text.splitlines())
    words = [word for line in lines if line for word in (*line, END_OF_SENTENCE)]
    if not words:
        raise UsageError(f"'{file}' has no words", hint="name a text with some")
    return words


_FORMATS = "JPEG files, tar shards, RecordIO (.rec), an LMDB (data.mdb) or text (.txt)"
_SUFFIXES = {".tar": TAR, ".rec": RECORDIO, ".mdb": LMDB, ".txt": TEXT}


def recognise(path: Path) -> str:
    """The storage format of a file or folder: jpeg-files, tar, recordio, lmdb or text.

    In a folder JPEG files win: a tar file among them is probably a copy. A file without a known suffix is
    taken for text. Raises `UsageError` if no format fits."""
    with system_errors(UsageError, f"cannot read '{path}'", hint="name a data set that you may read"):
        if path.is_dir():
            return _recognise_folder(path)
        is_there = path.exists()
    if not is_there:
        raise UsageError(f"no folder or file '{path}'", hint=f"needed: {_FORMATS}")
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        raise UsageError(f"'{path}' is one image", hint="name the folder of images")
    return _SUFFIXES.get(suffix, TEXT)


def open_dataset(path: Path) -> SampleSource:
    """The images of a data set in any format, readable in any order.

    Raises `UsageError` if there are no images, `DataError` if the data set is damaged."""
    kind = recognise(path)
    if kind == JPEG_FILES:
        return JpegFiles(path)
    if kind == TAR:
        return TarShards(_containers(path, ".tar"))
    if kind == RECORDIO:
        return RecordIoImages(_containers(path, ".rec"))
    if kind == LMDB:
        return LmdbImages(path / DATA_FILE if path.is_dir() else path)
    raise UsageError(f"'{path}' is text, and this needs images: {_FORMATS.partition(' or ')[0]}")


def _recognise_folder(folder: Path) -> str:
    if is_kept(folder) or any(path.suffix.lower() in IMAGE_SUFFIXES for path in folder.rglob("*")):
        return JPEG_FILES
    if (folder / DATA_FILE).exists():
        return LMDB
    for suffix in (".rec", ".tar", ".txt"):
        if _containers(folder, suffix):
            return _SUFFIXES[suffix]
    raise UsageError(f"no images or text in '{folder}'", hint=f"needed: {_FORMATS}")


def _containers(path: Path, suffix: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix.lower() == suffix)


PROFILE_FILE = "profile.json"
_PROFILED_SAMPLES = 200


def profile_folder(path: Path) -> DatasetProfile:
    """The profile of a data set in any format: samples, mean stored bytes, mean width and height.

    Stored bytes are the size of the files over the number of samples. A `profile.json` in the folder is used
    if it has the same format and number of samples; else up to 200 samples, chosen by a fixed seed, are
    decoded, and the result is cached until the folder changes. Raises `UsageError` for a path without images
    or text, or if a chosen sample is no image."""
    if recognise(path) == TEXT:
        return profile_text(path)
    source = open_dataset(path)
    existing = read_profile(path, len(source)) if path.is_dir() else None
    if existing and existing.storage_format == source.storage_format:
        return existing
    if not (profile := kept_profile(path)):
        looked_at = random.Random(0).sample(range(len(source)), min(_PROFILED_SAMPLES, len(source)))
        sizes = [_dimensions(source, number) for number in looked_at]
        profile = DatasetProfile(
            name=path.name if path.is_dir() else path.stem,
            samples=len(source),
            bytes_per_sample=stored_bytes(source) / len(source),
            storage_format=source.storage_format,
            width=round(statistics.fmean(width for width, _ in sizes)),
            height=round(statistics.fmean(height for _, height in sizes)),
        )
    keep_profile(path, profile)
    return profile


def read_profile(folder: Path, samples: int | None = None) -> DatasetProfile | None:
    """The profile in the folder's `profile.json`; None if it is missing, invalid, or of another size."""
    try:
        profile = profile_in((folder / PROFILE_FILE).read_bytes())
    except OSError:
        return None
    return profile if profile and samples in (None, profile.samples) else None


def profile_in(document: bytes) -> DatasetProfile | None:
    """The profile in the content of a `profile.json`; None if it is not valid."""
    try:
        return DatasetProfile(**json.loads(document)["profile"])
    except (ValueError, KeyError, TypeError):
        return None


def write_profile(folder: Path, profile: DatasetProfile, **origin: object) -> None:
    """Write the `profile.json` that `read_profile` reads, with the origin of the data set."""
    document = {"profile": asdict(profile), **origin}
    (folder / PROFILE_FILE).write_text(json.dumps(document, indent=1))


def _dimensions(source: SampleSource, index: int) -> tuple[int, int]:
    try:
        sample = source.read(index)
        if sample.kind is SampleKind.PIXELS:
            return sample.width, sample.height
        return picture(source, index, sample).size
    except DataError as error:
        raise UsageError(str(error)) from error


def check_free(folder: Path) -> None:
    """Raise `UsageError` if the folder has files: a data set never overwrites any."""
    with _write_errors(folder):
        taken = any(folder.iterdir()) if folder.is_dir() else folder.exists()
    if taken or folder.is_symlink():
        raise UsageError(f"'{folder}' exists and is not empty", hint="remove it, or name a new folder")


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill: renamed to `folder` at the end of the block, removed after an error.

    Remains of a killed run are removed first. Raises `DataError` if it cannot be written."""
    unfinished = unfinished_name(folder)
    try:
        with _write_errors(folder):
            forget_unfinished(folder)
            unfinished.mkdir(parents=True)
            yield unfinished
            # Only clean pages can be dropped from the page cache, as cold trials need.
            os.sync()
            _remove(folder)
            unfinished.rename(folder)
    finally:
        _remove(unfinished)


def _write_errors(folder: Path) -> AbstractContextManager[None]:
    what = f"cannot write the data set to '{folder}'"
    return system_errors(DataError, what, hint="free some space, or name another place")


def dataset_on_mount(mount: Path, data: str) -> Path:
    """The path on the mount for a data set (a folder, a file or an address); unchanged if it lies there
    already. A hash in the path separates data sets of the same name."""
    if not is_address(data) and Path(data).is_relative_to(mount):
        return Path(data)
    digest = sha256(data.rstrip("/").encode()).hexdigest()[:8]
    return mount / FOLDER_ON_MOUNTS / f"{digest}-{PurePosixPath(data).name}"


def copy_to_mount(data: Path, mount: Path, samples: int) -> Path:
    """Copy the data set to the path `mount` unless all samples are there; returns that path.

    No half copy is left after an error. Raises `DataError` if it cannot be written."""
    if mount == data or _has_samples(mount, samples):
        return mount
    with made_whole(mount) as unfinished:
        if data.is_dir():
            shutil.copytree(data, unfinished, dirs_exist_ok=True)
        else:
            unfinished.rmdir()
            shutil.copyfile(data, unfinished)
    return mount


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):
        place.unlink()


def _has_samples(path: Path, samples: int) -> bool:
    try:
        held = profile_text(path).samples if recognise(path) == TEXT else len(open_dataset(path))
    except (UsageError, DataError):
        return False
    return held == samples
