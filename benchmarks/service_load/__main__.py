"""`python -m benchmarks.service_load --json`: a real `advisor serve` under load on loopback.

The client shares the cores with the service. Every question differs, and nothing keeps answers:
what the service keeps of a workload does not know the target (docs/internals/performance.md).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.served import Served
from benchmarks.service_load import client
from benchmarks.service_load.client import Heard
from benchmarks.service_load.questions import as_requests, predictions, recommendations

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CONNECTIONS = 8


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="as all benchmarks; always so")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--count", type=int, default=6000, help="questions of each measurement")
    parser.add_argument("--warm", type=int, default=4000, help="questions before each one")
    parser.add_argument("--pace", type=float, default=150.0, help="questions/s of /v1/recommend")
    parser.add_argument("--wide", action="store_true", help="questions of many workloads, too")
    parser.add_argument("--endless", type=int, default=0, help="questions that memory is told over")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    options = ("--workers", str(asked.workers), "--rate-limit", "0", "--log-level", "warning")
    with Served(*options) as service:
        told: dict[str, Any] = {"workers": asked.workers, "connections": _CONNECTIONS}
        told["recommend"] = _told(service, "/v1/recommend", recommendations(asked.seed), asked)
        told["recommend_at_pace"] = _at_pace(service, recommendations(asked.seed + 3), asked)
        told["predict"] = _told(service, "/v1/predict", predictions(asked.seed), asked)
        if asked.wide:
            wide = recommendations(asked.seed + 1, wide=True)
            told["recommend_wide"] = _told(service, "/v1/recommend", wide, asked)
        if asked.endless:
            told["memory"] = _memory(service, asked)
    json.dump(told, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _told(
    service: Served, path: str, words: Iterator[dict[str, Any]], asked: argparse.Namespace
) -> dict[str, Any]:
    """Throughput as fast as it goes, then the waits at half of that."""
    requests = as_requests(path, words)
    _say(f"{path}: warming up")
    first, _ = asyncio.run(_fast(service, requests, asked.warm))
    _say(f"{path}: as fast as it goes")
    heard, took = asyncio.run(_fast(service, requests, asked.count))
    per_second = asked.count / took
    _say(f"{path}: {per_second:.0f}/s; at half of that")
    half = _paced(service, requests, asked.count // 2, per_second / 2)
    return {
        "per_second": per_second,
        "bytes_each": heard.received_bytes / asked.count,
        "warm_up": _waits(first),
        "as_fast_as_it_goes": _waits(heard),
        "at_half": {"per_second": per_second / 2, **_waits(half)},
        "resident_mib": _resident_mib(service),
    }


def _at_pace(
    service: Served, words: Iterator[dict[str, Any]], asked: argparse.Namespace
) -> dict[str, Any]:
    """The waits of /v1/recommend at a pace that is told, whatever it could do."""
    _say(f"/v1/recommend: at {asked.pace:.0f}/s")
    heard = _paced(service, as_requests("/v1/recommend", words), asked.count, asked.pace)
    return {"per_second": asked.pace, **_waits(heard)}


def _paced(service: Served, requests: Iterator[bytes], count: int, per_second: float) -> Heard:
    heard, _ = asyncio.run(
        client.at_a_pace(service.port, requests, 4 * _CONNECTIONS, count, per_second)
    )
    return heard


async def _fast(service: Served, requests: Iterator[bytes], count: int) -> tuple[Heard, float]:
    return await client.as_fast_as_it_goes(service.port, requests, _CONNECTIONS, count)


def _waits(heard: Heard) -> dict[str, Any]:
    cuts = statistics.quantiles(heard.seconds, n=100, method="inclusive")
    return {
        "p50_ms": 1000 * cuts[49],
        "p99_ms": 1000 * cuts[98],
        "most_ms": 1000 * max(heard.seconds),
        "statuses": {str(status): count for status, count in sorted(heard.statuses.items())},
    }


def _memory(service: Served, asked: argparse.Namespace) -> list[dict[str, float]]:
    """Memory of all workers after each tenth of the questions."""
    requests = as_requests("/v1/recommend", recommendations(asked.seed + 2))
    found = []
    for tenth in range(1, 11):
        asyncio.run(_fast(service, requests, asked.endless // 10))
        asked_so_far = tenth * (asked.endless // 10)
        found.append({"questions": asked_so_far, "resident_mib": _resident_mib(service)})
        _say(f"{asked_so_far} questions: {found[-1]['resident_mib']:.0f} MiB")
    return found


def _resident_mib(service: Served) -> float:
    """Of the service's process and its workers."""
    pids = [service.pid, *_children(service.pid)]
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * _PAGE_BYTES / 1024**2


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
