"""`advisor predict`, `compare`, `memory`, `gpus` and `networks` as a user calls them."""

import csv
import io
import json
from pathlib import Path

import pytest

from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.models.zoo.networks import NETWORKS

QUESTION = ("predict", "--task", "inference", "--model", "googlenet")


def test_the_region_and_the_terms_of_a_price_are_told(answer, shown):
    spot = (*QUESTION, "--instance", "g4dn.xlarge", "--market", "spot")
    out = shown(*spot)
    assert "us-east-1, spot" in out
    assert "interrupted within a month" in out
    assert max(map(len, out.splitlines())) <= 100
    assert answer(*spot)["region"] == "us-east-1"


def test_another_host_is_asked_about_in_the_same_words(answer, shown):
    what_if = (*QUESTION, "--instance", "g4dn.xlarge", "--vcpus", "16", "--memory", "24GiB")
    out = shown(*what_if)
    assert "as if it had 16 vCPUs (8 cores) and 24 GiB RAM" in " ".join(out.split())
    assert "no price" in out
    document = answer(*what_if)
    assert document["what_if"]["vcpus"] == {"real": 4, "asked": 16}


@pytest.mark.parametrize("gpu", ["RTX 5090", "NVIDIA GeForce RTX 3080 Laptop GPU", "T4", "h100"])
def test_a_card_by_itself_is_predicted_whoever_rents_it_out(answer, shown, gpu):
    out = shown(*QUESTION, "--gpu", gpu)
    assert "images/s (confidence 0.9)" in out
    document = answer(*QUESTION, "--gpu", gpu)
    assert document["predicted"]["throughput"]["lower"] > 0


@pytest.mark.parametrize(("gpu", "cloud"), [("RTX 4090", "aws"), ("RTX 4090", "gcp")])
def test_a_card_that_other_clouds_rent_out_is_looked_for_there(ask, gpu, cloud):
    """Who asks for one card is not helped by another one alone."""
    command = ("recommend", "--task", "inference", "--model", "resnet50", "--gpu", gpu)
    code, _, err = ask(*command, "--target-throughput", "100", "--cloud", cloud)
    assert code == 3
    assert "relax --cloud to any" in err.replace("\n  ", " ")
    assert ask(*command, "--target-throughput", "100", "--cloud", "any")[0] == 0


def test_a_card_with_a_host_of_ones_own_is_predicted_as_an_instance(ask, tmp_path, monkeypatch):
    """The way out that the refusal of a bare card names: also for what generates text."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, _, err = ask("predict", "--task", "generation", "--model", "llama-3.1-8b", "--gpu", "T4")
    assert (code, "`advisor catalog import own_machines.csv`" in err) == (2, True)
    machines = Path(__file__).parents[3] / "docs" / "examples" / "own_machines.csv"
    assert ask("catalog", "import", str(machines))[0] == 0
    named = ("--instance", "workstation", "--cloud", "lab")
    generation = ("predict", "--task", "generation", "--model", "llama-3.2-3b")
    assert ask(*generation, *named, "--disk", "local")[0] == 0
    assert ask("predict", "--task", "inference", "--model", "resnet50", *named)[0] == 0


GPUS = ("compare", "--task", "training", "--model", "resnet50,vgg16", "--gpu", "T4,L4")
RESNET = ("--task", "training", "--model", "resnet50")
INSTANCES = ("compare", *RESNET, "--instance", "g4dn.xlarge", "--instance", "g5.xlarge")


@pytest.fixture
def answer_text(shown):
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


def test_how_each_price_is_known_is_told_with_what_is_assumed(answer_text, monkeypatch):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-23")
    words = ("compare", "--task", "inference", "--model", "resnet50", "--cloud", "any")
    text = answer_text(*words, "--instance", "1x-l4.secure", "--instance", "g5.xlarge")
    assert "1x-l4.secure of runpod in global, list of" in text
    assert "g5.xlarge of aws in us-east-1, list of" in text
    assert "Assumed: 1x-l4.secure: runpod's volume disk has" in text
    assert "1x-l4.secure: the instance price is" in text


def test_an_old_price_has_the_interval_that_recommend_tells(answer, shown, answer_text, monkeypatch):
    """In JSON and in text: months after its day a price lies in a wider interval than on it."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-27")
    question = (*RESNET, "--cloud", "runpod")
    pick = answer("recommend", *question, "--gpu", "RTX 3090")["recommendation"]
    words = ("compare", *question, "--instance", pick["instance_type"], "--instance", "1x-l4.secure")
    first = answer(*words)["rows"][0]["price"]
    ends = "low_usd_per_hour", "high_usd_per_hour"
    assert [first[end] for end in ends] == [pick["price"][end] for end in ends]
    assert first["low_usd_per_hour"] < first["usd_per_hour"] < first["high_usd_per_hour"]
    assert "observed of 2026-08-22 ($0.169 to $0.407/h), estimated disk" in answer_text(*words)
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
    line = next(row_text for row_text in shown(*words).splitlines() if row_text.startswith("T4"))
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
def test_what_nobody_can_order_is_named_before_its_price_is_compared(
    answer, answer_text, cloud, other, name, why
):
    """As `predict` says it; a comparison warned of nothing."""
    words = ("compare", "--task", "inference", "--model", "resnet50", "--cloud", cloud)
    words += ("--instance", other, "--instance", name)
    assert f"{name}: {why}" in answer_text(*words)
    rows = {row["instance_type"]: str(row["warnings"]) for row in answer(*words)["rows"]}
    assert (why in rows[name], why in rows[other]) == (True, False)


