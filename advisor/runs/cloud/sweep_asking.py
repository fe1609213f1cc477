"""What is asked of `sweep run --on aws`, checked as far as AWS need not be asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from advisor.domain import Market
from advisor.domain.references import is_own
from advisor.errors import UsageError
from advisor.runs.cloud.asking import NAMES, dollars, launch_values, split
from advisor.runs.sweeps.asking import options_from

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudOptions
    from advisor.runs.sweeps.sweeping import SweepOptions

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
            raise UsageError(f"--{flag} {why}")
    if any(map(is_own, grid.networks)):
        raise UsageError("--networks: a file of your own is not sent to AWS; name known networks")
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
    from advisor.runs.sweeps.checking import plan_anywhere

    gpu = None if answers["preset"] else "cuda"
    grid = options_from({**answers, "accelerator": answers["accelerator"] or gpu})
    options = cloud_options_from(answers, cloud, grid)
    plan_anywhere(grid)  # what the guest would refuse is not paid for
    return options
