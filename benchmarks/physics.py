"""Is any answer about serving above what its GPUs can do?

    python -m benchmarks.physics [--questions 100000] [--seed 0] [--json]

Random questions (model, card, format, engine, split, link, lengths, prefix cache, load, confidence) are
asked of the predictor that ships, and every bound is held to peaks that are reckoned here from sizes and
data sheets alone. A violation is named and counted by the law that it breaks.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain.words import KvPrecision, LlmEngine, LlmPrecision
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.bayes import Floats
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, Traffic
from advisor.models.language.memory import can_split, kept_share, kv_bytes_per_token
from advisor.models.language.serving import ServingRates, bundled_serving_predictor
from advisor.models.language.support import supported
from benchmarks.truth.language.asking import static_batch

SCHEMA = "advisor.physics/1"
LOADS = ("closed", "open", "saturated", "static")
# Bytes of a weight in each format, its scales and the modules that keep 16 bits left out.
LEAST_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "nvfp4": 0.5, "mxfp4": 0.5, "int4-awq": 0.5}
_SPLITS = (1, 2, 4, 8, 16)
# Questions of one call: its columns hold every effect that they have.
_BATCH = 20
_EXACT = 1 + 1e-9
_CONFIDENCES = (0.6, 0.8, 0.9, 0.95, 0.99)


class Asked(NamedTuple):
    """One question: a replica, its requests, and how many at once or a second (nothing of it where as
    many as memory holds)."""

    deployment: Deployment
    traffic: Traffic
    load: float


def random_questions(seed: int) -> Iterator[Asked]:
    """Endless questions about every model that is rated, on every card that has a sheet."""
    draw = random.Random(seed)
    known = bundled_language_models()
    models = [known.find(name) for name in known.names()]
    cards = [gpu for gpu in bundled_gpu_facts().values() if gpu.vendor == "NVIDIA"]
    while True:
        model, gpu, engine = draw.choice(models), draw.choice(cards), draw.choice(list(LlmEngine))
        precision, split = draw.choice(list(LlmPrecision)), draw.choice(_SPLITS)
        kv = draw.choice(list(KvPrecision))
        if not can_split(model, split) or supported(precision, kv, engine, gpu, model):
            continue
        link = "none" if split == 1 else "nvlink" if gpu.nvlink_gb_s and draw.random() < 0.6 else "pcie"
        most = min(model.max_context or 10**6, 200_000)
        tokens_in, tokens_out = (min(int(10 ** draw.uniform(0, 5)), most // 2) or 1 for _ in range(2))
        prefix = draw.choice((0.0, 0.0, draw.uniform(0, 0.95)))
        traffic = Traffic(tokens_in, tokens_out, prefix, draw.random() < 0.2)
        deployment = Deployment(model, str(precision), str(kv), str(engine), gpu, split, link)
        yield Asked(deployment, traffic, 10 ** draw.uniform(-2, 3.5))


def answered(asked: Sequence[Asked], load: str, confidence: float) -> ServingRates:
    """What the predictor that ships says to questions under one kind of load."""
    predictor, loads = bundled_serving_predictor(), np.array([one.load for one in asked])
    what = [one.deployment for one in asked], [one.traffic for one in asked]
    if load == "closed":
        return predictor.closed_loop(*what, np.ceil(loads), confidence)
    if load == "open":
        rates = predictor.under_load(*what, loads, confidence)
        return rates._replace(in_flight=rates.in_flight + 1)  # who arrives beside those it finds
    if load == "static":
        return static_batch(predictor, *what, np.ceil(loads), confidence)
    return predictor.closed_loop(*what, None, confidence)


def broken(asked: Sequence[Asked], rates: ServingRates) -> dict[str, Floats]:
    """By law, how far each answer is beyond it (n,): a share of what is possible, above 1 where it is not."""
    deployments = [one.deployment for one in asked]
    inputs, outputs, prefix, *_ = np.array([one.traffic for one in asked], dtype=float).T
    computed = np.maximum(inputs * (1 - prefix), 1.0)
    operations, reading, kept = np.array([_least_seconds(entry) for entry in deployments]).T
    cache = kept * (inputs + outputs / 2)
    dense = np.array([not entry.model.moe for entry in deployments])
    found: dict[str, list[Floats]] = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for level in range(3):
            rate, first, each = (column[level] for column in rates[:3][::-1])
            made = rates.output_tokens_per_second.median * each * (outputs - 1) / outputs
            read = reading + np.maximum(1.0, made * (1 - 1 / rates.in_flight)) * cache
            shares = {
                "computes more than its peak": rate / outputs * (computed + outputs) * operations,
                "first token before its prompt is computed": computed * operations / first,
                "first token before the weights are read": reading / first,
                "token before it is computed": operations / each,
                "token before weights and cache are read": np.where(outputs > 1, read / each, 0.0),
                "reads weights too often": np.where(dense, rate * reading / rates.in_flight, 0.0),
            }
            for law, share in shares.items():
                found.setdefault(law, []).append(share)
        found["bounds cross"] = [bound[level] / bound[level + 1] for bound in rates[:3] for level in (0, 1)]
    return {law: np.max(np.nan_to_num(shares), axis=0) / _EXACT for law, shares in found.items()}


def _least_seconds(deployment: Deployment) -> tuple[float, float, float]:
    """Of one card: for a token's operations in the fastest format that it has for these weights, to read the
    active weights (in the format they are published in where that is narrower), and to read one token of the
    layers' that is kept for good."""
    model, gpu, precision = deployment.model, deployment.gpu, deployment.precision
    peaks = {"fp8": gpu.fp8_tflops, "nvfp4": gpu.fp4_tflops, "mxfp4": gpu.fp4_tflops}
    share = model.active_parameters / deployment.tensor_parallel
    peak, bandwidth = 1e12 * max(gpu.tflops, peaks.get(precision, 0.0)), 1e9 * gpu.bandwidth_gb_s
    parts = model, KvPrecision(deployment.kv_precision), deployment.tensor_parallel
    kept = kv_bytes_per_token(*parts) * kept_share(*parts)
    weights = share * min(LEAST_BYTES[precision], model.own_bits / 8)
    return 2 * share / peak, weights / bandwidth, kept / bandwidth