OWN = """
import torch
INPUT_SHAPE = (3, 16, 16)
def build():
    print("a user's own words")
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 14 * 14, 10))
"""


@pytest.mark.slow
def test_an_own_network_is_traced_in_a_process_of_its_own(answer, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(OWN)
    document = answer("memory", "--model", f"{path}:build", "--gpu", "T4", "--input-size", "16")
    assert document["traced_on"] == "fake tensors"
    assert document["parts_mib"]["weights"] == pytest.approx(4 * 15_914 / 2**20, abs=0.001)


@pytest.mark.slow
def test_another_input_size_is_traced(answer):
    words = ("memory", "--model", "alexnet", "--gpu", "T4")
    small, own = answer(*words, "--input-size", "128"), answer(*words)
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


@pytest.mark.slow
def test_a_file_that_fails_is_told_in_one_line(said, tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def build():\n    return 3\n")
    assert "returns a int, not a torch.nn.Module" in said("memory", "--model", path)


@pytest.fixture
def rows(shown):
    """The table's rows, as a spreadsheet has them."""
    return lambda *words: list(csv.DictReader(io.StringIO(shown("gpus", *words, "-o", "csv"))))


def test_json_has_every_data_sheet_and_the_cheapest_offer(answer):
    """With prices dated; unknown values are null, never 0."""
    rows = {row["name"]: row for row in answer("gpus")["gpus"]}
    t4 = rows["T4"]
    assert t4["cheapest"]["instance_type"] == "g4dn.xlarge"
    assert t4["usd_per_gpu_hour"] == t4["cheapest"]["price"]["usd_per_hour"]
    assert t4["int8_tops"] == 130
    assert rows["TITAN V"]["usd_per_gpu_hour"] is None
    assert all(value != 0 for row in rows.values() for value in row.values())


def test_sorted_as_asked_with_unknown_values_last(rows):
    """Most memory first, cheapest first."""
    memory = [float(row["memory_mib"]) for row in rows("--sort-by", "memory_mib")]
    assert memory == sorted(memory, reverse=True)
    prices = [row["usd_per_gpu_hour"] for row in rows()]
    known = [float(price) for price in prices if price]
    assert known == sorted(known)
    assert prices[len(known) :] == [""] * (len(prices) - len(known))


def test_a_least_memory_keeps_cards_sold_with_it(rows):
    """24GiB.. is every 24 GB card, and none of 16."""
    names = {row["name"] for row in rows("--gpu", "24GiB..")}
    assert {"L4", "A10G", "RTX 3090", "A100-SXM4-80GB"} <= names
    assert not {"T4", "V100-SXM2-16GB"} & names


@pytest.fixture
def listed(answer):
    return {row["name"]: row for row in answer("networks")["networks"]}


def test_every_network_is_listed_with_its_size_and_unit(listed):
    assert set(listed) >= set(NETWORKS)
    families = [row["family"] for row in listed.values()]
    assert families == sorted(families)
    assert all(row["parameters"] > 0 and row["gmacs_per_sample"] > 0 for row in listed.values())
    lstm = listed["lstm_ptb_medium"]
    assert (lstm["unit"], lstm["samples_per_row"], lstm["input_shape"]) == ("token", 35, [35])
    assert listed["nasnetalarge"]["needs"] == "zoo"
    assert listed["cifar10_cnn"]["tasks"] == ["training", "inference"]


def test_a_rate_is_told_for_every_network(listed):
    """What others measured on some GPU with PyTorch, as ResNet-50, is more than modelled."""
    assert set(listed) == set(load_model().table.names)
    for row in listed.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)
    assert listed["resnet50"]["rates"]["inference"] == "published"


def test_the_table_has_all_networks_where_all_are_asked_for(shown):
    lines = shown("networks", "--all").splitlines()
    assert len(lines) == 1 + len(load_model().table.names)
    assert "61.95 M" in next(line for line in lines if " yolov3 " in line)


def test_without_a_search_families_are_told_in_a_screen_or_two(shown):
    *lines, last = shown("networks").splitlines()
    resnets = next(line for line in lines if line.startswith("resnet "))
    assert int(resnets.split()[1]) >= 9
    assert "families" in last
    assert "--all" in last


@pytest.mark.parametrize(
    ("search", "result"),
    [
        ("shufflenet_v2_x0", ["shufflenet_v2_x0_5"]),
        ("ShuffleNet_V2_X?_0", ["shufflenet_v2_x1_0", "shufflenet_v2_x2_0"]),
        ("advisor/bert_base*", ["bert_base", "bert_base_squad"]),
        ("yolov5[sm]", ["yolov5m", "yolov5s"]),
    ],
)
def test_a_search_is_a_part_or_a_pattern_of_a_name(answer, search, result):
    assert [row["name"] for row in answer("networks", search)["networks"]] == result


def test_without_a_performance_model_the_list_still_comes(ask, monkeypatch):
    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.answering.load_model", damaged)
    code, out, err = ask("networks", "-o", "json")
    assert (code, "damaged" in err) == (0, True)
    assert all(rate is None for row in json.loads(out)["networks"] for rate in row["rates"].values())
