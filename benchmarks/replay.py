"""Are percentiles of served requests right?

    python -m benchmarks.replay [--json]

`measured`: p99 of TTFT and p95 of TPOT of one published closed loop after another
(`infra/build/language_sources/percentiles.csv`, which taught nothing), and how many users keep its
limits. `replayed`: percentiles that are told over those of a discrete-event replay of an engine that
makes a token of every request in each step and reads prompts beside them, with the same seconds for both.
All requests of a replay count where its users start together, as in a published benchmark; else the first
and the last part does not.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.domain.words import PERCENTILES
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.bayes import Floats
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, Traffic
from advisor.models.language.serving import ServingRates, bundled_serving_predictor

SCHEMA = "advisor.replay/1"
ROWS = Path(__file__).parents[1] / "infra/build/language_sources/percentiles.csv"
# Limits of the rows' source on users: p99 of TTFT, and the median time of a token, in ms.
_MOST_TTFT_MS, _MOST_ITL_MS = 2000.0, 50.0
# Requests of one replay, after how many it is steady, and those of each user that starts with all others.
_REQUESTS, _STEADY, _OF_EACH, _SEED = 3000, 900, 8, 3
# Tokens that a step of the engine takes.
_STEP_TOKENS = 8192.0
_P99, _P95 = PERCENTILES.index(99), PERCENTILES.index(95)


class Load(NamedTuple):
    """Requests that are replayed: so many users, or so many a second."""

    traffic: Traffic
    users: int = 0
    rate: float = 0.0


_CHAT = Traffic(1155, 211, 0.0, False, 0.64, 0.53)
# Published benchmarks draw lengths evenly from 80 to 100 % of what they name: who all have one length stay
# together, and none of them finds the server without the others' prompts.
_DRAWN = Traffic(1024, 128, 0.0, False, 0.065, 0.065, starts_together=True)
LOADS = (
    Load(_DRAWN, users=16),
    Load(_DRAWN, users=64),
    Load(_DRAWN._replace(input_tokens=2048, output_tokens=32), users=16),
    *(Load(_CHAT._replace(think_seconds=think), users=40) for think in (0.0, 0.1, 1.0, 10.0)),
    Load(Traffic(2048, 28, 0.0, False, 0.7, 1.3), users=16),
    Load(Traffic(300, 800, 0.0, False, 0.7, 0.8), users=100),
    Load(Traffic(1024, 128), rate=4.0),
    Load(Traffic(1024, 128), rate=12.0),
    Load(_CHAT, rate=8.0),
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
            lengths = float(row["input_tokens"]), float(row["output_tokens"])
            traffic = Traffic(*lengths, starts_together=True)
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
            "tokens": [load.traffic.input_tokens, load.traffic.output_tokens],
            "think_seconds": load.traffic.think_seconds,
            "starts_together": load.traffic.starts_together,
        }


def replay(deployment: Deployment, load: Load) -> tuple[Floats, Floats]:
    """Seconds to the first token and of each one after it, of requests that run through an engine whose
    steps are as long as the predictor's for one request alone and for those in flight: each step makes one
    token of each request, and reads as much of prompts as has room beside."""
    rng, traffic = np.random.default_rng(_SEED), load.traffic
    step, prompt = _seconds_of(deployment, traffic)
    count = _OF_EACH * load.users if traffic.starts_together else _REQUESTS
    spreads = (traffic.input_tokens, traffic.input_sigma), (traffic.output_tokens, traffic.output_sigma)
    inputs, outputs = (
        np.maximum(1, np.round(mean * np.exp(rng.normal(-(sigma**2) / 2, sigma, count))))
        for mean, sigma in spreads
    )
    thinks = rng.exponential(traffic.think_seconds, count)
    arrivals = np.cumsum(rng.exponential(1 / load.rate, count)) if load.rate else thinks.copy()
    sent = load.users or count
    coming = sorted(zip(arrivals[:sent].tolist(), range(sent), strict=True))
    first, done, now = np.zeros(count), np.zeros(count), 0.0
    queue, left = dict[int, float](), dict[int, int]()  # tokens to read, and to make
    while coming or queue or left:
        if not queue and not left:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            place = heapq.heappop(coming)[1]
            queue[place] = float(inputs[place])
        read, reads = _read(queue, _STEP_TOKENS - len(left))
        now += step(max(len(left), 1)) + (prompt(read) if read else 0.0)
        left = {place: tokens - 1 for place, tokens in left.items()}
        left.update((place, int(outputs[place]) - 1) for place in reads)
        first[reads] = now
        ended = [place for place, tokens in left.items() if not tokens]
        done[ended] = now
        for place in ended:
            del left[place]
            # In a closed loop a request comes for each that ended.
            if load.users and sent < count:
                arrivals[sent] = now + thinks[sent]
                heapq.heappush(coming, (float(arrivals[sent]), sent))
                sent += 1
    counted = np.arange(count)
    if not traffic.starts_together:
        counted = counted[_STEADY : count - load.users]
    several = counted[outputs[counted] > 1]
    return (first - arrivals)[counted], (done - first)[several] / (outputs[several] - 1)


def _read(queue: dict[int, float], most: float) -> tuple[float, list[int]]:
    """Tokens of prompts in the queue that a step reads, and those prompts that end with them."""
    room, reads = most, list[int]()
    for place, tokens in list(queue.items()):
        queue[place] -= min(tokens, room)
        room -= tokens - queue[place]
        if queue[place] > 0:
            break
        reads.append(place)
        del queue[place]
    return most - room, reads


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
