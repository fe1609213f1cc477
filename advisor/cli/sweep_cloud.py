"""`advisor sweep run --on aws`: its options, and what is told."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli.parameters import Name, Positive, Text
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
    click.option(
        "--on", type=Name("place", ("here", "aws")), default="here", show_default=True,
        help="aws: on an instance of its own (--instance, --budget), which is ended after it.",
    ),
    click.option("--dry-run", is_flag=True, help="Of --on aws: look, launch nothing."),
    click.option("--region", "regions", type=Text("--region"), multiple=True, metavar="REGION",
                 help="Of --on aws; more of them are tried in this order.  [us-east-1]"),
    click.option("--market", type=Name("market", tuple(_MARKETS)), help="Of --on aws.  [any]"),
    click.option("--hours", type=Positive("--hours", most=168), help="The longest life.  [6]"),
    click.option("--queue", type=Positive("--queue", most=10_080), metavar="MINUTES",
                 help="How long to wait for capacity.  [15]"),
    click.option("--owner", type=Text("--owner"), help="Whose it is, as a tag.  [you]"),
    click.option("--sweep-id", type=Text("--sweep-id"), help="Its name.  [made of what is asked]"),
    click.option("--bucket", type=Text("--bucket"),
                 help="Of S3, for jobs and results.  [ADVISOR_BUCKET]"),
    click.option("--database-parameter", type=Text("--database-parameter"),
                 help="SSM parameter with the URL of a shared PostgreSQL."),
    click.option("--subnet", type=Text("--subnet"), help="Instead of the default ones."),
    click.option("--image", type=Text("--image"), help="Instead of AWS's newest with the driver."),
    click.option("--instance-profile", type=Text("--instance-profile"),
                 help="Role of the instance; none for none.  [advisor-guest]"),
)  # fmt: skip
_NAMES = (
    "on", "dry_run", "regions", "market", "hours", "queue", "owner", "sweep_id", "bucket",
    "database_parameter", "subnet", "image", "instance_profile",
)  # fmt: skip
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
    return command


def split_cloud(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers that are no option of these, and these."""
    own = {name: answers[name] for name in _NAMES}
    return {name: value for name, value in answers.items() if name not in own}, own


def refuse_without_aws(cloud: Mapping[str, Any]) -> None:
    """These options mean nothing here, and would be thought to launch something."""
    given = [f"--{name.replace('_', '-')}" for name in _NAMES[1:] if cloud[name]]
    if given:
        told = ", ".join(given).replace("--regions", "--region")
        raise UsageError(f"{told}: only with --on aws; add it, or leave that out")


def cloud_options_from(
    answers: Mapping[str, Any], cloud: Mapping[str, Any], grid: SweepOptions
) -> CloudOptions:
    """The checked options; `UsageError` names the flag that is missing or wrong."""
    from advisor.operations.cloud_plan import CloudOptions

    for name, why in _NOT_THERE.items():
        if answers.get(name):
            raise UsageError(f"--{name.removesuffix('s').replace('_', '-')} {why}")
    if any(map(is_own, grid.networks)):
        raise UsageError("--networks: a file of your own is not sent to AWS; name known networks")
    if not answers["instance"]:
        raise UsageError("--on aws needs --instance, as g4dn.xlarge")
    regions = cloud["regions"] or ("us-east-1",)
    return CloudOptions(
        instance=answers["instance"],
        budget_usd=_dollars(answers["budget"]),
        arguments=_sent(answers),
        disks=tuple(grid.disks),
        needs_vcpus=max(grid.vcpus, default=0.0),
        needs_mib=max(grid.memory_mib, default=0.0),
        owner=_tag_value(cloud["owner"] or _user()),
        region=regions[0],
        more_regions=tuple(regions[1:]),
        markets=_MARKETS[cloud["market"] or "any"],
        hours=cloud["hours"] or 6.0,
        queue_minutes=cloud["queue"] or 15.0,
        sweep_id=cloud["sweep_id"] or "",
        bucket=cloud["bucket"] or os.environ.get("ADVISOR_BUCKET", ""),
        database_parameter=cloud["database_parameter"] or "",
        subnet=cloud["subnet"] or "",
        image=cloud["image"] or "",
        profile=_profile(cloud["instance_profile"]),
        since=answers.get("fresh_since"),
    )


def _dollars(text: str | None) -> float:
    from advisor.operations.adaptive.budget import parse_budget

    if not text:
        raise UsageError("--on aws needs --budget, as 5USD: it is never passed")
    usd = parse_budget(text, usd_per_hour=math.inf).usd
    if usd is None:
        raise UsageError(f"--on aws takes a --budget of money, as 5USD, not '{text}'")
    return usd


def _sent(answers: Mapping[str, Any]) -> tuple[str, ...]:
    """As words of the guest's command; a GPU is what one launches for."""
    given = {name: answers[name] for name in _SENT if answers[name]}
    if not given.get("preset"):
        given.setdefault("accelerator", "cuda")
    words = ((f"--{name.replace('_', '-')}", str(value)) for name, value in given.items())
    flags = ("--retry-failed",) if answers["retry_failed"] else ()
    # The time is part of the sweep's id, too: a later occurrence is another sweep.
    since = answers.get("fresh_since")
    fresh = ("--fresh-since", since.astimezone(UTC).isoformat()) if since else ()
    return (*(word for pair in words for word in pair), *flags, *fresh)


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


def _profile(text: str | None) -> str:
    return "" if text == "none" else text or "advisor-guest"
