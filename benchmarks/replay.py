"""Are percentiles of served requests right?

    python -m benchmarks.replay [--json]

`measured`: p99 of TTFT and p95 of TPOT of one published closed loop after another
(`infra/build/language_sources/percentiles.csv`, which taught nothing), and how many users keep its
limits. `replayed`: percentiles that are told over those of a discrete-event replay of an engine that
makes a token of every request in each step and reads prompts between, with the same seconds for both.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.domain.words import PERCENTILES
from advisor.models.bayes import Floats
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, Traffic, bundled_gpu_facts
from advisor.models.language.serving import ServingRates, bundled_serving_predictor

SCHEMA = "advisor.replay/1"
ROWS = Path(__file__).parents[1] / "infra/build/language_sources/percentiles.csv"
# Limits of the rows' source on users: p99 of TTFT, and the median time of a token, in ms.
_MOST_TTFT_MS, _MOST_ITL_MS = 2000.0, 50.0
_REQUESTS, _SEED = 800, 3
_P99, _P95 = PERCENTILES.index(99), PERCENTILES.index(95)


class Load(NamedTuple):
    """Requests that are replayed: so many users, or so many a second."""

    traffic: Traffic
    users: int = 0
    rate: float = 0.0


LOADS = (
    Load(Traffic(1024, 128), users=16),
    Load(Traffic(1024, 128), users=64),
    Load(Traffic(128, 512), users=64),
    Load(Traffic(1155, 211, 0.0, False, 0.64, 0.53), users=32),
    Load(Traffic(2048, 28, 0.0, False, 0.7, 1.3), users=16),
    Load(Traffic(1024, 128), rate=4.0),
    Load(Traffic(1024, 128), rate=12.0),
    Load(Traffic(1155, 211, 0.0, False, 0.64, 0.53), rate=8.0),
)


def deployed(precision: str = "bf16") -> Deployment:
    """What the rows are of."""
    model, gpu = bundled_language_models().find("Qwen/Qwen3-8B"), bundled_gpu_facts()["H100-SXM5-80GB"]
    return Deployment(model, precision, "bf16", "vllm", gpu, max_sequences=512)


def answered(deployment: Deployment, load: Load) -> ServingRates:
    """What the predictor that ships says."""
    predictor = bundled_serving_predictor()
    if load.users:
        return predictor.closed_loop([deployment], load.traffic, [load.users])
    return predictor.under_load([deployment], load.traffic, [load.rate])


def measured() -> dict[str, Any]:
    """Errors in per cent on published rows, and of the users within their limits."""
    errors: dict[str, list[float]] = {"ttft_p99": [], "tpot_p95": [], "users_within_limits": []}
    with ROWS.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            traffic = Traffic(float(row["input_tokens"]), float(row["output_tokens"]))
            deployment = deployed(row["precision"])
            if row["most_users"]:
                told = _users_within(deployment, traffic)
                errors["users_within_limits"].append(told / float(row["most_users"]) - 1)
                continue
            rates = answered(deployment, Load(traffic, users=int(row["concurrency"])))
            assert rates.tails is not None
            first = 1000 * rates.ttft_seconds.median * rates.tails.ttft[_P99]
            each = 1000 * rates.tpot_seconds.median * rates.tails.tpot[_P95]
            errors["ttft_p99"].append(float(first[0]) / float(row["ttft_p99_ms"]) - 1)
            errors["tpot_p95"].append(float(each[0]) / float(row["tpot_p95_ms"]) - 1)
    return {name: _figures(several) for name, several in errors.items()}


def _users_within(deployment: Deployment, traffic: Traffic) -> int:
    low, high = 1, 2048
    while low < high:
        middle = (low + high + 1) // 2
        rates = answered(deployment, Load(traffic, users=middle))
        assert rates.tails is not None
        first = 1000 * float(rates.ttft_seconds.median[0] * rates.tails.ttft[_P99, 0])
        within = first <= _MOST_TTFT_MS and 1000 * float(rates.tpot_seconds.median[0]) <= _MOST_ITL_MS
        low, high = (middle, high) if within else (low, middle - 1)
    return low


def _figures(errors: list[float]) -> dict[str, float]:
    shares = 100 * np.abs(errors)
    return {
        "n": len(errors),
        "mean_percent": round(float(shares.mean()), 1),
        "median_percent": round(float(np.median(shares)), 1),
    }


def replayed() -> Iterator[dict[str, Any]]:
    """Each load, with its percentiles as they are told, over those of the replay."""
    deployment = deployed()
    for load in LOADS:
        told, times = answered(deployment, load), replay(deployment, load)
        assert told.tails is not None
        means = told.ttft_seconds.median[0], told.tpot_seconds.median[0]
        ratios = {}
        for name, mean, tails, values in zip(("ttft", "tpot"), means, told.tails, times, strict=False):
            for place, percentile in enumerate(PERCENTILES):
                found = float(np.percentile(values, percentile))
                ratios[f"{name}_p{percentile}"] = round(float(mean * tails[place, 0]) / found, 3)
        yield {"load": f"{load.users} users" if load.users else f"{load.rate:g} a second", **ratios} | {
            "tokens": [load.traffic.input_tokens, load.traffic.output_tokens]
        }


def replay(deployment: Deployment, load: Load) -> tuple[Floats, Floats]:
    """Seconds to the first token and of each one after it, of requests that run through an engine whose
    steps are as long as the predictor's for one request alone and for those in flight: each step makes one
    token of each request, and reads the prompts that have room beside."""
    rng, traffic = np.random.default_rng(_SEED), load.traffic
    step, prompt = _seconds_of(deployment, traffic)
    spreads = (traffic.input_tokens, traffic.input_sigma), (traffic.output_tokens, traffic.output_sigma)
    inputs, outputs = (
        np.maximum(1, np.round(mean * np.exp(rng.normal(-(sigma**2) / 2, sigma, _REQUESTS))))
        for mean, sigma in spreads
    )
    arrivals = np.cumsum(rng.exponential(1 / load.rate, _REQUESTS)) if load.rate else np.zeros(_REQUESTS)
    sent = load.users or _REQUESTS
    coming = list(zip(arrivals[:sent].tolist(), range(sent), strict=True))
    first, done, now = np.zeros(_REQUESTS), np.zeros(_REQUESTS), 0.0
    queue, left = deque[int](), dict[int, int]()
    while coming or queue or left:
        if not queue and not left:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            queue.append(heapq.heappop(coming)[1])
        reads = _admitted(queue, inputs)
        now += step(max(len(left), 1)) + (prompt(float(inputs[reads].sum())) if reads else 0.0)
        left = {place: tokens - 1 for place, tokens in left.items()}
        left.update((place, int(outputs[place]) - 1) for place in reads)
        first[reads] = now
        ended = [place for place, tokens in left.items() if not tokens]
        done[ended] = now
        for place in ended:
            del left[place]
        # In a closed loop a request comes for each that ended.
        following = range(sent, min(sent + len(ended), _REQUESTS)) if load.users else range(0)
        arrivals[following], sent = now, sent + len(following)
        coming += [(now, place) for place in following]
    several = outputs > 1
    return first - arrivals, (done - first)[several] / (outputs[several] - 1)


def _admitted(queue: deque[int], inputs: Floats) -> list[int]:
    """Those in the queue whose prompts one step reads together."""
    reads, budget = list[int](), 8192.0
    while queue and (not reads or inputs[queue[0]] <= budget):
        budget -= inputs[queue[0]]
        reads.append(queue.popleft())
    return reads


def _seconds_of(
    deployment: Deployment, traffic: Traffic
) -> tuple[Callable[[int], float], Callable[[float], float]]:
    """Seconds of a step with so many in flight, and of a prompt of so many tokens beside one."""
    predictor, known = bundled_serving_predictor(), dict[int, float]()
    short = Traffic(1.0, 2 * traffic.input_tokens + traffic.output_tokens)

    def step(sequences: int) -> float:
        if sequences not in known:
            rates = predictor.closed_loop([deployment], short, [sequences])
            known[sequences] = float(rates.tpot_seconds.median[0])
        return known[sequences]

    lengths = np.geomspace(1, 65536, 40)
    single = [Traffic(float(length), 1.0) for length in lengths]
    alone = predictor.closed_loop([deployment] * len(single), single, np.ones(len(single)))
    seconds = alone.ttft_seconds.median - alone.ttft_seconds.median[0]

    def prompt(tokens: float) -> float:
        return float(np.interp(tokens, lengths, seconds))

    return step, prompt


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(prog="benchmarks.replay", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.parse_args()
    print(json.dumps({"schema": SCHEMA, "measured": measured(), "replayed": list(replayed())}, indent=1))


if __name__ == "__main__":
    main()
