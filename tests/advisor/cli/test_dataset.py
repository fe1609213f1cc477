import json

import pytest

from advisor.cli.main import run
from advisor.sweeps.datasets.photographs import write_samples


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    write_samples(tmp_path / "photos", range(6), seed=0)
    return tmp_path / "photos"


def answer(capsys, *arguments):
    assert run(["dataset", *map(str, arguments), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("target", ["tar", "lmdb", "recordio", "files"])
def test_a_converted_set_is_shown_with_its_size_and_decode_cost(photos, tmp_path, capsys, target):
    out = tmp_path / "out"
    made = answer(capsys, "convert", photos, "--to", target, "--out", out, "--processes", 1)
    assert made["schema"] == "advisor.dataset-converted/1"
    assert made["conversion"]["samples_per_second"] > 0
    shown = answer(capsys, "show", out)
    assert shown["profile"] == made["profile"]
    expected = {"stored"} if target == "lmdb" else {"pillow"}
    assert expected <= set(shown["decode_seconds_per_sample"])
    assert all(seconds > 0 for seconds in shown["decode_seconds_per_sample"].values())


def test_the_table_tells_the_rate_of_the_conversion(photos, tmp_path, capsys):
    arguments = ["convert", str(photos), "--to", "tar", "--out", str(tmp_path / "out")]
    assert run(["dataset", *arguments]) == 0
    told = capsys.readouterr()
    assert "6 of 6" in told.err
    assert "tar, 6 images" in told.out
    assert "samples/s" in told.out


def test_a_made_text_is_shown_with_its_words(tmp_path, capsys):
    made = answer(capsys, "make", "text", "--out", tmp_path / "ptb")
    shown = answer(capsys, "show", tmp_path / "ptb")
    assert made["profile"]["storage_format"] == shown["profile"]["storage_format"] == "text"
    assert shown["profile"]["samples"] == 929_589
    assert shown["different_words"] == 10_000


@pytest.mark.slow
def test_made_photographs_are_made_once(tmp_path, capsys):
    arguments = ("make", "photographs", "--samples", 3, "--out", tmp_path / "photos")
    assert answer(capsys, *arguments) == answer(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convert", "{photos}", "--to", "tar", "--out", "{photos}"], "name a new folder"),
        (["convert", "{photos}", "--to", "tra", "--out", "{out}"], "did you mean tar"),
        (["convert", "{photos}", "--to", "lmdb", "--out", "{out}", "--resize", "64"], "--resize"),
        (["convert", "{photos}", "--to", "tar", "--out", "{out}", "--quality", "9"], "--resize"),
        (["convert", "{out}", "--to", "tar", "--out", "{out}2"], "no folder or file"),
        (["make", "photographs", "--out", "{photos}"], "not empty"),
        (["make", "text", "--out", "{photos}"], "not empty"),
        (["make", "words", "--out", "{out}"], "photographs"),
        (["show", "{out}"], "no folder or file"),
    ],
)
def test_a_wrong_question_is_told_in_one_line(photos, tmp_path, capsys, arguments, words):
    filled = [part.format(photos=photos, out=tmp_path / "out") for part in arguments]
    assert run(["dataset", *filled]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert len(list(photos.iterdir())) == 6


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("make", "text", "--out", "x" * 300), 1),
        (("show", "x" * 300), 2),
        (("check", "x" * 300), 2),
        (("convert", "x" * 300, "--to", "tar", "--out", "out"), 2),
    ],
)
def test_a_path_that_the_system_refuses_is_one_line_with_the_way_out(
    arguments, code, capsys, tmp_path, monkeypatch
):
    """As a folder without permission is: looking at it fails, before anything is read."""
    monkeypatch.chdir(tmp_path)
    assert run(["dataset", *arguments]) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "File name too long" in line
    assert "; " in line
    assert list(tmp_path.iterdir()) == []


def test_a_conversion_says_that_it_converts(photos, tmp_path, capsys):
    run(["dataset", "convert", str(photos), "--to", "tar", "--out", str(tmp_path / "out")])
    assert "converting the data set: 6 of 6" in capsys.readouterr().err
