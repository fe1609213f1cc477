"""Makes a data set once, whole or not at all, and finds it again: photographs, or a text.

The text has the Penn Treebank's size, sentences and vocabulary, where the corpus is not at hand.
Tokens and sentences of train, valid and test are the corpus's own (Mikolov's preparation:
929,589, 73,760 and 82,430 tokens with `<eos>`; 42,068, 3,370 and 3,761 sentences; 10,000 words
with `<eos>`). Word frequencies follow Zipf's law as Mandelbrot wrote it, 1 / (rank + 1): the most
frequent word is 5.7 % of all words. Words are invented syllables, short for frequent ones.
The text means nothing: it is for speed, never for perplexity.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import numpy as np

from advisor.domain import DatasetProfile
from advisor.places import datasets_folder
from advisor.sweeps.datasets.jpeg_files import JpegFiles
from advisor.sweeps.datasets.opening import read_profile, write_profile
from advisor.sweeps.datasets.photographs import write_samples
from advisor.sweeps.datasets.places import made_whole
from advisor.sweeps.datasets.side_processes import be_a_side_process
from advisor.sweeps.datasets.source import stored_bytes
from advisor.sweeps.datasets.text import VOCABULARY, profile_text
from advisor.sweeps.trial.orphans.removing import deferred_signals

SEED = 0
_PROCESSES = 2
_CHUNK = 64
Progress = Callable[[int, int], None]


def default_place(samples: int) -> Path:
    """The folder of a made data set of that size, in the user's cache."""
    return datasets_folder() / f"photographs-{samples}"


def ensure_dataset(
    samples: int, place: Path | None = None, progress: Progress | None = None
) -> tuple[Path, DatasetProfile]:
    """The folder of a made data set of `samples` files, made now if it is not there yet.

    `progress` gets (made, all) from time to time. Raises `DataError` when it cannot be
    written; then nothing half-made is left.
    """
    folder = place or default_place(samples)
    profile = read_profile(folder, samples)
    if profile:
        return folder, profile
    with made_whole(folder) as unfinished:
        profile = _make(unfinished, samples, progress or (lambda _made, _all: None))
    return folder, profile


def _make(folder: Path, samples: int, progress: Progress) -> DatasetProfile:
    chunks = [
        (folder, range(first, min(first + _CHUNK, samples)), SEED) for first in range(0, samples, _CHUNK)
    ]
    made = 0
    # Not forked: the parent may run threads by now (a progress bar).
    context = multiprocessing.get_context("spawn")
    with ExitStack() as started:
        with deferred_signals():  # a process just being born would print that its parent went
            pool = started.enter_context(context.Pool(_PROCESSES, be_a_side_process))
        for count in pool.imap_unordered(_write_chunk, chunks):
            made += count
            progress(made, samples)
    profile = _profile(folder)
    write_profile(folder, profile, seed=SEED)
    return profile


def _write_chunk(chunk: tuple[Path, range, int]) -> int:
    write_samples(*chunk)
    return len(chunk[1])


def _profile(folder: Path) -> DatasetProfile:
    images = JpegFiles(folder)
    return DatasetProfile(
        name="photographs",
        samples=len(images),
        bytes_per_sample=stored_bytes(images) / len(images),
        storage_format="jpeg-files",
        width=500,
        height=375,
    )


# Name: (tokens with <eos>, sentences).
PTB_PARTS = {"train": (929_589, 42_068), "valid": (73_760, 3_370), "test": (82_430, 3_761)}
_SYLLABLES = ["".join(letters) for letters in product("bdklmst", "aeiou", "nrs")]
_SHIFT = 1.0
_WORDS = VOCABULARY - 1  # `<eos>` is the last one


def default_text_place() -> Path:
    """The folder of the text that sweeps make, in the user's cache."""
    return datasets_folder() / "penn-treebank-like"


def ensure_text(place: Path | None = None) -> tuple[Path, DatasetProfile]:
    """The folder of a made text, made now (in a few seconds) if it is not there yet."""
    folder = place or default_text_place()
    return folder, read_profile(folder) or make_text(folder)


def make_text(folder: Path, seed: int = 0) -> DatasetProfile:
    """Write train.txt, valid.txt and test.txt into a new folder; returns the profile of train.

    Every word of the vocabulary occurs in train. Raises `DataError` when it cannot be written.
    """
    draw = np.random.default_rng(seed)
    with made_whole(folder) as unfinished:
        for name, (tokens, sentences) in PTB_PARTS.items():
            text = _text(draw, tokens - sentences, sentences)
            (unfinished / f"{name}.txt").write_text(text)
        profile = profile_text(unfinished / "train.txt")
        write_profile(unfinished, profile, seed=seed)
    return profile


def word_counts(total: int) -> np.ndarray:
    """The count of each rank in a text of `total` words: shape (9,999,), sum exactly `total`.

    What is lost by rounding down goes to the ranks that lost most.
    """
    shares = 1 / (np.arange(1, _WORDS + 1) + _SHIFT)
    exact = shares / shares.sum() * total
    counts: np.ndarray = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def spelling(rank: int) -> str:
    """The invented word of a rank from 0: one syllable for the first 105, then two."""
    if rank < len(_SYLLABLES):
        return _SYLLABLES[rank]
    first, second = divmod(rank - len(_SYLLABLES), len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[second]


def _text(draw: np.random.Generator, words: int, sentences: int) -> str:
    ranks = draw.permutation(np.repeat(np.arange(_WORDS), word_counts(words)))
    ends = np.sort(draw.choice(np.arange(1, words), sentences - 1, replace=False))
    spelled = [spelling(rank) for rank in range(_WORDS)]
    lines = (" ".join(spelled[rank] for rank in part) for part in np.split(ranks, ends))
    return "".join(f" {line} \n" for line in lines)