def sooner_before_shorter(asked: Sequence[Asked], rates: ServingRates, confidence: float) -> Floats:
    """First tokens of closed loops over those before answers of half the length (n,), 0 where memory does not
    hold all users or prompts do not prevail: the others' prompts come in fewer steps then, and wait no less.
    The step that makes the token reads a little less cache: up to 2 %."""
    shorter = [
        one._replace(traffic=one.traffic._replace(output_tokens=max(1, one.traffic.output_tokens // 2)))
        for one in asked
    ]
    share = rates.ttft_seconds.median / answered(shorter, "closed", confidence).ttft_seconds.median
    counted = [one.traffic.input_tokens >= 2 * one.traffic.output_tokens for one in asked]
    held = rates.in_flight >= np.ceil([one.load for one in asked])
    return np.where(held & counted, np.nan_to_num(share) / 1.02, 0.0)


def document(questions: int, seed: int) -> dict[str, object]:
    """Counts of violations by law, with the worst question of each."""
    source, counts, answers = random_questions(seed), Counter[str](), 0
    worst: dict[str, tuple[float, str]] = {}
    start, asked_so_far = time.process_time(), 0
    while asked_so_far < questions:
        batch = [next(source) for _ in range(min(_BATCH, questions - asked_so_far))]
        kind = LOADS[asked_so_far // _BATCH % len(LOADS)]
        confidence = _CONFIDENCES[asked_so_far // _BATCH % len(_CONFIDENCES)]
        rates = answered(batch, kind, confidence)
        laws = broken(batch, rates)
        if kind == "closed":
            laws["first token sooner before a shorter answer"] = sooner_before_shorter(
                batch, rates, confidence
            )
        answers += int(np.isfinite(rates.tpot_seconds.median).sum())
        for law, shares in laws.items():
            counts[law] += int((shares > 1).sum())
            place = int(shares.argmax())
            if shares[place] > worst.get(law, (0.0, ""))[0]:
                worst[law] = float(shares[place]), f"{kind} {_named(batch[place])}"
        asked_so_far += len(batch)
    return {
        "schema": SCHEMA,
        "questions": questions,
        "answered": answers,
        "seed": seed,
        "violations": sum(counts.values()),
        "by_law": {
            law: {"violations": counts[law], "nearest": round(share, 4), "question": question}
            for law, (share, question) in worst.items()
        },
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def _named(asked: Asked) -> str:
    deployment, traffic = asked.deployment, asked.traffic
    return (
        f"{deployment.model.name} {deployment.precision}/{deployment.kv_precision} {deployment.engine} "
        f"{deployment.tensor_parallel}x{deployment.gpu.name}/{deployment.link} "
        f"{traffic.input_tokens}/{traffic.output_tokens} prefix {traffic.prefix_share:.2f} "
        f"load {asked.load:.3g}"
    )


def main() -> None:
    """Ask, judge and print; exit 1 where a law is broken."""
    parser = argparse.ArgumentParser(prog="benchmarks.physics", description=__doc__)
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = document(options.questions, options.seed)
    print(json.dumps(found, indent=1) if options.json else f"{found['violations']} violations")
    raise SystemExit(found["violations"] != 0)


if __name__ == "__main__":
    main()
