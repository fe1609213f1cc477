"""Makes a data set of photographs or of text once, in side processes, and finds it again.

The text replaces the Penn Treebank where that corpus is missing. Its numbers of tokens and sentences in
train, valid and test are those of Mikolov's preparation (929,589, 73,760 and 82,430 tokens with `<eos>`;
42,068, 3,370 and 3,761 sentences; 10,000 words with `<eos>`). Word frequencies follow Zipf's law in
Mandelbrot's form, 1 / (rank + 1): the most frequent word is 5.7 % of all words. Words are invented syllables,
fewer for frequent words. The text is meaningless: measure speed with it, never perplexity."""

from __future__ import annotations

import importlib.util
import io
import math
import multiprocessing
import os
import random
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from advisor.domain import DatasetProfile
from advisor.errors import DataError, MeasuringError
from advisor.files import datasets_folder
from advisor.sweeps.datasets.opening import VOCABULARY, made_whole, profile_text, read_profile, write_profile
from advisor.sweeps.datasets.source import JpegFiles, stored_bytes
from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.ownership import deferred_signals

if TYPE_CHECKING:
    from PIL.Image import Image


# Smooth crops cannot reach the largest sizes even at quality 100, so the drawn mean is above the resulting
# mean of 110 kB.
_DRAWN_MEAN_BYTES = 122_000
_LOG_SIGMA = 0.45
_PHOTOGRAPHS = (
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("skimage", "data/astronaut.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/coffee.png"),
    ("skimage", "data/rocket.jpg"),
    ("skimage", "data/motorcycle_left.png"),
    ("skimage", "data/motorcycle_right.png"),
)
_QUALITIES = (40, 60, 75, 85, 90, 93, 95, 97, 98, 99, 100)
_SIDE_SPREAD = 0.1
_CROP_SHARE = (0.5, 1.0)


def write_samples(folder: Path, indices: range, seed: int) -> None:
    """Write one JPEG file for each index into `folder`; its content depends only on seed and index."""
    for index in indices:
        (folder / f"{index:07d}.jpg").write_bytes(make_sample(random.Random(f"{seed}:{index}")))


def make_sample(draw: random.Random) -> bytes:
    """The bytes of a JPEG: a random crop of a random photograph, compressed to about a random size."""
    number = draw.randrange(len(photographs()))
    crop = _random_crop(photographs()[number], draw)
    wanted = math.exp(draw.gauss(math.log(_DRAWN_MEAN_BYTES) - _LOG_SIGMA**2 / 2, _LOG_SIGMA))
    pixels = crop.size[0] * crop.size[1]
    # A first encoding shows how this crop compresses compared with its photograph; the second hits the size.
    middle = 90
    measured = _bytes_per_pixel(number)
    ratio = len(_encode(crop, middle)) / pixels / measured[middle]
    # The quality for the wanted size, interpolated linearly between the measured ones.
    quality = np.interp(wanted / pixels / ratio, sorted(measured.values()), _QUALITIES)
    return _encode(crop, round(float(quality)))


@cache
def photographs() -> tuple[Image, ...]:
    """The installed photographs, decoded. Raises `MeasuringError` if there are none."""
    from PIL import Image

    paths = [_installed(package, inner) for package, inner in _PHOTOGRAPHS]
    images = tuple(Image.open(path).convert("RGB") for path in paths if path)
    if not images:
        raise MeasuringError(
            "no photographs to make a data set from",
            hint="install scikit-image, or name a folder of your own with --data",
        )
    return images


def _installed(package: str, inner: str) -> Path | None:
    """The path of a file in an installed package, which is not imported; None if it is missing."""
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations if spec else None) or ():
        path = Path(location) / inner
        if os.access(path, os.R_OK):
            return path
    return None


