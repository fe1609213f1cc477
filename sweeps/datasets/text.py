"""Text as language models read it: words between spaces, one sentence a line, `<eos>` behind it.

That is the Penn Treebank's layout as Mikolov prepared it, and any text file of one's own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from msgspec import Struct

from advisor.domain import DatasetProfile
from advisor.errors import UsageError

TEXT = "text"
VOCABULARY = 10_000
END_OF_SENTENCE, UNKNOWN = "<eos>", "<unk>"
_TRAINING_NAMES = ("train.txt", "ptb.train.txt")


class Corpus(Struct, frozen=True, kw_only=True):
    """Word numbers in the order of the text (int64, shape (tokens,)); number n is `words[n]`.

    Words are ordered from the most frequent one on; what is too rare is `<unk>`.
    """

    tokens: np.ndarray
    words: tuple[str, ...]


def text_file(path: Path) -> Path:
    """The file itself; of a folder its `train.txt` or `ptb.train.txt`, or its only .txt file."""
    if not path.is_dir():
        return path
    for name in _TRAINING_NAMES:
        if (path / name).is_file():
            return path / name
    texts = sorted(path.glob("*.txt"))
    if len(texts) != 1:
        raise UsageError(
            "{count} text files in '{path}' and no train.txt",
            hint="name one of them",
            count=len(texts),
            path=path,
        )
    return texts[0]


def read_corpus(path: Path, vocabulary: int = VOCABULARY) -> Corpus:
    """The text with at most `vocabulary` different words. Raises `UsageError` for no text."""
    words = _words(text_file(path))
    kept = [word for word, _ in Counter(words).most_common(vocabulary)]
    if len(set(words)) > vocabulary and UNKNOWN not in kept:
        kept[-1] = UNKNOWN
    numbers = {word: number for number, word in enumerate(kept)}
    rare = numbers.get(UNKNOWN, 0)
    tokens = np.fromiter((numbers.get(word, rare) for word in words), np.int64, len(words))
    return Corpus(tokens=tokens, words=tuple(kept))


def profile_text(path: Path) -> DatasetProfile:
    """A text's profile. A sample is a token; nothing is decoded, so its size is 1 x 1."""
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
            "'{file}' is no UTF-8 text (byte {start})",
            hint="convert it with iconv -t utf-8",
            file=file,
            start=error.start,
        ) from error
    except OSError as error:
        raise UsageError("cannot read '{file}': {strerror}", file=file, strerror=error.strerror) from error
    if "\0" in text:
        raise UsageError("'{file}' is no text (it has zero bytes)", hint="name a text file", file=file)
    lines = (line.split() for line in text.splitlines())
    words = [word for line in lines if line for word in (*line, END_OF_SENTENCE)]
    if not words:
        raise UsageError("'{file}' has no words", hint="name a text with some", file=file)
    return words
