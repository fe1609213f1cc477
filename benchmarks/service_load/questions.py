"""Questions of which no two are alike."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NETWORKS = ("alexnet", "googlenet", "inception_v3", "resnet50", "vgg16")
TASKS = ("training", "inference")
INSTANCES = (
    "g4dn.xlarge",
    "g4dn.2xlarge",
    "g5.xlarge",
    "g5.2xlarge",
    "g6.xlarge",
    "g6e.xlarge",
    "p3.2xlarge",
    "c7i.4xlarge",
    "m7i.8xlarge",
    "c7g.2xlarge",
)
# The share of questions that say each field, and the values that it is drawn from.
_VARIED = {
    "precision": (0.3, ("fp32", "amp")),
    "batch_size": (0.3, (8, 16, 32, 64, 128)),
    "region": (0.2, ("us-east-1", "us-west-2", "eu-west-1")),
}
_WIDE = {
    "confidence": (0.3, (0.8, 0.9, 0.95)),
    "max_price": (0.2, (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)),
    "gpu": (0.2, ("T4,L4", "A10G", "24GiB..")),
}
# Nothing meets them: what to relax is looked for among all clouds and markets.
_WIDEST = {"task": "training", "model": "vgg16", "cloud": "any", "market": "any", "explain": True}
HARD: tuple[dict[str, Any], ...] = (
    {
        **_WIDEST,
        "target_throughput": 1e7,
        "max_nodes": 64,
        "pareto": True,
        "explain_rejected": True,
        "max_results": 1000,
    },
    {**_WIDEST, "epochs": 90, "max_hours": 0.001},
)


def recommendations(seed: int, *, varied: bool = False, wide: bool = False) -> Iterator[dict[str, Any]]:
    """Each network in training and inference, targets from 10 to 3,000/s in equal ratios, over all types of
    AWS in us-east-1. `varied`: batches, precisions and regions vary too; `wide`: confidences, prices and GPUs
    besides. Some of both have no answer."""
    draw = random.Random(seed)
    while True:
        question: dict[str, Any] = {
            "task": draw.choice(TASKS),
            "model": draw.choice(NETWORKS),
            "target_throughput": round(10 ** draw.uniform(1.0, 3.5), 6),
        }
        if varied or wide:
            question |= _some(draw, _VARIED)
        if wide:
            question |= _some(draw, _WIDE)
        yield question


def _some(draw: random.Random, fields: Mapping[str, tuple[float, Sequence[Any]]]) -> dict[str, Any]:
    return {name: draw.choice(values) for name, (share, values) in fields.items() if draw.random() < share}


def predictions(seed: int) -> Iterator[dict[str, Any]]:
    """A network on an instance, with a disk and a confidence that nobody asked for before."""
    draw = random.Random(seed)
    while True:
        yield {
            "task": draw.choice(TASKS),
            "model": draw.choice(NETWORKS),
            "instance": draw.choice(INSTANCES),
            "batch_size": draw.randint(1, 64),
            "disk": f"gp3:{draw.randint(200, 16000)}GiB",
            "confidence": round(draw.uniform(0.6, 0.9), 6),
        }


def slow_recommendations(seed: int) -> Iterator[dict[str, Any]]:
    """Those that take longest: the front of price and rate over up to 50 instances."""
    for question in recommendations(seed):
        yield {**question, "pareto": True, "max_count": 50}


def health_checks() -> Iterator[bytes]:
    """GET /healthz."""
    while True:
        yield b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def as_requests(path: str, questions: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Each as an HTTP/1.1 POST."""
    for question in questions:
        body = json.dumps(question).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body
