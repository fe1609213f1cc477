"""Draws the corpus' questions, as words of a command line: over all tasks, clouds, markets, limits.

Half of the limits are drawn so tight that nothing answers; a refusal is a question that nobody can mean. The
questions stand in `questions.jsonl`, so that every build is asked the same."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

Words = list[str]
NETWORKS = (
    "alexnet",
    "googlenet",
    "inception_v3",
    "resnet50",
    "resnet152",
    "vgg16",
    "bert",
    "vit_b_16",
    "yolov8",
    "unet",
    "efficientnet_b0",
    "mobilenet_v2",
    "densenet121",
    "swin_t",
    "lstm_ptb",
)
LANGUAGE_MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-8B",
    "mistralai/Mistral-7B-v0.3",
    "google/gemma-2-9b",
    "deepseek-ai/DeepSeek-V3",
)
CLOUDS = ("aws", "aws", "gcp", "azure", "alibaba", "lambda", "runpod", "oci", "any")
MARKETS = ("on-demand", "on-demand", "on-demand", "spot", "commitment-1y", "any")
INSTANCES = ("g4dn.xlarge", "g5.2xlarge", "g6.xlarge", "g6e.xlarge", "c7i.4xlarge", "p5.48xlarge")
GPUS = ("T4", "L4", "A10G", "T4,L4", "24GiB..", "cc8.0..", "H100", "V100-SXM2-16GB")


def between(draw: random.Random, low: float, high: float) -> str:
    """A number between two, evenly in its logarithm, to six digits."""
    return f"{math.exp(draw.uniform(math.log(low), math.log(high))):.6g}"


def questions(seed: int, count: int) -> Iterator[Words]:
    """`count` questions: recommendations of all tasks, predictions, comparisons, memory."""
    draw = random.Random(seed)
    kinds: list[tuple[int, Callable[[random.Random], Words]]] = [
        (9, _network),
        (4, _generation),
        (2, _finetuning),
        (2, _predict),
        (1, _compare),
        (1, _memory),
    ]
    makers = [make for weight, make in kinds for _ in range(weight)]
    for number in range(count):
        yield makers[number % len(makers)](draw)


def _network(draw: random.Random) -> Words:
    task = draw.choice(("training", "inference", "inference", "preprocessing"))
    words = ["recommend", "--task", task, "--model", draw.choice(NETWORKS)]
    words += _place(draw)
    if draw.random() < 0.7:
        words += ["--target-throughput", between(draw, 5, 3e4)]
    words += _some(draw, 0.3, "--precision", ("fp32", "amp", "bf16"))
    words += _some(draw, 0.15, "--batch-size", ("1", "16", "64"))
    words += _some(draw, 0.15, "--gpu", GPUS)
    if "aws" in words:
        words += _some(draw, 0.15, "--disk", ("gp3", "local", "gp3:500GiB", "io2"))
    words += _some(draw, 0.1, "--dataset", ("cifar10", "coco"))
    if draw.random() < 0.2:
        words += ["--max-price", between(draw, 0.05, 40)]
    if task == "inference" and draw.random() < 0.25:
        words += ["--max-latency-ms", between(draw, 1, 2000)]
    if task == "inference":
        words += _some(draw, 0.2, "--max-count", ("4", "16"))
    if task == "training":
        if draw.random() < 0.4:
            words += ["--epochs", draw.choice(("1", "10", "90"))]
            words += _limit(draw, 0.3, "--max-hours", 0.1, 200)
            words += _limit(draw, 0.3, "--max-cost", 0.5, 2000)
        words += _some(draw, 0.1, "--max-nodes", ("2", "8"))
        words += _some(draw, 0.1, "--stack", ("compile",))
    flags = ("--explain", "--pareto")
    return words + _answer(draw) + [flag for flag in flags if draw.random() < 0.1]


def _generation(draw: random.Random) -> Words:
    words = ["recommend", "--task", "generation", "--model", draw.choice(LANGUAGE_MODELS)]
    words += _place(draw)
    load = draw.choice(("--users", "--target-requests-per-s", "--target-throughput", ""))
    if load == "--users":
        words += [load, str(draw.randint(1, 400))]
    elif load:
        words += [load, between(draw, 0.2, 60) if "requests" in load else between(draw, 50, 2e4)]
    words += _some(draw, 0.5, "--traffic", ("chat", "code", "summary"))
    words += _limit(draw, 0.4, "--max-ttft-ms", 20, 5000)
    words += _limit(draw, 0.4, "--max-tpot-ms", 3, 200)
    words += _some(draw, 0.2, "--precision", ("fp8", "int4-awq"))
    words += _some(draw, 0.2, "--max-count", ("8",))
    return words + _answer(draw)


def _finetuning(draw: random.Random) -> Words:
    words = ["recommend", "--task", "finetuning", "--model", draw.choice(LANGUAGE_MODELS[:5])]
    words += [*_place(draw), "--tokens", between(draw, 1e6, 1e9)]
    words += _some(draw, 0.7, "--method", ("full", "lora", "qlora"))
    words += _limit(draw, 0.4, "--max-hours", 0.2, 100)
    return words + _answer(draw)


def _predict(draw: random.Random) -> Words:
    words = ["predict", "--task", draw.choice(("training", "inference"))]
    words += ["--model", draw.choice(NETWORKS), "--instance", draw.choice(INSTANCES)]
    return words + _some(draw, 0.5, "--batch-size", ("1", "8", "64", "4096"))


def _compare(draw: random.Random) -> Words:
    words = ["compare", "--task", draw.choice(("training", "inference"))]
    cards = draw.sample(("T4", "L4", "A10G", "V100-SXM2-16GB", "L40S", "H100-SXM5-80GB"), 3)
    return [*words, "--model", draw.choice(NETWORKS), "--gpu", ",".join(cards)]


def _memory(draw: random.Random) -> Words:
    words = ["memory", "--task", "training", "--model", draw.choice(NETWORKS)]
    return words + _some(draw, 0.5, "--batch-size", ("8", "64"))


def _place(draw: random.Random) -> Words:
    cloud = draw.choice(CLOUDS)
    words = ["--cloud", cloud, "--market", draw.choice(MARKETS)]
    regions = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1")
    return words + (_some(draw, 0.3, "--region", regions) if cloud == "aws" else [])


def _answer(draw: random.Random) -> Words:
    words = _some(draw, 0.2, "--confidence", ("0.5", "0.8", "0.95"))
    words += _some(draw, 0.2, "--max-results", ("1", "3", "50"))
    return words + (["--explain-rejected"] if draw.random() < 0.1 else [])


def _some(draw: random.Random, share: float, option: str, values: tuple[str, ...]) -> Words:
    return [option, draw.choice(values)] if draw.random() < share else []


def _limit(draw: random.Random, share: float, option: str, low: float, high: float) -> Words:
    return [option, between(draw, low, high)] if draw.random() < share else []


# What a question may be wrong in, each beside a question that is right.
_WRONG_VALUES = {
    "--model": ("resnet5", "googelnet", "", "no such", "net.py", "../x.py:build", "resnet50@7"),
    "--task": ("train", "infer", "serve", ""),
    "--precision": ("fp31", "int8", "FP64"),
    "--batch-size": ("0", "-1", "1.5", "many", "1e99", "nan"),
    "--target-throughput": ("0", "-5", "fast", "inf", "5.000.000", "1e400"),
    "--confidence": ("0", "1", "1.5", "90%", "x"),
    "--cloud": ("awz", "google", ""),
    "--region": ("us-east-9", "mars", ""),
    "--market": ("spots", "reserved"),
    "--gpu": ("T5", "24GiB", "..", "cc99..", "RTX"),
    "--vcpus": ("0", "8..4", "x"),
    "--memory": ("32", "64GiB..32GiB", "-1GiB"),
    "--disk": ("gp4", "gp3:1GiB", "gp3:500GiB:1iops", "floppy"),
    "--max-price": ("0", "-1", "free"),
    "--max-latency-ms": ("0", "-1"),
    "--epochs": ("0", "-1", "x"),
    "--max-hours": ("0", "5"),
    "--samples": ("0", "x"),
    "--input": ("0", "3x0x5", "seq:0", "axb"),
    "--stack": ("jit",),
    "--memory-format": ("nchw",),
    "--max-count": ("0", "x"),
    "--max-nodes": ("0", "2"),
    "--max-results": ("0", "-1", "x"),
    "--quota": ("G", "G=x", "Q9=1"),
    "--dataset": ("imagnet", "s3://bucket/x", "./nothing"),
    "--horizon-hours": ("0", "x"),
    "--price-kind": ("listed",),
    "--output": ("xml",),
    "--export": ("pulumi",),
    "--performance-model": ("nothing.json",),
    "--anchor": ("nothing.json",),
    "--no-such-option": ("1",),
}
_WRONG_LANGUAGE = {
    "--model": ("meta-llama/Llama-9", "bert"),
    "--users": ("0", "x", "1.5"),
    "--max-ttft-ms": ("0", "x"),
    "--max-tpot-ms": ("-1",),
    "--traffic": ("chatt", "nothing.csv"),
    "--input-tokens": ("0", "1e12"),
    "--output-tokens": ("0",),
    "--tensor-parallel": ("3", "0", "x"),
    "--engine": ("tgi",),
    "--kv-precision": ("int4",),
    "--prefix-share": ("1", "-0.1"),
    "--tokens": ("5",),
    "--precision": ("fp32", "int3"),
}
_RIGHT = {"--task": "inference", "--model": "googlenet"}
_RIGHT_LANGUAGE = {"--task": "generation", "--model": "Qwen/Qwen3-8B"}


def refusals() -> Iterator[Words]:
    """Questions with one thing wrong in them."""
    for right, wrong in ((_RIGHT, _WRONG_VALUES), (_RIGHT_LANGUAGE, _WRONG_LANGUAGE)):
        for option, values in wrong.items():
            for value in values:
                given = right | {option: value}
                yield ["recommend", *(word for pair in given.items() for word in pair)]
    yield from (["recommend"], ["recomend"], ["predict", "--task", "inference"], ["compare"])
