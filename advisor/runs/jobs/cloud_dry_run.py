"""What a sweep on AWS would launch, asked of a process of its own: it loads AWS's client, which
nobody else here needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.errors import CloudError
from advisor.runs.scheduling.commands import ADVISOR, environment

_LONGEST_SECONDS = 60.0


def dry_run(words: Sequence[str]) -> dict[str, Any]:
    """The document of `advisor sweep run --on aws --dry-run`; `CloudError` where it tells none."""
    try:
        done = subprocess.run(
            [*ADVISOR, *words, "--dry-run", "-o", "json"], capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL, env=environment(), timeout=_LONGEST_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CloudError(f"AWS did not answer within {_LONGEST_SECONDS:g} s") from None
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        lines = done.stderr.strip().splitlines() or ["AWS could not be asked"]
        raise CloudError(lines[-1].removeprefix("advisor: "))
    return document


def why_not(document: Mapping[str, Any]) -> str:
    """Why it cannot be launched, with what mends each reason; empty when it can."""
    if document["can_launch"]:
        return ""
    plans = document.get("plans", [document])
    stops = [one for plan in plans for one in plan["checks"] if one["stops"] and not one["ok"]]
    told = dict.fromkeys(f"{one['check']}: {one['told']}; {one['mend']}" for one in stops)
    return ". ".join(told) or "nothing that fits is offered within this budget"
