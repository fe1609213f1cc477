"""What is asked of a launch on AWS, checked: whose, for how much, how long, by what network."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Mapping
from typing import Any

from advisor.errors import UsageError

NAMES = (
    "on", "dry_run", "hours", "queue", "owner", "sweep_id", "bucket", "subnet", "image",
    "instance_profile",
)  # fmt: skip


def split(
    answers: Mapping[str, Any], names: tuple[str, ...] = NAMES
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers that are no option of these, and these."""
    own = {name: answers[name] for name in names}
    return {name: value for name, value in answers.items() if name not in own}, own


def refuse_without_aws(cloud: Mapping[str, Any]) -> None:
    """These options mean nothing here, and would be thought to launch something."""
    given = [f"--{name.replace('_', '-')}" for name, one in cloud.items() if one and name != "on"]
    if given:
        told = ", ".join(given).replace("--regions", "--region")
        raise UsageError(f"{told}: only with --on aws; add it, or leave that out")


def launch_values(cloud: Mapping[str, Any], hours: float) -> dict[str, Any]:
    """The answers as fields of `CloudOptions`; `hours` is the longest life where none is given."""
    profile = cloud["instance_profile"]
    return {
        "owner": _tag_value(cloud["owner"] or _user()),
        "hours": cloud["hours"] or hours,
        "queue_minutes": cloud["queue"] or 15.0,
        "sweep_id": cloud["sweep_id"] or "",
        "bucket": cloud["bucket"] or os.environ.get("ADVISOR_BUCKET", ""),
        "subnet": cloud["subnet"] or "",
        "image": cloud["image"] or "",
        "profile": "" if profile == "none" else profile or "advisor-guest",
    }


def dollars(text: str | None) -> float:
    """'5USD' -> 5.0; `UsageError` for other budgets, and none."""
    from advisor.runs.adaptive.budget import parse_budget

    if not text:
        raise UsageError("--on aws needs --budget, as 5USD: it is never passed")
    usd = parse_budget(text, usd_per_hour=math.inf).usd
    if usd is None:
        raise UsageError(f"--on aws takes a --budget of money, as 5USD, not '{text}'")
    return usd


def _tag_value(text: str) -> str:
    """Tags of AWS take letters, digits, blanks and + - = . _ : / @."""
    if len(text) > 100 or not re.fullmatch(r"[\w +\-=.:/@]+", text):
        raise UsageError(f"--owner '{text}' is no tag: letters, digits and + - = . _ : / @")
    return text


def _user() -> str:
    try:
        return re.sub(r"[^\w.@-]", "-", getpass.getuser())
    except (OSError, KeyError):
        return "unknown"
