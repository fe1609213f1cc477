"""A text with the Penn Treebank's size, sentences and vocabulary, where the corpus is not at hand.

Tokens and sentences of train, valid and test are the corpus's own (Mikolov's preparation:
929,589, 73,760 and 82,430 tokens with `<eos>`; 42,068, 3,370 and 3,761 sentences; 10,000 words
with `<eos>`). Word frequencies follow Zipf's law as Mandelbrot wrote it, 1 / (rank + 1): the most
frequent word is 5.7 % of all words. Words are invented syllables, short for frequent ones.
The text means nothing: it is for speed, never for perplexity.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np

from advisor.domain import DatasetProfile
from advisor.places import datasets_folder
from sweeps.datasets.folder import read_profile
from sweeps.datasets.places import PROFILE_FILE, made_whole
from sweeps.datasets.text import VOCABULARY, profile_text

# Name: (tokens with <eos>, sentences).
PTB_PARTS = {
    "train": (929_589, 42_068),
    "valid": (73_760, 3_370),
    "test": (82_430, 3_761),
}
_SYLLABLES = ["".join(letters) for letters in product("bdklmst", "aeiou", "nrs")]
_SHIFT = 1.0
_WORDS = VOCABULARY - 1  # `<eos>` is the last one


def default_text_place() -> Path:
    """Where the text lives that sweeps make: the user's cache folder."""
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
        document = {"profile": asdict(profile), "seed": seed}
        (unfinished / PROFILE_FILE).write_text(json.dumps(document, indent=1))
    return profile


def word_counts(total: int) -> np.ndarray:
    """How often each rank occurs in a text of `total` words: shape (9,999,), sum exactly `total`.

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
