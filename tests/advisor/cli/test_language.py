"""The commands about language models and about services, with what is bundled."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.advisor.render.sizing.reports import validator
from tests.corpus.recording import document_of

MIX = "input_tokens,output_tokens\n" + 6 * "2000,200\n" + 4 * "60000,200\n"


def test_requests_that_are_too_long_for_the_model_are_a_warning(answer, shown, tmp_path):
    file = tmp_path / "mix.csv"
    file.write_text(MIX)
    words = ["--model", "Qwen/Qwen3-8B", "--traffic", str(file), "--task", "generation"]
    ask = ["recommend", *words, "--users", "10"]
    warned = answer(*ask)["warnings"]
    share = "40 % of the requests of mix.csv are longer than the 40,960 tokens that are served"
    assert any(share in text for text in warned)
    assert "40 % of the requests of mix.csv" in " ".join(shown(*ask).split())
    served = answer("predict", *words, "--users", "2", "--instance", "p4d.24xlarge")
    assert any(share in text for text in served["warnings"])
    shorter = answer(*ask, "--max-context", "30000")["warnings"]
    assert any("the 30,000 tokens that are served" in text for text in shorter)
    file.write_text(MIX.replace("60000", "600000"))
    shown(*ask, code=2)


FP8 = Path(__file__).parents[2] / "data" / "llama_fp8_config.json"


def test_a_checkpoint_with_fp8_keys_and_values_is_served_with_them_and_its_folder_is_mounted(
    answer, shown, tmp_path
):
    config = tmp_path / "mine.json"
    config.write_text(FP8.read_text())
    words = ["recommend", "--task", "generation", "--config", str(config), "--users", "8"]
    result = answer(*words)
    serving = result["recommendation"]["serving"]
    assert (serving["model"], serving["precision"], serving["kv_precision"]) == ("mine", "fp8", "fp8")
    assert "a KV cache in fp8" in result["assumptions"]
    text = shown(*words, "--export", "compose")
    assert "Name a checkpoint" not in text
    assert "vLLM reads config.json: call mine.json so in its folder." in text
    sixteen = shown(*words, "--kv-precision", "bf16", "--export", "compose")
    for started, kept in ((text, "fp8"), (sixteen, "bfloat16")):
        (service, *_) = yaml.safe_load(started)["services"].values()
        command = service["command"]
        assert command[command.index("--kv-cache-dtype") + 1] == kept
    memory = answer("memory", *words[1:5], "--gpu", "H100")
    assert memory["request"]["kv_precision"] == "fp8"
    config.rename(tmp_path / "config.json")
    text = shown(*words[:4], str(tmp_path), *words[5:], "--export", "compose")
    assert f"{tmp_path}:/model:ro" in text
    assert "vLLM reads" not in text


CHAT = "recommend --task generation --model Llama-3.1-8B --users 40 --max-tpot-ms 50"
LARGE = "--task generation --model meta-llama/Llama-3.1-70B --precision fp8 --target-requests-per-s 2"


def test_a_gamble_is_told_its_cures_and_a_named_instance_is_under_the_load_that_is_asked_for(
    answer, shown, stderr
):
    """A format that makes the same instance sure, and more of the same; times as the choice has them."""
    result, brief = answer(*CHAT.split()), " ".join(shown(*CHAT.split()).split())
    chosen = result["recommendation"]
    sure = result["request"]["confidence"]
    assert chosen["probability"] < sure
    kin = [each for each in result["alternatives"] if each["instance_type"] == chosen["instance_type"]]
    assert [each["count"] for each in kin] == [2]
    assert kin[0]["probability"] >= sure
    assert "or take 2 x g6e.xlarge (L40S)" in brief
    assert next(step for step in result["serving"]["steps"])["gives"]["probability"] >= sure
    assert "or with --precision fp8: this instance, 97 % sure" in brief
    assert "mean TPOT 45.9 ms (limit 50; 90 % sure of at most 54.7)" in brief.replace("\u00a0", " ")
    assert "$0.60 per million output tokens" in brief
    assert "(--explain)" in brief[brief.index(" trial ") : brief.index(" safe ")]
    words = [*LARGE.split(), "--input-tokens", "3000", "--output-tokens", "400"]
    best = answer("recommend", *words)["recommendation"]
    named = answer("predict", *words, "--instance", best["instance_type"])
    predicted, chosen = (each["serving"]["rates"]["tpot_seconds"] for each in (named, best))
    assert predicted == pytest.approx(chosen)
    assert any("below 2" in text for text in named["warnings"])
    assert "of 'gpt-4o' are not published" in stderr(*CHAT.replace("Llama-3.1-8B", "gpt-4o").split())
    assert "takes one limit" in stderr(*CHAT.replace("ms 50", "ms p95:40,p99:80").split())
    dear = answer(*CHAT.replace("40", "1000").split(), "--traffic", "code", "--max-count", "20")
    assert any("1,000 users without a pause are" in text for text in dear["warnings"])


def test_the_nearest_spec_misses_its_limits_by_the_least_together_and_names_each():
    """Eight small instances cost more than one of eight H100, and are forty times too slow."""
    words = "recommend --task generation --model llama-3.1-70b --target-requests-per-s 10 --max-price 10"
    nearest = document_of([*words.split(), "--max-ttft-ms", "p99:300"])["nearest"]
    assert (nearest["instance_type"], nearest["count"]) == ("p5.48xlarge", 1)
    assert nearest["serving"]["rates"]["requests_per_second"]["median"] == pytest.approx(10)
    assert [re.findall(r"above (.*?)(?: \(|$)", str(text)) for text in nearest["misses"]] == [
        ["300 ms"],
        ["$10.00/h"],
    ]


def test_figures_of_fewer_users_than_the_question_has_say_so_and_name_the_limit_that_binds(shown):
    """The KV cache has room for hundreds: it is the time per token that allows few."""
    text = shown(
        *CHAT.replace("recommend", "predict").replace("40", "1000").split(), "--instance", "p5.4xlarge"
    )
    (served,) = re.findall(r"  misses +serves (\d+) of 1,000 users within --max-tpot-ms 50\n", text)
    assert int(served) < 300
    for title in ("throughput", "TTFT", "TPOT", "end to end"):
        assert re.search(rf"^  {title} .*?; at\s+{served} of 1,000 users$", text, re.MULTILINE | re.DOTALL)


def test_instances_that_serve_unlike_numbers_of_users_have_no_ratio(shown):
    """Each row names its users in place of the ratio."""
    text = shown(*CHAT.replace("recommend", "compare").split(), "--instance", "g5.xlarge,p5.4xlarge")
    assert "x: rate" not in text
    assert re.search(r"^  g5\.xlarge .* \d+ of 40 ", text, re.MULTILINE)
    assert "\nCheapest that surely does it: p5.4xlarge, " in text


@pytest.mark.parametrize("load", ["--users 40", "--target-throughput 2000"])
def test_where_nothing_keeps_any_limit_the_nearest_is_no_cheap_spec_that_misses_all_by_far(load):
    """Users above what memory holds, and a load of the grid, are compared by their times too."""
    words = f"recommend --task generation --model llama-3.1-8b {load} --max-ttft-ms 20 --max-tpot-ms 3"
    document = document_of(words.split())
    nearest, ways = document["nearest"], document["relax"]
    assert nearest["instance_type"] == ways[0]["gives"]["instance_type"] == "p6-b200.48xlarge"
    assert nearest["serving"]["rates"]["tpot_seconds"]["median"] < 0.005
    assert all(float(re.search(r"is ([\d.]+) ms", text)[1]) > 3 for text in nearest["misses"])


def test_a_limit_on_the_number_of_instances_that_nobody_asked_for_is_no_silent_cost():
    """More than eight of a smaller type are named where they are safe for clearly less."""
    words = shlex.split("recommend --task generation --model llama-3.1-8b --users 1000 --max-tpot-ms p95:38")
    decision = document_of(words)["decision"]
    safe, more = decision["safe"], decision["beyond_count"]
    assert more["count"] == 10
    assert more["probability"] >= 0.9
    assert more["total_usd_per_hour"] < 0.95 * safe["total_usd_per_hour"]
    assert f"--max-count 10: 10 x {more['instance_type']}, $68.82/h, 95 % sure" in decision["sentences"]
    allowed = document_of([*words, "--max-count", "10"])["decision"]
    assert (allowed["safe"]["instance_type"], allowed["safe"]["count"]) == (more["instance_type"], 10)
    assert allowed["beyond_count"] is None


def test_one_length_of_requests_takes_the_other_of_chats():
    words = shlex.split("recommend --task generation --model llama-3.1-8b --users 5")
    lengths = [
        [document_of([*words, *more])["request"][f"{way}_tokens"] for way in ("input", "output")]
        for more in ((), ("--output-tokens", "300"), ("--input-tokens", "2000"))
    ]
    (prompt, reply), *others = lengths
    assert others == [[prompt, 300], [2000, reply]]


PLAN = """
title: Mixed team
defaults: {region: us-east-1}
workloads:
  - {name: Thumbnails, task: inference, model: googlenet, target_throughput: 500, gpu: T4}
  - {name: Chat, task: generation, model: meta-llama/Llama-3.1-8B, users: 40, gpu: "L4,L40S"}
  - {name: Tuning, task: finetuning, model: meta-llama/Llama-3.1-8B, tokens: 1e6, gpu: L40S}
