"""What somebody who tunes a language model reads, and what of it agrees with other commands."""

import json
import re

import pytest

TUNE = "recommend --task finetuning --tokens 50M --model"
LARGE = f"{TUNE} llama-3.1-70b --method qlora --max-hours 24"
ANY_CLOUD = f"{TUNE} llama-3.1-8b --method lora --max-hours 24 --cloud any --gpu L40S"


@pytest.fixture
def brief(shown):
    """Ask a question; returns the short answer in one line."""
    return lambda words, *more: " ".join(shown(*words.split(), *more).split())


@pytest.mark.parametrize(
    "words", ["Qwen/Qwen3-8B", "llama-3.1-70b --max-gpus 1", "llama-3.1-70b --cloud any"]
)
def test_qlora_is_always_said_to_be_unmeasured_and_its_evidence_is_weak(brief, answer, words):
    text = brief(f"{TUNE} {words} --method qlora")
    assert "weak evidence" in text
    assert re.search("qlora.* never measured", text.partition("based on")[2])
    assert answer(*f"{TUNE} {words} --method qlora".split())["recommendation"]["risk"] >= 3
    assert "qlora" not in brief(f"{TUNE} {words} --method lora").partition("based on")[2]


def test_the_dollars_of_a_bound_are_its_hours_at_the_price_shown(answer, brief, shown):
    """The range of the price itself has a line; a report's sums agree."""
    spec = answer(*ANY_CLOUD.split())["recommendation"]
    run, price = spec["run"], spec["price"]
    assert price["total_low_usd_per_hour"] < price["total_high_usd_per_hour"]
    assert run["usd"]["upper"] == pytest.approx(run["hours"]["upper"] * price["total_usd_per_hour"])
    bound = f" and, at the price of {price['as_of']}, ${run['usd']['upper']:.2f}"
    assert bound in brief(ANY_CLOUD)
    report = json.loads(shown("report", *ANY_CLOUD.split()[1:], "--format", "json"))
    assert report["totals"]["safe"]["run_usd"] == pytest.approx(run["usd"]["upper"])


@pytest.mark.parametrize(
    ("model", "instance", "binds"),
    [
        ("llama-3.1-8b", "g6e.xlarge", "GPU"),
        ("llama-3.1-8b", "g6e.12xlarge", "GPUs"),
        ("llama-3.1-70b", "g6e.48xlarge", "the links between the GPUs"),
    ],
)
def test_links_bind_only_where_they_take_longer_than_the_gpus(answer, shown, model, instance, binds):
    words = f"--task finetuning --method lora --tokens 50M --model {model} --instance {instance}".split()
    text = shown("predict", *words)
    assert f"bound by    {binds}\n" in text
    assert (answer("predict", *words)["tuning"]["bound_by"] == "links") == ("links" in binds)


def test_the_parts_of_a_start_add_up_and_nothing_is_said_of_no_loading(shown, answer):
    words = LARGE.replace("recommend", "predict").replace(" --max-hours 24", "").split()
    loaded = " ".join(answer(*words, "--instance", "2B200.60V", "--cloud", "verda")["assumptions"])
    assert "a start of 33 min counted (--start-minutes): 10 to boot, 23 to store and read" in loaded
    at_once = shown(*words, "--instance", "p5.48xlarge")
    assert "a start of 10 min counted" in at_once
    assert " 0 " not in at_once.partition("Assumptions")[2]


def test_what_cannot_be_asked_has_a_way_on(stderr):
    words = f"{TUNE} llama-3.1-8b --method lora".split()
    assert "the rank is fixed at 16" in stderr(*words, "--lora-rank", "64")
    assert "--max-hours limits a run" in stderr(*words, "--hours", "12")


@pytest.mark.parametrize(
    ("words", "format"),
    [
        ("--task finetuning --model llama-3.1-8b --tokens 50M", None),
        ("--task generation --model llama-3.1-8b --users 4", "terraform"),
        ("--task generation --model llama-3.1-8b --users 4 --engine sglang", None),
        ("--task inference --model resnet50 --cloud gcp", "skypilot"),
        ("--task inference --model resnet50 --cloud verda", None),
    ],
)
def test_a_report_names_only_a_start_file_that_is_not_refused(shown, stderr, words, format):
    text = shown("report", *words.split(), "--format", "md")
    assert "On the day you rent" in text
    assert ("Add --export" in text) == (format is not None)
    if format:
        assert f"--export {format}" in text
        shown("recommend", *words.split(), "--export", format)
    else:
        stderr("recommend", *words.split(), "--export", "terraform")


