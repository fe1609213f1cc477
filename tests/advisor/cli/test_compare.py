"""`advisor compare` as a user calls it."""

from __future__ import annotations

import json

import pytest

from advisor.cli.main import run
from advisor.units import format_rate, format_usd

GPUS = ["compare", "--task", "training", "--model", "resnet50,vgg16", "--gpu", "T4,L4"]
INSTANCES = ["compare", "--task", "training", "--model", "resnet50"]
INSTANCES += ["--instance", "g4dn.xlarge", "--instance", "g5.xlarge"]


def _document(arguments: list[str], capsys) -> dict:
    assert run([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_first_instance_counts_as_one(capsys) -> None:
    """Relative is likely rate over likely rate, and prices include the disk."""
    first, second = _document(INSTANCES, capsys)["rows"]
    assert first["relative"] == 1
    medians = [row["predicted"]["throughput"]["median"] for row in (first, second)]
    assert second["relative"] == pytest.approx(medians[1] / medians[0])
    assert second["total_usd_per_hour"] >= second["price"]["usd_per_hour"]


def test_an_instance_has_the_figures_that_predict_tells(capsys) -> None:
    """One place for each figure."""
    row = _document(INSTANCES, capsys)["rows"][0]
    run(["predict", *INSTANCES[1:5], "--instance", "g4dn.xlarge", "-o", "json"])
    alone = json.loads(capsys.readouterr().out)
    assert row["predicted"] == alone["predicted"]


def test_how_each_price_is_known_is_told_with_what_is_assumed(capsys, monkeypatch) -> None:
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-23")
    words = ["compare", "--task", "inference", "--model", "resnet50", "--cloud", "any"]
    words += ["--instance", "1x-l4.secure", "--instance", "g5.xlarge"]
    assert run(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1x-l4.secure of runpod in global, list of" in text
    assert "g5.xlarge of aws in us-east-1, list of" in text
    assert "Assumed: 1x-l4.secure: runpod's volume disk has" in text
    assert "1x-l4.secure: the instance price is" in text


def test_an_old_price_has_the_interval_that_recommend_tells(capsys, monkeypatch) -> None:
    """In JSON and in text: months after its day a price lies in a wider interval than on it."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-27")
    asked = ["--task", "training", "--model", "resnet50", "--cloud", "runpod"]
    assert run(["recommend", *asked, "--gpu", "RTX 3090", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["recommendation"]
    words = ["compare", *asked, "--instance", told["instance_type"], "--instance", "1x-l4.secure"]
    first = _document(words, capsys)["rows"][0]["price"]
    ends = "low_usd_per_hour", "high_usd_per_hour"
    assert [first[end] for end in ends] == [told["price"][end] for end in ends]
    assert first["low_usd_per_hour"] < first["usd_per_hour"] < first["high_usd_per_hour"]
    assert run(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "observed of 2026-08-22 ($0.169 to $0.407/h), estimated disk" in text
    assert run([*words, "-o", "csv"]) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.endswith("price_kind,price_as_of,price_source,disk_price_kind")
    assert row.endswith(",estimated")


def test_the_price_of_a_tuned_model_has_the_same_interval_however_it_is_asked_for(
    capsys, monkeypatch
) -> None:
    """Of an old price, by `recommend` and by `predict`."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-27")
    asked = ["--task", "finetuning", "--model", "llama-3.1-8b", "--tokens", "1e7"]
    asked += ["--cloud", "runpod"]
    told = _document(["recommend", *asked], capsys)["recommendation"]
    alone = _document(["predict", *asked, "--instance", told["instance_type"]], capsys)
    assert alone["price"]["high_usd_per_hour"] > 1.5 * alone["price"]["usd_per_hour"]
    assert alone["price"] == told["price"]


def test_the_baseline_may_be_any_card_as_people_write_it(capsys) -> None:
    """RTX8000 is added as a row of its own, and is 1 for every network."""
    document = _document([*GPUS, "--baseline", "RTX8000"], capsys)
    own = [row for row in document["rows"] if row["gpu"]["name"] == "Quadro RTX 8000"]
    assert document["baseline"] == "Quadro RTX 8000"
    assert [row["relative"] for row in own] == [1, 1]
    assert {row["network"] for row in document["rows"]} == {"resnet50", "vgg16"}


def test_what_does_not_fit_is_a_dash_and_no_number(capsys) -> None:
    """A batch of 256 of VGG-16 is too much for 16 GB, and the mean then says nothing."""
    arguments = [*GPUS, "--batch-size", "256", "--baseline", "RTX8000"]
    rows = _document(arguments, capsys)["rows"]
    t4 = next(row for row in rows if row["gpu"]["name"] == "T4" and row["network"] == "vgg16")
    assert not t4["fits"]
    assert t4["relative"] is None
    run(arguments)
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("T4"))
    assert line.split()[2:4] == ["-", "-"]


@pytest.mark.parametrize("output", ["csv", "md"])
def test_tables_have_one_line_a_row(output: str, capsys) -> None:
    """For spreadsheets and pull requests."""
    run([*GPUS, "-o", output])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 + (1 if output == "csv" else 2)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--instance", "g5.xlarge"],
        ["--instance", "g5.xlarge", "--gpu", "T4"],
        ["--gpu", "T4", "--baseline", "A100"],
        ["--gpu", "999GiB.."],
        ["--gpu", "Voodoo"],
        ["--instance", "g5.xlarge", "--instance", "g9.xlarge"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(wrong: list[str], capsys) -> None:
    """It names the way out."""
    assert run(["compare", "--task", "training", "--model", "resnet50", *wrong]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_preprocessing_compares_instances_only(capsys) -> None:
    """It uses no GPU."""
    arguments = ["compare", "--task", "preprocessing", "--model", "resnet50"]
    assert run([*arguments, "--gpu", "T4"]) == 2
    assert run([*arguments, "--instance", "c5.xlarge", "--instance", "c5.2xlarge"]) == 0
    assert "c5.2xlarge" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        (["compare", "--task", "training", "--model", "resnet50"], "--gpu", ("T4", "A10G")),
        (["compare", "--task", "training", "--model", "vgg16"], "--instance", ("g5.xlarge", "g6.xlarge")),
        (["compare", "--task", "training", "--gpu", "T4,L4"], "--model", ("resnet50", "vgg16")),
        (["recommend", "--task", "training", "--model", "resnet50"], "--gpu", ("T4", "L4")),
        (["catalog", "list"], "--gpu", ("T4", "L4")),
    ],
)
def test_a_list_may_be_given_again_or_with_commas(command, option, names, capsys) -> None:
    said = []
    for words in (
        [option, ",".join(names)],
        [word for name in names for word in (option, name)],
        [f"{option}={name}" for name in names],
    ):
        assert run([*command, *words, "-o", "json"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert all(name in said[0] for name in names)


@pytest.mark.parametrize("words", [["g5.xlarge,g6.xlarge"], ["g5.xlarge", "--instance", "g6.xlarge"]])
def test_where_one_instance_answers_several_are_refused(words, capsys) -> None:
    """Neither is ignored in silence."""
    asked = ["predict", "--task", "training", "--model", "resnet50", "--instance", *words]
    assert run(asked) == 2
    error = capsys.readouterr().err
    assert "--instance is one type here, not g5.xlarge,g6.xlarge" in error
    assert "advisor compare" in error


def test_a_baseline_that_no_batch_fits_leaves_its_place_to_the_next(capsys) -> None:
    """And only that GPU is said not to fit."""
    cards = ["--gpu", "T4,H100-SXM5-80GB,B200-SXM-180GB", "--batch-size", "64"]
    asked = ["compare", "--task", "training", "--model", "vit_large_patch16_224"]
    asked += ["--precision", "amp", *cards]
    rows = _document(asked, capsys)["rows"]
    assert [row["fits"] for row in rows] == [False, True, True]
    assert [row["relative"] is not None for row in rows] == [False, True, True]
    assert rows[1]["relative"] == 1
    assert {row["relative_to"] for row in rows} == {"H100-SXM5-80GB"}
    assert run(asked) == 0
    text = capsys.readouterr().out
    assert "no batch fits T4, so H100-SXM5-80GB is 1" in text


def test_gpus_are_compared_by_their_rates_and_prices_too(capsys) -> None:
    """The price is the cheapest one for rent, as `advisor gpus` lists it."""
    rows = _document(GPUS, capsys)["rows"]
    assert run(["gpus", "--gpu", "T4,L4", "-o", "json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["gpus"]}
    assert run(GPUS) == 0
    text = capsys.readouterr().out
    for row in rows:
        usd, median = row["usd_per_gpu_hour"], row["predicted"]["throughput"]["median"]
        assert usd == listed[row["gpu"]["name"]]["usd_per_gpu_hour"]
        assert row["usd_per_million_samples"] == pytest.approx(usd / median / 3600 * 1e6)
        assert format_rate(median) in text
        assert format_usd(usd) in text


def test_what_is_assumed_of_one_instance_names_it(capsys) -> None:
    """The first epoch takes another time on each."""
    assert run(INSTANCES) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in ("g4dn.xlarge", "g5.xlarge"):
        assert f"{name}: the first epoch, all of it from the disk" in text


@pytest.mark.parametrize(
    ("cloud", "name", "why"),
    [
        ("gcp", "a3-highgpu-1g", "not sold on demand (seen on 2025-09-13)"),
        ("aws", "p3.2xlarge", "retired: AWS describes it no longer"),
        ("azure", "Standard_NC6s_v3", "Azure retired it on 2025-09-30"),
    ],
)
def test_what_nobody_can_order_is_named_before_its_price_is_compared(capsys, cloud, name, why):
    """As `predict` says it; a comparison warned of nothing."""
    other = {"gcp": "a2-highgpu-1g", "aws": "g5.xlarge", "azure": "Standard_NC4as_T4_v3"}[cloud]
    words = ["compare", "--task", "inference", "--model", "resnet50", "--cloud", cloud]
    words += ["--instance", other, "--instance", name]
    assert run(words) == 0
    assert f"{name}: {why}" in " ".join(capsys.readouterr().out.split())
    rows = {row["instance_type"]: str(row["warnings"]) for row in _document(words, capsys)["rows"]}
    assert (why in rows[name], why in rows[other]) == (True, False)
