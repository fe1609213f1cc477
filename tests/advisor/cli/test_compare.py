"""`advisor compare` as a user calls it."""

import pytest

GPUS = ("compare", "--task", "training", "--model", "resnet50,vgg16", "--gpu", "T4,L4")
RESNET = ("--task", "training", "--model", "resnet50")
INSTANCES = ("compare", *RESNET, "--instance", "g4dn.xlarge", "--instance", "g5.xlarge")


@pytest.fixture
def told(shown):
    """The text of a command on one line."""
    return lambda *words: " ".join(shown(*words).split())


def test_the_first_instance_counts_as_one_and_has_the_figures_that_predict_tells(answer):
    """Relative is likely rate over likely rate, and prices include the disk."""
    first, second = answer(*INSTANCES)["rows"]
    assert first["relative"] == 1
    medians = [row["predicted"]["throughput"]["median"] for row in (first, second)]
    assert second["relative"] == pytest.approx(medians[1] / medians[0])
    assert second["total_usd_per_hour"] >= second["price"]["usd_per_hour"]
    assert first["predicted"] == answer("predict", *RESNET, "--instance", "g4dn.xlarge")["predicted"]


def test_how_each_price_is_known_is_told_with_what_is_assumed(told, monkeypatch):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-23")
    words = ("compare", "--task", "inference", "--model", "resnet50", "--cloud", "any")
    text = told(*words, "--instance", "1x-l4.secure", "--instance", "g5.xlarge")
    assert "1x-l4.secure of runpod in global, list of" in text
    assert "g5.xlarge of aws in us-east-1, list of" in text
    assert "Assumed: 1x-l4.secure: runpod's volume disk has" in text
    assert "1x-l4.secure: the instance price is" in text


def test_an_old_price_has_the_interval_that_recommend_tells(answer, shown, told, monkeypatch):
    """In JSON and in text: months after its day a price lies in a wider interval than on it."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-27")
    asked = (*RESNET, "--cloud", "runpod")
    pick = answer("recommend", *asked, "--gpu", "RTX 3090")["recommendation"]
    words = ("compare", *asked, "--instance", pick["instance_type"], "--instance", "1x-l4.secure")
    first = answer(*words)["rows"][0]["price"]
    ends = "low_usd_per_hour", "high_usd_per_hour"
    assert [first[end] for end in ends] == [pick["price"][end] for end in ends]
    assert first["low_usd_per_hour"] < first["usd_per_hour"] < first["high_usd_per_hour"]
    assert "observed of 2026-08-22 ($0.169 to $0.407/h), estimated disk" in told(*words)
    head, row, *_ = shown(*words, "-o", "csv").splitlines()
    assert head.endswith("price_kind,price_as_of,price_source,disk_price_kind")
    assert row.endswith(",estimated")


def test_the_baseline_may_be_any_card_as_people_write_it(answer):
    """RTX8000 is added as a row of its own, and is 1 for every network."""
    document = answer(*GPUS, "--baseline", "RTX8000")
    own = [row for row in document["rows"] if row["gpu"]["name"] == "Quadro RTX 8000"]
    assert document["baseline"] == "Quadro RTX 8000"
    assert [row["relative"] for row in own] == [1, 1]
    assert {row["network"] for row in document["rows"]} == {"resnet50", "vgg16"}


def test_what_does_not_fit_is_a_dash_and_no_number(answer, shown):
    """A batch of 256 of VGG-16 is too much for 16 GB, and the mean then says nothing."""
    words = (*GPUS, "--batch-size", "256", "--baseline", "RTX8000")
    rows = {(row["gpu"]["name"], row["network"]): row for row in answer(*words)["rows"]}
    assert not rows["T4", "vgg16"]["fits"]
    assert rows["T4", "vgg16"]["relative"] is None
    line = next(one for one in shown(*words).splitlines() if one.startswith("T4"))
    assert line.split()[2:4] == ["-", "-"]


@pytest.mark.parametrize(("output", "headings"), [("csv", 1), ("md", 2)])
def test_tables_have_one_line_a_row(output, headings, shown):
    """For spreadsheets and pull requests."""
    assert len(shown(*GPUS, "-o", output).splitlines()) == 4 + headings


def test_preprocessing_compares_instances_only(ask, shown):
    """It uses no GPU."""
    words = ("compare", "--task", "preprocessing", "--model", "resnet50")
    assert ask(*words, "--gpu", "T4")[0] == 2
    assert "c5.2xlarge" in shown(*words, "--instance", "c5.xlarge", "--instance", "c5.2xlarge")


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        (("compare", *RESNET), "--gpu", ("T4", "A10G")),
        (("compare", "--task", "training", "--model", "vgg16"), "--instance", ("g5.xlarge", "g6.xlarge")),
        (("compare", "--task", "training", "--gpu", "T4,L4"), "--model", ("resnet50", "vgg16")),
        (("recommend", *RESNET), "--gpu", ("T4", "L4")),
        (("catalog", "list"), "--gpu", ("T4", "L4")),
    ],
)
def test_a_list_may_be_given_again_or_with_commas(command, option, names, shown):
    again = [word for name in names for word in (option, name)]
    ways = [option, ",".join(names)], again, [f"{option}={name}" for name in names]
    first, *others = (shown(*command, *words, "-o", "json") for words in ways)
    assert others == [first, first]
    assert all(name in first for name in names)


def test_a_baseline_that_no_batch_fits_leaves_its_place_to_the_next(answer, shown):
    """And only that GPU is said not to fit."""
    words = ("compare", "--task", "training", "--model", "vit_large_patch16_224", "--precision", "amp")
    words += ("--batch-size", "64", "--gpu", "T4,H100-SXM5-80GB,B200-SXM-180GB")
    rows = answer(*words)["rows"]
    assert [row["fits"] for row in rows] == [False, True, True]
    assert [row["relative"] is not None for row in rows] == [False, True, True]
    assert rows[1]["relative"] == 1
    assert {row["relative_to"] for row in rows} == {"H100-SXM5-80GB"}
    assert "no batch fits T4, so H100-SXM5-80GB is 1" in shown(*words)


@pytest.mark.parametrize(
    ("cloud", "other", "name", "why"),
    [
        ("gcp", "a2-highgpu-1g", "a3-highgpu-1g", "not sold on demand (seen on 2025-09-13)"),
        ("aws", "g5.xlarge", "p3.2xlarge", "retired: AWS describes it no longer"),
        ("azure", "Standard_NC4as_T4_v3", "Standard_NC6s_v3", "Azure retired it on 2025-09-30"),
    ],
)
def test_what_nobody_can_order_is_named_before_its_price_is_compared(answer, told, cloud, other, name, why):
    """As `predict` says it; a comparison warned of nothing."""
    words = ("compare", "--task", "inference", "--model", "resnet50", "--cloud", cloud)
    words += ("--instance", other, "--instance", name)
    assert f"{name}: {why}" in told(*words)
    rows = {row["instance_type"]: str(row["warnings"]) for row in answer(*words)["rows"]}
    assert (why in rows[name], why in rows[other]) == (True, False)
