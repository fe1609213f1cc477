"""The answer that a person reads first: at most twelve lines, of every task."""

from pathlib import Path

import pytest

from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[2] / "golden" / "brief"
ANSWERS = {
    "inference": "--task inference --model resnet50 --target-throughput 2000",
    "inference-latency": "--task inference --model yolov8s --target-throughput 200 --max-latency-ms 50",
    "inference-any-cloud": "--task inference --model googlenet --target-throughput 500 --cloud any",
    "inference-fp32": "--task inference --model vit_b_16 --precision fp32",
    "training": "--task training --model resnet50",
    "training-run": "--task training --model bert-base-uncased --epochs 3 --max-hours 24",
    "training-spot": "--task training --model resnet50 --epochs 90 --market spot",
    "preprocessing": "--task preprocessing --model resnet50 --target-throughput 1000",
    "generation": "--task generation --model meta-llama/Llama-3.1-8B --users 40 --max-ttft-ms 1000",
    "generation-offline": "--task generation --model Qwen/Qwen3-8B",
    "finetuning": "--task finetuning --model Qwen/Qwen3-8B --tokens 5e7 --method qlora",
    "finetuning-hours": "--task finetuning --model meta-llama/Llama-3.1-8B --tokens 2e7 --max-hours 3",
}


@pytest.mark.vector
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_at_most_twelve_lines_and_changes_only_when_we_mean_it(shown, name):
    text = shown("recommend", *ANSWERS[name].split())
    assert len(text.splitlines()) <= 12
    assert max(map(len, text.splitlines())) <= 100
    assert_golden_text(GOLDEN / f"{name}.txt", text)


def test_everything_else_stands_under_explain(shown):
    words = ("recommend", *ANSWERS["generation"].split())
    brief, whole = shown(*words), shown(*words, "--explain")
    assert brief.splitlines()[0] in whole
    assert "Alternatives" in whole
    assert "Assumptions" in whole
    assert max(map(len, whole.splitlines())) <= 100


@pytest.mark.parametrize("words", ["", "--task generation", "--task finetuning", "--task training"])
def test_help_is_one_screen_of_what_people_use(shown, words):
    text = shown("recommend", *words.split(), "--help")
    assert len(text.splitlines()) <= 45
    assert ("--users NUMBER" in text) == ("generation" in words)
    assert "--max-price" in text
    everything = shown("recommend", "--help-all")
    assert all(line in everything for line in ("--users", "--tensor-parallel", "--max-first-epoch-hours"))
