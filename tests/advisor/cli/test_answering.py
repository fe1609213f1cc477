"""`advisor predict`, `compare`, `memory`, `gpus` and `networks` as a user calls them."""

import json

import pytest

from advisor.errors import DataError
from advisor.models.performance import load_model
from advisor.units import format_rate

RESNET = ("--task", "training", "--model", "resnet50")


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


@pytest.mark.slow
def test_another_input_size_is_traced(answer):
    words = ("memory", "--model", "alexnet", "--gpu", "T4")
    small, own = answer(*words, "--input-size", "128"), answer(*words)
    assert small["parts_mib"]["activations"] < own["parts_mib"]["activations"]


@pytest.fixture
def listed(answer):
    return {row["name"]: row for row in answer("networks")["networks"]}


def test_a_rate_is_told_for_every_network_and_the_list_comes_without_a_performance_model(
    listed, ask, monkeypatch
):
    """What others measured on some GPU with PyTorch, as ResNet-50, is more than modelled."""
    assert set(listed) == set(load_model().table.names)
    for row in listed.values():
        assert set(row["rates"]) == {"training", "inference"}
        assert None not in row["rates"].values()
        for task, rate in row["rates"].items():
            assert (rate == "published") == (row["gpus_measured"][task] > 0)
    assert listed["resnet50"]["rates"]["inference"] == "published"

    def damaged():
        raise DataError("the model is damaged; install the package again")

    monkeypatch.setattr("advisor.cli.answering.load_model", damaged)
    code, out, err = ask("networks", "-o", "json")
    assert (code, "damaged" in err) == (0, True)
    assert all(rate is None for row in json.loads(out)["networks"] for rate in row["rates"].values())


INFER = ("--task", "inference", "--model", "resnet50")


def test_an_instance_is_held_against_the_limits_of_the_question(answer, shown):
    ask = [*INFER, "--target-throughput", "1000", "--max-latency-ms", "50"]
    best = answer("recommend", *ask)["recommendation"]
    one = best["instance_type"]
    alone = answer("predict", *ask, "--instance", one)
    assert alone["batch_size"] == best["batch_size"]
    assert not [text for text in alone["warnings"] if "misses" in text]
    both = answer("compare", *ask, "--max-price", "0.6", "--instance", f"{one},g4dn.xlarge")
    dear, slow = both["rows"]
    assert dear["batch_size"] == best["batch_size"]
    assert any("is above $0.600/h" in text for text in dear["warnings"])
    assert any("below 1,000/s" in text for text in slow["warnings"])
    assert "\n  misses      its median is" in shown("predict", *ask, "--instance", "g4dn.xlarge")


def test_the_users_own_data_may_have_another_number_of_samples(answer):
    ask = ("predict", *RESNET, "--instance", "g5.xlarge", "--epochs", "10")
    few = answer(*ask, "--dataset-samples", "50k")
    assert few["run"]["samples"] == 500_000
    assert few["request"]["dataset"]["samples"] == 50_000
    assert few["run"]["hours"]["median"] < answer(*ask)["run"]["hours"]["median"] / 10


SERVED = ("--task", "generation", "--users", "20", "--model")


def test_a_start_file_serves_the_formats_checkpoint_and_what_drafts_stands_in_the_answer(shown):
    known = shown("recommend", *SERVED, "Qwen/Qwen3-32B", "--precision", "fp8", "--export", "skypilot")
    assert "vllm serve Qwen/Qwen3-32B-FP8 " in known
    base = shown(
        "recommend", *SERVED, "meta-llama/Llama-3.1-8B", "--precision", "fp8", "--export", "skypilot"
    )
    assert "vllm serve meta-llama/Llama-3.1-8B " in base
    assert "instruction-tuned model: nvidia/Llama-3.1-8B-Instruct-FP8" in base
    ask = ("recommend", *SERVED, "meta-llama/Llama-3.1-70B", "--max-tpot-ms", "22", "--explain")
    text = shown(*ask, "--draft-model", "meta-llama/Llama-3.1-8B", "--draft-acceptance", "0.7,4")
    words = " ".join(text.split())
    assert words.count("4 tokens a step drafted by meta-llama/Llama-3.1-8B") == 2  # runs, and assumed


def test_loads_have_the_percentile_that_is_limited(answer, shown):
    ask = ("recommend", *SERVED, "meta-llama/Llama-3.1-8B", "--max-ttft-ms", "p99:2000")
    document, text = answer(*ask), shown(*ask, "--explain")
    assert "p99 TTFT ms" in text
    assert "(limit 2 s)" in text
    for point in document["serving"]["front"]:
        told = format_rate(1000 * point["percentiles"]["ttft_seconds"]["p99"]["median"])
        assert f" {told} " in text
    assert "--max-ready-s" not in text  # nobody asked how soon it serves
