"""`python -m benchmarks.service_load --json`: a real `advisor serve` under load on loopback.

The client shares the cores with the service. Every question differs but those of `repeated`, whose finished
answer is kept (docs/internals/performance.md). `--beside FOLDER` measures another source tree of the product
too, in turns with this one, so that a busy machine slows both alike. CPU milliseconds are of a request: they
say what a quiet machine could do."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.served import Served
from benchmarks.service_load.client import Answers, at_a_pace, at_full_speed
from benchmarks.service_load.flood import KINDS
from benchmarks.service_load.questions import (
    HARD,
    as_requests,
    health_checks,
    predictions,
    recommendations,
    slow_recommendations,
)

_CONNECTIONS = 8
_ROUNDS = 6
_FLOOD_ROUNDS, _FLOOD_PACE, _FLOOD_SECONDS = 3, 20.0, 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="as all benchmarks; always so")
    parser.add_argument("--workers", type=int, default=2, help="processes that answer")
    parser.add_argument("--count", type=int, default=6000, help="questions of each measurement")
    parser.add_argument("--warm", type=int, default=4000, help="questions before each one")
    parser.add_argument(
        "--only", nargs="+", choices=_MEASURED, default=list(_MEASURED), help="what to measure"
    )
    parser.add_argument("--beside", type=Path, help="another source tree, measured in turns")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sources = [Path.cwd(), *([options.beside.resolve()] if options.beside else [])]
    words = ("--workers", str(options.workers), "--rate-limit", "0", "--log-level", "warning")
    document: dict[str, Any] = {"workers": options.workers, "connections": _CONNECTIONS}
    with ExitStack() as stack:
        services = [stack.enter_context(Served(*words, source=source)) for source in sources]
        for name in options.only:
            measured = _MEASURED[name](services, options)
            document[name] = measured[0]
            if len(measured) > 1:
                document[f"{name}_beside"] = measured[1]
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _recommend(services: Sequence[Served], options: argparse.Namespace, **vary: bool) -> list[Any]:
    return _load(services, "/v1/recommend", recommendations(options.seed, **vary), options)


def _predict(services: Sequence[Served], options: argparse.Namespace) -> list[Any]:
    return _load(services, "/v1/predict", predictions(options.seed), options)


def _repeated(services: Sequence[Served], options: argparse.Namespace) -> list[Any]:
    return _load(services, "/v1/recommend", itertools.repeat(next(recommendations(options.seed))), options)


def _load(
    services: Sequence[Served], path: str, questions: Iterator[dict[str, Any]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Throughput at full speed, then the waits at half of that, of each service."""
    requests = as_requests(path, questions)
    for service in services:
        _say(f"{path}: warming {service.source} up")
        asyncio.run(at_full_speed(service.port, requests, _CONNECTIONS, options.warm))
    full = [Answers() for _ in services]
    cpu, own = [0.0 for _ in services], [0.0 for _ in services]
    for _, (number, service) in itertools.product(range(_ROUNDS), enumerate(services)):
        before, before_own = service.cpu_seconds, time.process_time()
        count = options.count // _ROUNDS
        full[number].add(asyncio.run(at_full_speed(service.port, requests, _CONNECTIONS, count)))
        cpu[number] += service.cpu_seconds - before
        own[number] += time.process_time() - before_own
    measured = []
    for number, service in enumerate(services):
        answers, count = full[number], len(full[number].seconds)
        pace = answers.per_second / 2
        _say(f"{path} of {service.source}: {answers.per_second:.0f}/s; at half of that")
        half = at_a_pace(service.port, requests, 4 * _CONNECTIONS, options.count // 2, pace)
        measured.append(
            {
                "per_second": answers.per_second,
                "cpu_ms_each": 1000 * cpu[number] / count,
                "client_cpu_ms_each": 1000 * own[number] / count,
                "bytes_each": answers.received_bytes / count,
                "at_full_speed": answers.waits(),
                "at_half": {"per_second": pace, **asyncio.run(half).waits()},
                "resident_mib": service.resident_mib,
            }
        )
    return measured


def _health(services: Sequence[Served], options: argparse.Namespace) -> list[dict[str, Any]]:
    """/healthz twenty times a second, alone and while the slowest questions run."""
    measured = []
    for service in services:
        _say(f"/healthz of {service.source}")
        measured.append(asyncio.run(_beside_slow(service, options.seed)))
    return measured


async def _beside_slow(service: Served, seed: int) -> dict[str, Any]:
    checks = health_checks()
    alone = await at_a_pace(service.port, checks, 4, 200, 20.0)
    requests = as_requests("/v1/recommend", slow_recommendations(seed))
    slow = asyncio.create_task(at_full_speed(service.port, requests, _CONNECTIONS // 2, 32))
    beside = Answers()
    while not slow.done():
        beside.add(await at_a_pace(service.port, checks, 4, 20, 20.0))
    return {"alone": alone.waits(), "beside": beside.waits(), "slow": (await slow).waits()}


def _hard(services: Sequence[Served], _options: argparse.Namespace) -> list[dict[str, Any]]:
    """What nothing meets, over all clouds and markets: CPU and memory of one worker, which is given back."""
    measured = []
    for source in (service.source for service in services):
        with Served("--log-level", "warning", source=source) as service:
            result: dict[str, Any] = {"resident_mib": [service.resident_mib], "cpu_seconds": []}
            for question in HARD:
                before = service.cpu_seconds
                if service.ask("POST", "/v1/recommend", question, seconds=300.0)[0] != 200:
                    raise RuntimeError(service.log[-2000:])
                result["cpu_seconds"].append(service.cpu_seconds - before)
                result["resident_mib"].append(service.resident_mib)
            measured.append(result | {"peak_mib_of_each": service.peaks_mib})
    return measured


def _flood(services: Sequence[Served], options: argparse.Namespace) -> list[dict[str, Any]]:
    """A keyed client's questions, alone and beside strangers, in turns: as these arrive, and once
    they stand. One worker, with its limits on; ratios are of medians over the rounds."""
    measured = []
    for source in (service.source for service in services):
        with Served("--log-level", "warning", source=source) as service:
            key = service.advisor("keys", "add", "flood", "--scope", "read").strip()
            requests = _with_key(key, as_requests("/v1/predict", predictions(options.seed)))
            asyncio.run(at_full_speed(service.port, requests, 2, 50))
            measured.append({kind: _beside_flood(service, kind, requests) for kind in KINDS})
    return measured


def _beside_flood(service: Served, kind: str, requests: Iterator[bytes]) -> dict[str, Any]:
    def asked() -> dict[str, Any]:
        count = round(_FLOOD_PACE * _FLOOD_SECONDS)
        before = service.cpu_seconds
        pace = at_a_pace(service.port, requests, _CONNECTIONS, count, _FLOOD_PACE)
        waits = asyncio.run(pace).waits()
        return waits | {"cores": (service.cpu_seconds - before) / _FLOOD_SECONDS}

    rounds: dict[str, list[dict[str, Any]]] = {"alone": [], "arriving": [], "standing": []}
    for number in range(_FLOOD_ROUNDS):
        _say(f"{kind}: round {number + 1}")
        rounds["alone"].append(asked())
        with _strangers(service.port, kind):
            rounds["arriving"].append(asked())
            rounds["standing"].append(asked())
    p99 = {name: statistics.median(one["p99_ms"] for one in measured) for name, measured in rounds.items()}
    ratios = {name: p99[name] / p99["alone"] for name in ("arriving", "standing")}
    return {"connections": KINDS[kind][1], "p99_ms": p99, "p99_ratio": ratios, "rounds": rounds}


@contextmanager
def _strangers(port: int, kind: str) -> Iterator[None]:
    command = (sys.executable, "-m", "benchmarks.service_load.flood", str(port), kind)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def _with_key(key: str, requests: Iterator[bytes]) -> Iterator[bytes]:
    head = f"Authorization: Bearer {key}\r\nContent-Type".encode()
    return (request.replace(b"Content-Type", head, 1) for request in requests)


def _say(line: str) -> None:
    load = os.getloadavg()[0]
    print(f"{line} (load {load:.1f})", file=sys.stderr, flush=True)


_MEASURED = {
    "recommend": _recommend,
    "repeated": _repeated,
    "varied": partial(_recommend, varied=True),
    "wide": partial(_recommend, wide=True),
    "predict": _predict,
    "health": _health,
    "hard": _hard,
    "flood": _flood,
}


if __name__ == "__main__":
    main()
