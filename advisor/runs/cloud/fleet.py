"""Launches a question's instances on AWS: one, or one of each type in parallel, within a budget.

Each instance runs a separate sweep, with a separate id, tags and share of the budget. So the end of one does
not affect the others, and the reaper can tell them apart."""

from __future__ import annotations

import getpass
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import Market
from advisor.errors import AdvisorError, UsageError
from advisor.infra.aws.asking import Aws, LeavingClock
from advisor.infra.aws.errors import refuse_missing
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.reap import NotEndedError
from advisor.runs.cloud.plan import (
    CloudOptions,
    CloudPlan,
    accelerator_of,
    listed_usd_per_hour,
    plan_cloud,
    refuse_unknown,
    type_named,
)
from advisor.runs.cloud.sweep import CloudRun, Say, run_cloud
from advisor.runs.questions import VerificationRun, words_of
from advisor.runs.sweep_questions import Launch, SweepRun, dollars
from advisor.runs.sweeps.data import plan_anywhere

_MARKETS = {"any": (Market.SPOT, Market.ON_DEMAND), "spot": (Market.SPOT,), "on-demand": (Market.ON_DEMAND,)}
_HOURS, _QUEUE_MINUTES = 6.0, 15.0
# Fields about the launch, which the `sweep run` on the instance does not get.
_LAUNCH_FIELDS = (
    *Launch.asks,
    *("instance", "region", "market", "budget", "database_parameter", "max_minutes", "fresh_since"),
)


def launches(sweep: SweepRun, since: datetime | None = None) -> tuple[CloudOptions, ...]:
    """The launch of each type, with its share of the budget; trials from before `since` are measured again.
    `UsageError` for errors that show without asking AWS."""
    gpu = () if sweep.preset else ("cuda",)
    plan_anywhere(sweep.replace(accelerator=sweep.accelerator or gpu))
    regions = sweep.region or ("us-east-1",)
    anew = (f"--fresh-since={since.astimezone(UTC).isoformat()}",) if since else ()
    whole = CloudOptions(
        instance=sweep.instance[0],
        budget_usd=dollars(sweep.budget),
        # The launch's id is derived from these, so that the same command finds its launch again.
        arguments=(*words_of(sweep, without=_LAUNCH_FIELDS), *anew),
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
    # A preset names its accelerators itself.
    shares = shared_out(whole, sweep.instance, names_gpu=not (sweep.preset or sweep.accelerator))
    for share in shares:
        refuse_unknown(share)
    return shares


def launch_values(question: SweepRun | VerificationRun, hours: float) -> dict[str, Any]:
    """The fields of `CloudOptions` that sweeps and verifications share; `hours` is the default longest
    life."""
    profile = question.instance_profile or "advisor-guest"
    user = "unknown"
    with suppress(OSError, KeyError):
        user = re.sub(r"[^\w.@-]", "-", getpass.getuser())
    return {
        "owner": question.owner or user,
        "hours": question.hours or hours,
        "queue_minutes": question.queue or _QUEUE_MINUTES,
        "sweep_id": question.sweep_id or "",
        "bucket": question.bucket or os.environ.get("ADVISOR_BUCKET", ""),
        "subnet": question.subnet or "",
        "image": question.image or "",
        "profile": "" if profile == "none" else profile,
    }


# More types would exceed an account's quota, and be hard to follow in one terminal.
MOST_TYPES = 8


class InstanceRun(NamedTuple):
    """The result of one launch: its run, or its error and whether an instance had existed by then."""

    plan: CloudPlan
    run: CloudRun | None = None
    error: AdvisorError | None = None
    had_instance: bool = False


def shared_out(
    options: CloudOptions, instances: Sequence[str], *, names_gpu: bool
) -> tuple[CloudOptions, ...]:
    """The launch of each type. The budget is split by list price, so that each gets equal minutes, or equally
    if one has no price. With `names_gpu`, the trials of each launch name its GPU."""
    if len(instances) > MOST_TYPES:
        raise UsageError(
            "--instance takes {most_types} types at once, not {instances}",
            most_types=MOST_TYPES,
            instances=len(instances),
            field="instance",
        )
    catalog = load_catalog()
    types = [type_named(catalog, name) for name in instances]
    hourly = [listed_usd_per_hour(catalog, instance, options.region) for instance in types]
    prices = [instance for instance in hourly if instance is not None]
    parts = prices if len(prices) == len(instances) else [1.0] * len(instances)
    shares = []
    for instance, part in zip(types, parts, strict=True):
        gpu = (f"--accelerator={accelerator_of(instance, catalog)}",) if names_gpu else ()
        share = replace(options, arguments=(*options.arguments, *gpu))
        name = instance.name if len(instances) > 1 else ""
        shares.append(share_of(share, instance.name, part / sum(parts), name))
    return tuple(shares)


def share_of(options: CloudOptions, instance: str, part: float, name: str) -> CloudOptions:
    """The launch of one type, with its part of the budget, and `name` added to a given id."""
    own = f"{options.sweep_id}-{name.replace('.', '-')}" if options.sweep_id and name else options.sweep_id
    return replace(options, instance=instance, budget_usd=options.budget_usd * part, sweep_id=own)


def plan_fleet(options: Sequence[CloudOptions], aws: Aws) -> tuple[CloudPlan, ...]:
    """Check everything that the launches need, without creating anything. `UsageError` names the bad type."""
    plans = []
    for option in options:
        try:
            plans.append(plan_cloud(option, aws))
        except UsageError as error:
            raise UsageError(
                "{instance}, with its share of the budget: {error}", instance=option.instance, error=error
            ) from error
    return tuple(plans)


def run_fleet(plans: Sequence[CloudPlan], aws: Aws, say: Say) -> list[InstanceRun]:
    """Run all plans in parallel, each as `run_cloud` does; a failed one does not end the others. Ctrl-C ends
    all, and is raised again then. `CloudError` names what is missing before anything is launched."""
    for plan in plans:
        refuse_missing(plan.findings)
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=len(plans)) as pool:
        futures: list[Future[InstanceRun]] = []
        try:
            futures += (pool.submit(_instance_run, plan, aws, stop, say) for plan in plans)
            wait(futures)
        except BaseException:
            stop.set()
            wait(futures)
            for future in futures:  # an instance that may still run must be reported instead
                if not future.exception() and isinstance(error := future.result().error, NotEndedError):
                    raise error  # noqa: B904 - what interrupted it stays its context
            raise
    return [future.result() for future in futures]


def _instance_run(plan: CloudPlan, aws: Aws, stop: threading.Event, say: Say) -> InstanceRun:
    own = aws.by(LeavingClock(aws.clock, stop))
    name, had = plan.options.instance, list[LaunchedMachine]()
    try:
        run = run_cloud(plan, own, lambda line: say(f"{name}: {line}"), had.append)
        return InstanceRun(plan, run=run)
    except AdvisorError as error:
        say(f"{name}: {error}")
        return InstanceRun(plan, error=error, had_instance=bool(had))
