"""Data sets that are made, found, checked and decoded: images and texts."""

import importlib.util
import io
import json
import random
import statistics
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from advisor.cli.main import run
from advisor.errors import DataError, MeasuringError, UsageError
from advisor.sweeps.datasets import making, transforming
from advisor.sweeps.datasets.converting import broken_samples
from advisor.sweeps.datasets.opening import open_dataset, profile_folder, read_corpus
from advisor.sweeps.datasets.source import JpegFiles
from advisor.sweeps.datasets.transforming import DECODERS, decode_costs, decoder
from advisor.sweeps.worker.inputs import Images


def picture(path, size=(40, 30)):
    Image.new("RGB", size, "red").save(path)


def test_samples_are_like_imagenet_in_size_and_depend_on_seed_and_index_alone(tmp_path):
    sizes = [len(making.make_sample(random.Random(index))) for index in range(60)]
    assert statistics.fmean(sizes) == pytest.approx(110_000, rel=0.15)
    assert max(sizes) > 2 * min(sizes)
    for name, indices in (("a", range(3)), ("b", range(2, 3))):
        (tmp_path / name).mkdir()
        making.write_samples(tmp_path / name, indices, seed=7)
    last = "0000002.jpg"
    assert (tmp_path / "a" / last).read_bytes() == (tmp_path / "b" / last).read_bytes()
    assert broken_samples(tmp_path / "a", 1, lambda *_: None) == (3, [])


def test_a_data_set_is_made_once_and_profiled_and_a_place_that_cannot_be_written_is_named_with_the_way_out(
    tmp_path,
):
    lines = []

    def make(folder):
        return making.ensure_dataset(70, folder, lambda *count: lines.append(count))

    folder, profile = make(tmp_path / "set")
    files = JpegFiles(folder).files
    assert len(files) == profile.samples == 70
    mean = statistics.fmean(path.stat().st_size for path in files)
    assert profile.bytes_per_sample == pytest.approx(mean)
    assert lines[-1] == (70, 70)
    lines.clear()
    assert (make(folder), lines) == ((folder, profile), [])
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="name another place"):
        making.ensure_dataset(4, tmp_path / "file" / "set")


def test_a_users_folder_is_profiled(tmp_path):
    (tmp_path / "cats").mkdir()
    picture(tmp_path / "cats" / "one.JPG", (40, 30))
    picture(tmp_path / "two.jpeg", (60, 50))
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "profile.json").write_text('{"profile": {"samples": 5}}')  # it no longer fits the folder
    profile = profile_folder(tmp_path)
    assert (profile.samples, profile.width, profile.height) == (2, 50, 40)


def cut_off(path):
    picture(path, (400, 300))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.write_bytes(b""), "cannot be read as an image"),
        (lambda file: file.write_bytes(b"no picture"), "repair or remove"),
        (cut_off, r"one\.jpg"),
        (lambda _file: None, "needed"),
    ],
    ids=["empty", "no image", "cut off", "no files"],
)
def test_broken_or_missing_images_are_named(tmp_path, spoil, words):
    (folder := tmp_path / "set").mkdir()
    spoil(folder / "one.jpg")
    with pytest.raises(UsageError, match=words):
        profile_folder(folder)


