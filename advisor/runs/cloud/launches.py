"""The launch on AWS of a typed question, and its dry run."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from advisor.domain import Market
from advisor.errors import CloudError
from advisor.runs.cloud.fleet import shared_out
from advisor.runs.cloud.plan import CloudOptions, refuse_unknown
from advisor.runs.launch_fields import dollars
from advisor.runs.processes import outcome_of
from advisor.runs.questions import VerificationRun
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.data import plan_anywhere

_MARKETS = {"any": (Market.SPOT, Market.ON_DEMAND), "spot": (Market.SPOT,), "on-demand": (Market.ON_DEMAND,)}
_HOURS, _QUEUE_MINUTES = 6.0, 15.0
_LONGEST_SECONDS = 60.0
# What the guest's own `sweep run` gets. A launch is named after these words, defaults too: the same
# command finds its own again, and a changed default is another sweep.
_SENT = (
    "preset",
    "networks",
    "tasks",
    "vcpus",
    "memory",
    "disks",
    "accelerator",
    "batch_sizes",
    "cache",
    "precision",
    "decoder",
    "rel_error",
    "repeats",
    "iterations",
    "executor",
    "memory_format",
    "stack",
    "measure_seconds",
    "data",
)
_SENT_FLAGS = ("retry_failed", "cudnn_benchmark", "synchronise_each_step")


def launches(sweep: SweepRun, since: datetime | None = None) -> tuple[CloudOptions, ...]:
    """A launch for each type of instance, each with its share of the budget; what was measured
    before `since` is measured anew. `UsageError` for what a guest would refuse, and for what is
    known to be wrong without asking AWS."""
    gpu = () if sweep.preset else ("cuda",)
    plan_anywhere(sweep.replace(accelerator=sweep.accelerator or gpu))
    regions = sweep.region or ("us-east-1",)
    whole = CloudOptions(
        instance=sweep.instance[0],
        budget_usd=dollars(sweep.budget),
        arguments=_arguments(sweep, since),
        disks=sweep.disks,
        needs_vcpus=max(sweep.vcpus, default=0.0),
        needs_mib=max(sweep.memory, default=0.0),
        region=regions[0],
        more_regions=regions[1:],
        markets=_MARKETS[sweep.market or "any"],
        database_parameter=sweep.database_parameter or "",
        since=since,
        data=sweep.data or "",
        **launch_values(sweep, _HOURS),
    )
    # A preset says itself what computes.
    shares = shared_out(whole, sweep.instance, names_gpu=not (sweep.preset or sweep.accelerator))
    for share in shares:
        refuse_unknown(share)
    return shares


def launch_values(question: SweepRun | VerificationRun, hours: float) -> dict[str, Any]:
    """Fields of `CloudOptions` that sweeps and verifications have; `hours` is the longest life
    where none is given."""
    profile = question.instance_profile or "advisor-guest"
    return {
        "owner": question.owner or _user(),
        "hours": question.hours or hours,
        "queue_minutes": question.queue or _QUEUE_MINUTES,
        "sweep_id": question.sweep_id or "",
        "bucket": question.bucket or os.environ.get("ADVISOR_BUCKET", ""),
        "subnet": question.subnet or "",
        "image": question.image or "",
        "profile": "" if profile == "none" else profile,
    }


def dry_run(words: Sequence[str]) -> Mapping[str, Any]:
    """The document of `advisor sweep run --on aws --dry-run`; `CloudError` where there is none."""
    try:
        document, failure = outcome_of([*words, "--dry-run", "-o", "json"], seconds=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        raise CloudError("AWS did not answer within {seconds} s", seconds=f"{_LONGEST_SECONDS:g}") from None
    if document is None:
        raise CloudError("{reason}", reason=failure or "AWS could not be asked")
    return document


def why_not(document: Mapping[str, Any]) -> str:
    """Why it cannot be launched, with what mends each reason; empty when it can."""
    if document["can_launch"]:
        return ""
    checks = [check for plan in document.get("plans", [document]) for check in plan["checks"]]
    missing = [check for check in checks if check["stops"] and not check["ok"]]
    reasons = dict.fromkeys(f"{check['check']}: {check['told']}; {check['mend']}" for check in missing)
    return ". ".join(reasons) or "nothing that fits is offered within this budget"


def _arguments(sweep: SweepRun, since: datetime | None) -> tuple[str, ...]:
    """Words of the guest's command. The time is part of the sweep's id, too: a later occurrence is
    another sweep."""
    words: list[str] = []
    fields = SweepRun.fields
    for name in _SENT:
        if value := getattr(sweep, name):
            words += [fields[name].option, fields[name].kind.text_of(value)]
    words += [fields[name].option for name in _SENT_FLAGS if getattr(sweep, name)]
    words += ["--fresh-since", since.astimezone(UTC).isoformat()] if since else []
    return tuple(words)


def _user() -> str:
    try:
        return re.sub(r"[^\w.@-]", "-", getpass.getuser())
    except (OSError, KeyError):
        return "unknown"
