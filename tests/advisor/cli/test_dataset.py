import pytest

from advisor.cli.main import run
from advisor.sweeps.datasets.making import write_samples


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    write_samples(tmp_path / "photos", range(6), seed=0)
    return tmp_path / "photos"


@pytest.fixture
def dataset(answer):
    return lambda *words: answer("dataset", *words)


@pytest.mark.parametrize("target", ["tar", "lmdb", "recordio", "files"])
def test_a_converted_set_is_shown_with_its_size_and_decode_cost(photos, tmp_path, dataset, target):
    out = tmp_path / "out"
    made = dataset("convert", photos, "--to", target, "--out", out, "--processes", 1)
    assert made["schema"] == "advisor.dataset-converted/1"
    assert made["conversion"]["samples_per_second"] > 0
    shown = dataset("show", out)
    assert shown["profile"] == made["profile"]
    expected = {"stored"} if target == "lmdb" else {"pillow"}
    assert expected <= set(shown["decode_seconds_per_sample"])
    assert all(seconds > 0 for seconds in shown["decode_seconds_per_sample"].values())


def test_the_table_tells_the_rate_of_the_conversion(photos, tmp_path, capsys):
    arguments = ["convert", str(photos), "--to", "tar", "--out", str(tmp_path / "out")]
    assert run(["dataset", *arguments]) == 0
    printed = capsys.readouterr()
    assert "converting the data set: 6 of 6" in printed.err
    assert "tar, 6 images" in printed.out
    assert "samples/s" in printed.out


def test_a_made_text_is_shown_with_its_words(tmp_path, dataset):
    made = dataset("make", "text", "--out", tmp_path / "ptb")
    shown = dataset("show", tmp_path / "ptb")
    assert made["profile"]["storage_format"] == shown["profile"]["storage_format"] == "text"
    assert shown["profile"]["samples"] == 929_589
    assert shown["different_words"] == 10_000


@pytest.mark.slow
def test_made_photographs_are_made_once(tmp_path, dataset):
    arguments = ("make", "photographs", "--samples", 3, "--out", tmp_path / "photos")
    assert dataset(*arguments) == dataset(*arguments)
