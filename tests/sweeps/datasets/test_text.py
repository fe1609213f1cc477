from collections import Counter

import numpy as np
import pytest

from advisor.errors import UsageError
from advisor.sweeps.datasets.making import PTB_PARTS, make_text, spelling, word_counts
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.datasets.text import read_corpus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "ptb"
    return folder, make_text(folder)


def test_a_made_text_has_the_tokens_sentences_and_words_of_the_penn_treebank(made):
    folder, profile = made
    assert PTB_PARTS["train"][0] == profile.samples == 929_589
    for name, (tokens, sentences) in PTB_PARTS.items():
        corpus = read_corpus(folder / f"{name}.txt")
        assert len(corpus.tokens) == tokens
        assert np.sum(corpus.tokens == corpus.words.index("<eos>")) == sentences
    assert len(read_corpus(folder).words) == 10_000


def test_its_bytes_a_token_are_near_the_treebanks(made):
    """ptb.train.txt has 5,101,618 bytes."""
    _, profile = made
    assert profile.total_mib * 2**20 == pytest.approx(5_101_618, rel=0.03)


def test_word_frequencies_follow_zipfs_law():
    counts = word_counts(887_521)
    assert counts.sum() == 887_521
    assert counts.min() >= 1
    assert (np.diff(counts) <= 0).all()
    assert counts[0] / counts[9] == pytest.approx(11 / 2, rel=0.01)


def test_no_two_ranks_are_spelled_alike():
    assert len({spelling(rank) for rank in range(9_999)}) == 9_999


def test_a_users_text_is_numbered_by_frequency(tmp_path):
    (tmp_path / "mine.txt").write_text("a b a\n\n  a c \n", encoding="utf-8")
    corpus = read_corpus(tmp_path)
    assert [corpus.words[token] for token in corpus.tokens] == ["a", "b", "a", "<eos>", "a", "c", "<eos>"]
    assert corpus.words[0] == "a"
    assert profile_folder(tmp_path).samples == 7


def test_rare_words_become_unknown(tmp_path):
    (tmp_path / "mine.txt").write_text("a a a b b c\n")
    corpus = read_corpus(tmp_path / "mine.txt", vocabulary=3)
    counts = Counter(corpus.words[token] for token in corpus.tokens)
    assert counts == {"a": 3, "b": 2, "<unk>": 2}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe\x00", "UTF-8"), (b"a\0b", "zero bytes"), (b"", "no words"), (b" \n", "no words")],
)
def test_an_unreadable_text_is_named_with_the_way_out(tmp_path, content, words):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        profile_folder(tmp_path / "bad.txt")


def test_of_several_texts_without_a_training_part_one_must_be_named(tmp_path):
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("words")
    with pytest.raises(UsageError, match="name one"):
        profile_folder(tmp_path)
