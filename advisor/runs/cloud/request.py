"""What a sweep on AWS is asked with, checked; what it would launch."""

from __future__ import annotations

import getpass
import math
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from advisor.domain import Market
from advisor.domain.workload import is_own
from advisor.errors import CloudError, UsageError
from advisor.runs.processes import outcome_of
from advisor.runs.sweeps.request import options_from

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudOptions
    from advisor.runs.sweeps.sweeping import SweepOptions


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
        raise UsageError(
            "{value}: only with --on aws", value=told, hint="add it, or leave that out"
        )


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
    from advisor.runs.budget import parse_budget

    if not text:
        raise UsageError("--on aws needs --budget, as 5USD: it is never passed")
    usd = parse_budget(text, usd_per_hour=math.inf).usd
    if usd is None:
        raise UsageError(
            "--on aws takes a --budget of money, as 5USD, not '{given}'", given=text, field="on"
        )
    return usd


def _tag_value(text: str) -> str:
    """Tags of AWS take letters, digits, blanks and + - = . _ : / @."""
    if len(text) > 100 or not re.fullmatch(r"[\w +\-=.:/@]+", text):
        raise UsageError(
            "--owner '{given}' is no tag: letters, digits and + - = . _ : / @",
            given=text,
            field="owner",
        )
    return text


def _user() -> str:
    try:
        return re.sub(r"[^\w.@-]", "-", getpass.getuser())
    except (OSError, KeyError):
        return "unknown"


MARKETS = {
    "any": (Market.SPOT, Market.ON_DEMAND),
    "spot": (Market.SPOT,),
    "on-demand": (Market.ON_DEMAND,),
}
_NAMES = (*NAMES, "regions", "market", "database_parameter")
_HOURS = 6.0
# Answers of `sweep run` that mean nothing on another machine, and what is wrong with each.
_NOT_THERE = {
    "data": "lies on this machine",
    "disk_paths": "is of this machine; --on aws mounts a volume for each of --disks",
    "ray_address": "is a cluster of yours; --on aws brings its own machine",
    "usd_per_hour": "is known of an instance",
    "adaptive": "is not for --on aws; give the grid",
    "metrics_port": "is of this machine",
    "metrics_file": "is of this machine",
    "log_file": "is of this machine",
    "target_throughput": "goes with --adaptive",
}
# Those that the guest's own `sweep run` gets as they are.
_SENT = (
    "preset", "networks", "tasks", "vcpus", "memory", "disks", "accelerator", "batch_sizes",
    "cache", "precision", "decoder", "rel_error", "repeats", "iterations", "executor",
)  # fmt: skip


def split_cloud(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers that are no option of these, and these."""
    return split(answers, _NAMES)


def cloud_options_from(
    answers: Mapping[str, Any], cloud: Mapping[str, Any], grid: SweepOptions
) -> tuple[CloudOptions, ...]:
    """The checked options for each type of --instance; `UsageError` names the flag that is
    missing or wrong."""
    from advisor.runs.cloud.fleet import shared_out
    from advisor.runs.cloud.plan import CloudOptions

    for name, why in _NOT_THERE.items():
        if answers.get(name):
            flag = name.replace("_", "-").replace("disk-paths", "disk-path")
            raise UsageError("--{flag} {why}", flag=flag, why=why)
    if any(map(is_own, grid.networks)):
        raise UsageError(
            "--networks: a file of your own is not sent to AWS",
            field="networks",
            hint="name known networks",
        )
    instances = _instances(answers["instance"])
    regions = cloud["regions"] or ("us-east-1",)
    asked = CloudOptions(
        instance=instances[0],
        budget_usd=dollars(answers["budget"]),
        arguments=_sent(answers),
        disks=tuple(grid.disks),
        needs_vcpus=max(grid.vcpus, default=0.0),
        needs_mib=max(grid.memory_mib, default=0.0),
        region=regions[0],
        more_regions=tuple(regions[1:]),
        markets=MARKETS[cloud["market"] or "any"],
        database_parameter=cloud["database_parameter"] or "",
        since=answers.get("fresh_since"),
        **launch_values(cloud, _HOURS),
    )
    # A preset says itself what computes.
    names_gpu = not (answers["preset"] or answers["accelerator"])
    return shared_out(asked, instances, names_gpu=names_gpu)


def _instances(text: str | None) -> tuple[str, ...]:
    """'g4dn.xlarge,g6.xlarge' -> each once."""
    names = dict.fromkeys(filter(None, (part.strip() for part in (text or "").split(","))))
    if not names:
        raise UsageError("--on aws needs --instance, as g4dn.xlarge")
    return tuple(names)


def _sent(answers: Mapping[str, Any]) -> tuple[str, ...]:
    """As words of the guest's command."""
    given = {name: answers[name] for name in _SENT if answers[name]}
    words = ((f"--{name.replace('_', '-')}", str(value)) for name, value in given.items())
    flags = ("--retry-failed",) if answers["retry_failed"] else ()
    # The time is part of the sweep's id, too: a later occurrence is another sweep.
    since = answers.get("fresh_since")
    fresh = ("--fresh-since", since.astimezone(UTC).isoformat()) if since else ()
    return (*(word for pair in words for word in pair), *flags, *fresh)


def owner_and_budget(answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> tuple[str, float]:
    """Whose such a sweep is, and the dollars that it may spend; `UsageError` for what the command
    would refuse, as far as AWS need not be asked."""
    from advisor.runs.cloud.plan import refuse_unknown

    options = fleet_asked(answers, cloud)
    for one in options:
        refuse_unknown(one)
    return options[0].owner, sum(one.budget_usd for one in options)


def fleet_asked(answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> tuple[CloudOptions, ...]:
    """The options for each type of instance, of a sweep that a guest would not refuse."""
    from advisor.runs.sweeps.data import plan_anywhere

    gpu = None if answers["preset"] else "cuda"
    grid = options_from({**answers, "accelerator": answers["accelerator"] or gpu})
    options = cloud_options_from(answers, cloud, grid)
    plan_anywhere(grid)  # what the guest would refuse is not paid for
    return options


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
