"""How long a revoked key still works: asked of several worker processes until none takes it.

    python benchmarks/key_revocation.py --json --workers 4 --rounds 5

Each round makes a key, asks until all connections take it, revokes it, and asks on over many
connections at once: the moment of the last 200 after the revoking command has ended, counted from
before that command began to write.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import closing
from typing import Any

from advisor.store.keys import ApiKeys
from benchmarks.hostile_requests import Hostile
from benchmarks.served import Served
from benchmarks.service_fuzz import Asker

_CONNECTIONS = 24
_WATCHED_SECONDS = 4.0
_QUESTION = Hostile("plain", "GET", "/v1/networks", ())


def seconds_after_revoking(service: Served, number: int) -> float:
    """From the commit of the revocation to the last answer that the key was given."""
    key = service.advisor("keys", "add", f"r{number}", "--scope", "read").strip()
    askers = [Asker(service.port, key) for _ in range(_CONNECTIONS)]
    for asker in askers:
        assert asker.ask(_QUESTION)[0] == 200
    url = service.database_url
    with closing(ApiKeys(url)) as book:
        book.revoke(f"r{number}", now=time.time())
    revoked = last = time.monotonic()
    while time.monotonic() < revoked + _WATCHED_SECONDS:
        for asker in askers:
            if asker.ask(_QUESTION)[0] == 200:
                last = time.monotonic()
    for asker in askers:
        asker.close()
    return last - revoked


def main() -> None:
    """Print the seconds of each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="as JSON (the only form)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    options = ("--workers", str(told.workers), "--rate-limit", "0", "--log-level", "error")
    with Served(*options) as service:
        seconds = [seconds_after_revoking(service, number) for number in range(told.rounds)]
    result: dict[str, Any] = {
        "benchmark": "key_revocation",
        "workers": told.workers,
        "connections": _CONNECTIONS,
        "seconds": [round(one, 3) for one in seconds],
        "median": round(statistics.median(seconds), 3),
        "most": round(max(seconds), 3),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
