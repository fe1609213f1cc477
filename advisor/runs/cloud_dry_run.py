"""What a sweep on AWS would launch, by a process of its own: it loads AWS's client, which nobody
else in a service needs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.errors import CloudError
from advisor.runs.processes import outcome_of

_LONGEST_SECONDS = 60.0


def dry_run(words: Sequence[str]) -> Mapping[str, Any]:
    """The document of `advisor sweep run --on aws --dry-run`; `CloudError` where there is none."""
    try:
        outcome = outcome_of([*words, "--dry-run", "-o", "json"], seconds=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        raise CloudError("AWS did not answer within {seconds} s",
                         seconds=f"{_LONGEST_SECONDS:g}") from None  # fmt: skip
    if outcome.document is None:
        raise CloudError("{reason}", reason=outcome.failure or "AWS could not be asked")
    return outcome.document


def why_not(document: Mapping[str, Any]) -> str:
    """Why it cannot be launched, with what mends each reason; empty when it can."""
    if document["can_launch"]:
        return ""
    plans = document.get("plans", [document])
    stops = [
        check for plan in plans for check in plan["checks"] if check["stops"] and not check["ok"]
    ]
    reasons = dict.fromkeys(f"{one['check']}: {one['told']}; {one['mend']}" for one in stops)
    return ". ".join(reasons) or "nothing that fits is offered within this budget"
