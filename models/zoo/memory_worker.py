"""Traces one network in a process of its own: `python -m advisor.models.zoo.memory_worker JOB`.

JOB is a JSON object `{"reference", "pixels", "steps"}`. The last line on stdout is `{"profile": ...}` as
`network_memory` gives it, or `{"error": ..., "usage": bool}`. So torch, and whatever a user's file does, stay
out of the process that was asked."""

from __future__ import annotations

import json
import sys
from typing import Any

from advisor.errors import AdvisorError, UsageError
from advisor.models.zoo.opening import open_network
from advisor.models.zoo.tracing import network_memory


def main(arguments: list[str] | None = None) -> None:
    """Trace the network and print one line: the result, or the error."""
    job = json.loads((arguments or sys.argv[1:])[0])
    try:
        _send(profile=_profile(job))
    except AdvisorError as error:
        _send(error=str(error), usage=isinstance(error, UsageError))


def _profile(job: dict[str, Any]) -> dict[str, Any]:
    return network_memory(open_network(job["reference"]), job["steps"], job["pixels"])


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
