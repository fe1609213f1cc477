"""`advisor sweep run --on aws`: its options, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.cloud_options import NAMES, dollars, launch_options, launch_values, split
from advisor.cli.parameters import Name, Text
from advisor.domain import Market
from advisor.domain.references import is_own
from advisor.errors import UsageError

if TYPE_CHECKING:
    from advisor.operations.cloud_plan import CloudOptions
    from advisor.operations.sweeping import SweepOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_MARKETS = {
    "any": (Market.SPOT, Market.ON_DEMAND),
    "spot": (Market.SPOT,),
    "on-demand": (Market.ON_DEMAND,),
}
_OPTIONS = (
    click.option("--region", "regions", type=Text("--region"), multiple=True, metavar="REGION",
                 help="Of --on aws; more of them are tried in this order.  [us-east-1]"),
    click.option("--market", type=Name("market", tuple(_MARKETS)), help="Of --on aws.  [any]"),
    click.option("--database-parameter", type=Text("--database-parameter"),
                 help="SSM parameter with the URL of a shared PostgreSQL."),
)  # fmt: skip
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


def cloud_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return launch_options(command)


def split_cloud(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers that are no option of these, and these."""
    return split(answers, _NAMES)


def cloud_options_from(
    answers: Mapping[str, Any], cloud: Mapping[str, Any], grid: SweepOptions
) -> tuple[CloudOptions, ...]:
    """The checked options for each type of --instance; `UsageError` names the flag that is
    missing or wrong."""
    from advisor.operations.cloud_fleet import shared_out
    from advisor.operations.cloud_plan import CloudOptions

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
        markets=_MARKETS[cloud["market"] or "any"],
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