def test_counts_are_echoed_as_people_write_them(brief):
    text = brief(f"{TUNE} llama-3.1-70b --method lora --tokens 2B --max-gpus 1 --micro-batch 1")
    assert "2B tokens in all" in text
    assert "at most 1 of its GPUs" in text
    assert "micro-batch 1" in text


METHODS = (
    "compare --task finetuning --model qwen3-8b --tokens 50M --method full,lora,qlora --instance g6e.xlarge"
)


def test_methods_are_compared_side_by_side_and_one_that_fits_nowhere_says_why(shown, answer):
    """Each method costs what `predict` says of it."""
    text = shown(*METHODS.split())
    assert [re.findall(rf"g6e.xlarge .* {method} ", text) != [] for method in ("full", "lora", "qlora")] == [
        True
    ] * 3
    assert text.count("Assumed") == 1
    assert "method full: g6e.xlarge cannot tune Qwen/Qwen3-8B" in text
    document = answer(*METHODS.split())
    costs = {row["tuning"]["method"]: row["run"]["usd"]["median"] for row in document["rows"]}
    assert list(costs) == ["lora", "qlora"]
    assert [each["instance_type"] for each in document["cannot"]] == ["g6e.xlarge"]
    alone = METHODS.replace("compare", "predict").replace("full,lora,qlora", "lora").split()
    assert costs["lora"] == pytest.approx(answer(*alone)["run"]["usd"]["median"])
    assert "lora,g6e.xlarge" in shown(*METHODS.split(), "-o", "csv")
    shown(*METHODS.replace("full,lora,qlora", "full").split(), code=2)


def test_a_micro_batch_that_does_not_fit_names_the_one_that_does(stderr, shown):
    words = "predict --task finetuning --model Qwen/Qwen3-8B --sequence 16384 --instance p5.4xlarge"
    assert "it fits with --micro-batch 1" in stderr(*words.split(), "--micro-batch", "4")
    shown(*words.split(), "--micro-batch", "1")


def test_the_memory_of_tuning_explains_its_columns(shown):
    words = "memory --task finetuning --model llama-3.1-70b --method qlora --gpu L40S,B200"
    text = shown(*words.split())
    assert "on the fewest of 1, 2, 4 or 8 GPUs that hold the run" in text
    assert "the fastest micro-batch that fits, not the largest" in text


def test_a_far_smaller_machine_that_keeps_the_limits_is_named_and_a_large_one_says_what_it_takes(
    brief, answer
):
    text = brief(LARGE)
    pick = answer(*LARGE.split())["recommendation"]
    small = "p5.4xlarge (1 x H100) $6.880/h"
    assert small in text
    assert pick["price"]["total_usd_per_hour"] > 5 * 6.88
    assert "P=192 vCPUs: new AWS accounts have few; ask for more, or a capacity block (--quota)" in text
    assert "capacity block" not in brief(f"{TUNE} llama-3.1-8b")
    assert "capacity block" not in brief(f"{LARGE} --cloud any")


GAMBLE = f"{TUNE} llama-3.1-8b --method lora"


def test_a_gamble_names_the_limits_that_the_same_machine_surely_keeps(brief, answer):
    text = brief(f"{GAMBLE} --max-hours 1.5 --max-cost 10")
    assert "only 54 % sure" in text
    loosened = "--max-hours 1.74 --max-cost 12"
    assert f"with {loosened} this one is 90 % sure" in text
    first, surer = (
        answer(*f"{GAMBLE} {limits}".split())["recommendation"]
        for limits in ("--max-hours 1.5 --max-cost 10", loosened)
    )
    assert first["instance_type"] == surer["instance_type"]
    assert surer["probability"] >= 0.9
    assert "with --max-cost 16 this one is 90 % sure" in brief(f"{GAMBLE} --max-hours 1.5 --max-cost 15")


def test_a_run_that_no_instance_makes_in_time_is_not_called_impossible(shown):
    words = f"{TUNE} llama-3.1-70b --method full --max-hours 0.5".split()
    assert "assumed     one instance tunes: several that share a run are not modelled" in shown(
        *words, code=3
    )