"""


def test_a_plan_takes_networks_and_language_models_side_by_side(shown, tmp_path):
    (plan := tmp_path / "plan.yaml").write_text(PLAN)
    report = json.loads(shown("report", "--plan", plan, "--date", "2026-11-22", "--format", "json"))
    validator().validate(report)
    sections = report["workloads"]
    units = [section["answer"]["spec"]["unit"] for section in sections]
    assert units == ["images/s", "output tokens/s", "tokens/s"]
    assert all(each["complete"] and each["costs"]["choices"] and each["regions"] for each in sections)
    # The tuning ends: its hour is no part of what is kept running.
    kept = [section["answer"]["spec"]["usd_per_hour"] for section in sections[:2]]
    assert report["totals"]["usd_per_hour"] == pytest.approx(sum(kept))
    run = sections[2]["recommendation"]["recommendation"]["run"]["usd"]["median"]
    assert report["totals"]["run_usd"] == pytest.approx(run)
    served = sections[1]["answer"]["spec"]
    cost = sections[1]["recommendation"]["recommendation"]["cost"]["usd_per_million_output_tokens"]
    assert served["usd_per_million_samples"] == pytest.approx(cost["median"])
    assert len(report["reproducibility"]["language_predictors"]) == 2


ON = (*shlex.split("--instance p6-b200.48xlarge --max-gpus 1 --precision amp --batch-size 2"),)


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        (60, "sdxl"),
        (60, "sdxl --guidance"),
        (30, "sdxl --no-guidance"),
        (40, "stable-diffusion-1.5 --steps 20"),
        (4, "pixart-alpha --steps 4 --no-guidance"),
        (60, "stable-diffusion-3-medium"),
        (30, "flux.1-dev"),
        (60, "flux.1-dev --guidance"),
    ],
)
def test_an_image_takes_as_long_as_its_passes(answer, words, passes):
    model, *options = words.split()
    once, image = (
        answer("predict", "--task", "inference", "--model", model, *ON, *more)
        for more in (("--steps", "1", "--no-guidance"), options)
    )
    for bound in ("lower", "median", "upper"):
        rates = (each["predicted"]["throughput"][bound] for each in (once, image))
        assert next(rates) / next(rates) == pytest.approx(passes, rel=0.02)
    costs = [each["cost"]["usd_per_million_samples"] for each in (once, image)]
    assert costs[1] / costs[0] == pytest.approx(passes, rel=0.02)
    rows = [each["by_batch"][0]["latency"]["p50_ms"] for each in (once, image)]
    assert 0.5 * passes < rows[1] / rows[0] <= passes * 1.01
    dataset = image["request"]["dataset"]
    assert (dataset["sample"], dataset["steps"] * (1 + dataset["guidance"])) == ("image", passes)
    assert any(f"({passes} passes)" in assumption for assumption in image["assumptions"])


@pytest.mark.parametrize(
    ("model", "task", "is_said"),
    [
        ("whisper-large-v3", "inference", True),
        ("t5-base", "inference", True),
        ("t5-base", "training", False),
        ("bert-base-uncased", "inference", False),
    ],
)
def test_a_pass_over_a_sequence_never_passes_for_writing_text(answer, model, task, is_said):
    assumed = answer("recommend", "--task", task, "--model", model)["assumptions"]
    assert any("writing text takes a pass a token" in clause for clause in assumed) == is_said


def test_a_model_that_keeps_nothing_of_a_token_and_names_no_longest_context_is_sized(answer, tmp_path):
    config = tmp_path / "mamba.json"
    sizes = {"hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50280, "state_size": 16}
    config.write_text(json.dumps({"model_type": "mamba", "time_step_rank": 160, **sizes}))
    words = ("--task", "generation", "--config", str(config))
    best = answer("recommend", *words, "--users", "4")["recommendation"]
    assert best["serving"]["memory_per_gpu"]["longest_context"] == 100_000_000
    assert answer("memory", *words, "--gpu", "L4")["gpus"][0]["fits"]