@pytest.fixture
def spoiled(tmp_path):
    """Seventy images, of which four are empty, cut off, no image, and huge."""
    folder = tmp_path / "set"
    folder.mkdir()
    making.write_samples(folder, range(2), seed=0)
    good = (folder / "0000001.jpg").read_bytes()
    for number in range(2, 70):
        (folder / f"{number:07d}.jpg").write_bytes(good)
    (folder / "0000003.jpg").write_bytes(b"")
    (folder / "0000005.jpg").write_bytes(good[: len(good) // 3])
    (folder / "0000066.jpg").write_bytes(b"<html>404</html>")
    huge(folder / "0000069.jpg")
    return folder


def huge(path):
    """A decompression bomb: 24,000 x 24,000 pixels by its header alone."""
    Image.new("L", (16, 16)).save(path, "JPEG")
    content = bytearray(path.read_bytes())
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = (24_000).to_bytes(2, "big") * 2
    path.write_bytes(content)


def test_every_broken_image_is_named_with_its_reason(spoiled, capsys):
    assert run(["dataset", "check", str(spoiled), "-o", "json"]) == 1
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["samples"] == 70
    causes = {"03": "it is empty", "05": "truncated", "66": "its format is not known", "69": "exceeds limit"}
    for line, (name, why) in zip(document["broken"], causes.items(), strict=True):
        assert f"00000{name}.jpg" in line
        assert why in line
    assert "4 of 70 images" in output.err


def test_a_huge_image_is_refused_before_memory_is_taken_for_it(tmp_path):
    pytest.importorskip("simplejpeg")
    huge(tmp_path / "bomb.jpg")
    with pytest.raises(ValueError, match="24000 x 24000 pixels"):
        decoder("simplejpeg")((tmp_path / "bomb.jpg").read_bytes())


def jpeg(colour=(30, 40, 200), size=(50, 20)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG", quality=100)
    return buffer.getvalue()


@pytest.mark.parametrize("name", DECODERS)
def test_each_decoder_gives_the_same_colours_and_names_what_it_cannot_decode(tmp_path, name):
    if importlib.util.find_spec("PIL" if name == "pillow" else name) is None:
        pytest.skip(f"no {name} here")
    pixels = decoder(name)(jpeg())
    assert (pixels.shape, pixels.dtype) == ((20, 50, 3), np.uint8)
    assert pixels[10, 25].tolist() == pytest.approx([30, 40, 200], abs=3)
    (tmp_path / "0.jpg").write_bytes(jpeg(size=(300, 200)))
    assert decode_costs(open_dataset(tmp_path))[name] > 0
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8 no picture")
    images = Images(open_dataset(tmp_path), 32, name)
    assert tuple(images[0][0].shape) == (3, 32, 32)
    with pytest.raises(DataError, match=r"1\.jpg"):
        images[1]


def test_an_unknown_or_missing_decoder_names_the_way_out(monkeypatch):
    with pytest.raises(UsageError, match="pillow"):
        decoder("pilow")
    monkeypatch.setattr(transforming, "_installed", lambda _package: False)
    with pytest.raises(MeasuringError, match="pip install"):
        decoder("simplejpeg")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "ptb"
    return folder, making.make_text(folder)


def test_a_made_text_has_the_tokens_sentences_and_words_of_the_penn_treebank_as_often_as_zipf_says(made):
    folder, profile = made
    assert making.PTB_PARTS["train"][0] == profile.samples == 929_589
    for name, (tokens, sentences) in making.PTB_PARTS.items():
        corpus = read_corpus(folder / f"{name}.txt")
        assert len(corpus.tokens) == tokens
        assert np.sum(corpus.tokens == corpus.words.index("<eos>")) == sentences
    assert len(read_corpus(folder).words) == 10_000
    assert profile.total_mib * 2**20 == pytest.approx(5_101_618, rel=0.03)  # of ptb.train.txt
    assert len({making.spelling(rank) for rank in range(9_999)}) == 9_999
    counts = making.word_counts(887_521)
    assert (counts.sum(), counts.min() >= 1, (np.diff(counts) <= 0).all()) == (887_521, True, True)
    assert counts[0] / counts[9] == pytest.approx(11 / 2, rel=0.01)


def test_a_users_text_is_numbered_by_frequency_and_of_several_without_a_training_part_one_must_be_named(
    tmp_path,
):
    (tmp_path / "mine.txt").write_text("a b a\n\n  a c \n", encoding="utf-8")
    corpus = read_corpus(tmp_path)
    assert [corpus.words[token] for token in corpus.tokens] == ["a", "b", "a", "<eos>", "a", "c", "<eos>"]
    assert corpus.words[0] == "a"
    assert profile_folder(tmp_path).samples == 7
    (tmp_path / "mine.txt").write_text("a a a b b c\n")
    corpus = read_corpus(tmp_path / "mine.txt", vocabulary=3)
    counts = Counter(corpus.words[token] for token in corpus.tokens)
    assert counts == {"a": 3, "b": 2, "<unk>": 2}
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("words")
    with pytest.raises(UsageError, match="name one"):
        profile_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe\x00", "UTF-8"), (b"a\0b", "zero bytes"), (b"", "no words"), (b" \n", "no words")],
)
def test_an_unreadable_text_is_named_with_the_way_out(tmp_path, content, words):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        profile_folder(tmp_path / "bad.txt")
