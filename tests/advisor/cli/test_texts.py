"""What people read: each text is a golden file, which changes only when we mean it."""

import shlex
from pathlib import Path

import pytest

from tests.alike import assert_golden_text

GOLDEN = Path(__file__).parents[2] / "golden"
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
COMMANDS = {
    # Prices: how each is known, what is assumed, which currency has no rate, who cannot be ordered from.
    "list-of-a-gpu": "catalog list --cloud aws --region us-east-1 --gpu T4",
    "list-of-all-clouds": "catalog list --cloud any --gpu H100",
    "list-with-missing-facts": "catalog list --cloud azure --gpu K80",
    "list-with-assumed-cores": "catalog list --cloud runpod --instance 1x-l4.secure",
    "list-with-euros": "catalog list --cloud ovh",
    "list-of-nothing": "catalog list --cloud runpod --market spot",
    "type": "catalog show g4dn.xlarge --market spot",
    "type-with-assumed-facts": "catalog show Standard_NC24ads_A100_v4",
    "type-with-missing-facts": "catalog show standard_nc6_promo",
    "type-with-another-accelerator": "catalog show inf2.xlarge",
    "type-that-is-closed": "catalog show a3-highgpu-1g",
    "disks": "catalog disks",
    "disk-with-a-burst": "catalog disks gp2:100GiB --region us-east-1",
    "disk-that-is-assumed": "catalog disks volume --cloud runpod",
    "sources": "catalog sources",
    "origins": "catalog sources --origins",
    # GPUs and networks.
    "gpus": "gpus",
    "gpus-by-memory": "gpus --gpu 24GiB.. --sort-by memory_mib",
    "families": "networks",
    "networks": "networks 'yolov5[sm]'",
    "language-models": "networks --task generation qwen3",
    # One instance, or a GPU by itself.
    "spot": "predict --task inference --model googlenet --instance g4dn.xlarge --market spot",
    "what-if": "predict --task inference --model googlenet --instance g4dn.xlarge --vcpus 16 --memory 24GiB",
    "gpu": "predict --task inference --model googlenet --gpu 'RTX 5090'",
    "closed": "predict --task inference --model resnet50 --instance a3-highgpu-1g",
    "diffusion": "predict --task inference --model sdxl --instance g6e.xlarge --steps 20 --no-guidance",
    "sound": "predict --task inference --model whisper-small --gpu A10G",
    "waveform": "predict --task inference --model wav2vec2-base-960h --gpu A10G",
    "video": "predict --task inference --model timesformer-base-finetuned-k400 --gpu A10G",
    "namesake": "predict --task inference --model resnet-50 --instance g5.xlarge",
    "alias": "recommend --task inference --model yolov8 -o md",
    "longer-input": "recommend --task training --model bert-base-uncased --precision amp --input 384",
    # Several of them.
    "prices": "compare --task inference --model resnet50 --cloud any --instance 1x-l4.secure,g5.xlarge",
    "old-prices": "compare --task training --model resnet50 --cloud runpod"
    " --instance 1x-l4.secure,1x-rtx-3090.community",
    "retired": "compare --task inference --model resnet50 --instance g5.xlarge,p3.2xlarge",
    "hosts": "compare --task preprocessing --model resnet50 --instance c5.xlarge,c5.2xlarge",
    "no-batch": "compare --task training --model resnet50,vgg16 --gpu T4,L4 --batch-size 256"
    " --baseline RTX8000",
    "another-baseline": "compare --task training --model vit_large_patch16_224 --precision amp"
    " --batch-size 64 --gpu T4,H100-SXM5-80GB,B200-SXM-180GB",
    "names": "compare --task inference --model bert,yolov8 --precision amp --instance g5.xlarge,g6.xlarge",
}
# Tables of networks, GPUs and comparisons are as wide as they have to be.
FIT_A_TERMINAL = ("catalog", "predict")


@pytest.mark.vector
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_at_most_twelve_lines(shown, name):
    text = shown("recommend", *ANSWERS[name].split())
    assert len(text.splitlines()) <= 12
    assert max(map(len, text.splitlines())) <= 100
    assert_golden_text(GOLDEN / "brief" / f"{name}.txt", text)


@pytest.mark.vector
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_its_golden_text_and_a_document_of_its_schema(shown, answer, monkeypatch, name):
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-28")
    words = shlex.split(COMMANDS[name])
    text = shown(*words)
    assert words[0] not in FIT_A_TERMINAL or max(map(len, text.splitlines())) <= 100
    assert_golden_text(GOLDEN / "commands" / f"{name}.txt", text)
    answer(*words)


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