def _random_crop(photograph: Image, draw: random.Random) -> Image:
    width = round(500 * draw.uniform(1 - _SIDE_SPREAD, 1 + _SIDE_SPREAD))
    height = round(375 * draw.uniform(1 - _SIDE_SPREAD, 1 + _SIDE_SPREAD))
    scale = min(photograph.width / width, photograph.height / height)
    scale *= draw.uniform(*_CROP_SHARE)
    left = draw.uniform(0, photograph.width - width * scale)
    top = draw.uniform(0, photograph.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    return photograph.resize((width, height), box=box)


def _encode(image: Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


@cache
def _bytes_per_pixel(number: int) -> dict[int, float]:
    crop = _random_crop(photographs()[number], random.Random(number))
    pixels = crop.size[0] * crop.size[1]
    return {quality: len(_encode(crop, quality)) / pixels for quality in _QUALITIES}


Work = TypeVar("Work")
Result = TypeVar("Result")


def in_order(do: Callable[[Work], Result], work: Iterable[Work], processes: int) -> Iterator[Result]:
    """The results of `do` for each piece of work, in order, from so many processes. At most two pieces a
    process are pending, which bounds the memory of unread results. The processes end with the iterator."""
    waiting: deque[Future[Result]] = deque()
    # Not forked: the parent may run threads by now (a progress bar).
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=be_a_side_process)
    try:
        for piece in work:
            with deferred_signals():  # `submit` may start a process
                waiting.append(pool.submit(do, piece))
            if len(waiting) >= 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DataError("a converting process was killed", hint="is there enough memory?") from error
    finally:
        pool.shutdown(cancel_futures=True)


def be_a_side_process() -> None:
    """Make this process ignore Ctrl-C, which the parent handles, and end when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    end_with_parent(parent=parent.pid if parent else None)


def spans(count: int, together: int) -> list[range]:
    """The numbers below `count` in ranges of `together`."""
    return [range(first, min(first + together, count)) for first in range(0, count, together)]


SEED = 0
_PROCESSES = 2
_CHUNK = 64
Progress = Callable[[int, int], None]


def default_place(samples: int) -> Path:
    """The folder in the user's cache for a made data set of `samples` photographs."""
    return datasets_folder() / f"photographs-{samples}"


def ensure_dataset(
    samples: int, destination: Path | None = None, progress: Progress | None = None
) -> tuple[Path, DatasetProfile]:
    """The folder and profile of a data set of `samples` photographs, which is made if it is missing.

    `progress` gets (made, all) from time to time. Raises `DataError` if it cannot be written; then no
    half-made folder is left."""
    folder = destination or default_place(samples)
    profile = read_profile(folder, samples)
    if profile:
        return folder, profile
    with made_whole(folder) as unfinished:
        profile = _make(unfinished, samples, progress or (lambda _made, _all: None))
    return folder, profile


def _make(folder: Path, samples: int, progress: Progress) -> DatasetProfile:
    chunks, write = spans(samples, _CHUNK), partial(write_samples, folder, seed=SEED)
    for chunk, _ in zip(chunks, in_order(write, chunks, _PROCESSES), strict=True):
        progress(chunk.stop, samples)
    images = JpegFiles(folder)
    profile = DatasetProfile(
        name="photographs",
        samples=len(images),
        bytes_per_sample=stored_bytes(images) / len(images),
        storage_format="jpeg-files",
        width=500,
        height=375,
    )
    write_profile(folder, profile, seed=SEED)
    return profile


# Name: (tokens with <eos>, sentences).
PTB_PARTS = {"train": (929_589, 42_068), "valid": (73_760, 3_370), "test": (82_430, 3_761)}
_SYLLABLES = ["".join(letters) for letters in product("bdklmst", "aeiou", "nrs")]
_SHIFT = 1.0
_WORDS = VOCABULARY - 1  # `<eos>` is the last one


def default_text_place() -> Path:
    """The folder in the user's cache for a made text."""
    return datasets_folder() / "penn-treebank-like"


def ensure_text(destination: Path | None = None) -> tuple[Path, DatasetProfile]:
    """The folder and profile of a made text, which is made (in a few seconds) if it is missing."""
    folder = destination or default_text_place()
    return folder, read_profile(folder) or make_text(folder)


def make_text(folder: Path) -> DatasetProfile:
    """Write train.txt, valid.txt and test.txt into a new folder; returns the profile of train.

    Every word of the vocabulary occurs in train. Raises `DataError` if the files cannot be written."""
    draw = np.random.default_rng(SEED)
    spelled = [spelling(rank) for rank in range(_WORDS)]
    with made_whole(folder) as unfinished:
        for name, (tokens, sentences) in PTB_PARTS.items():
            words = tokens - sentences
            ranks = draw.permutation(np.repeat(np.arange(_WORDS), word_counts(words)))
            ends = np.sort(draw.choice(np.arange(1, words), sentences - 1, replace=False))
            lines = (" ".join(spelled[rank] for rank in part) for part in np.split(ranks, ends))
            (unfinished / f"{name}.txt").write_text("".join(f" {line} \n" for line in lines))
        profile = profile_text(unfinished / "train.txt")
        write_profile(unfinished, profile, seed=SEED)
    return profile


def word_counts(total: int) -> np.ndarray:
    """The count of each word in a text of `total` words, by rank: shape (9,999,), sum exactly `total`.

    Counts are rounded down; the remainder goes to the ranks that lost most."""
    shares = 1 / (np.arange(1, _WORDS + 1) + _SHIFT)
    exact = shares / shares.sum() * total
    counts: np.ndarray = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def spelling(rank: int) -> str:
    """The invented word of a rank, counted from 0: one syllable for the first 105, then two."""
    if rank < len(_SYLLABLES):
        return _SYLLABLES[rank]
    first, second = divmod(rank - len(_SYLLABLES), len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[second]
