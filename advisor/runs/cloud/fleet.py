"""Several types at once: one instance of each, side by side, within one budget.

Each is a sweep of its own, with its own id, tags and share of the budget: what ends one of them
touches none of the others, and the reaper knows each by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, load_catalog
from advisor.domain import InstanceType
from advisor.errors import AdvisorError, UsageError
from advisor.infra.aws.asking import Aws, LeavingClock
from advisor.infra.aws.budget import NotEndedError
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.permissions import refuse_missing
from advisor.runs.cloud.plan import (
    CloudOptions,
    CloudPlan,
    accelerator_of,
    listed_usd_per_hour,
    plan_cloud,
    type_named,
)
from advisor.runs.cloud.sweep import CloudRun, Say, run_cloud

# One account's quota, one user's terminal: more are better several commands.
MOST_TYPES = 8


class InstanceRun(Struct, frozen=True):
    """The result with one type: a run, or the error that ended it, and whether there was an instance
    before that."""

    plan: CloudPlan
    run: CloudRun | None = None
    error: AdvisorError | None = None
    had_instance: bool = False


def shared_out(
    options: CloudOptions, instances: Sequence[str], *, names_gpu: bool
) -> tuple[CloudOptions, ...]:
    """The question for each type, with a share of the budget that pays each as many minutes (by the known
    on-demand prices; where one is missing, equal parts). With `names_gpu` each one's trials are of its
    own GPU."""
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
    alone = len(instances) == 1
    return tuple(
        replace(
            options,
            instance=name,
            budget_usd=options.budget_usd * part / sum(parts),
            arguments=(*options.arguments, *_gpu_words(instance, catalog, names_gpu)),
            sweep_id=options.sweep_id
            if alone
            else (options.sweep_id and f"{options.sweep_id}-{name.replace('.', '-')}"),
        )
        for name, instance, part in zip(instances, types, parts, strict=True)
    )


def plan_fleet(options: Sequence[CloudOptions], aws: Aws) -> tuple[CloudPlan, ...]:
    """Look at everything that each launch needs; nothing is made. `UsageError` names the type
    that cannot be asked for like this."""
    return tuple(_planned(option, aws) for option in options)


def run_fleet(plans: Sequence[CloudPlan], aws: Aws, say: Say) -> list[InstanceRun]:
    """Run each as `run_cloud` does, all at once; what goes wrong with one ends no other.

    Ctrl-C ends all of them, and is raised again when everything of all of them is ended.
    `CloudError` names what is missing for any of them before one is launched.
    """
    for plan in plans:
        refuse_missing(plan.findings)
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=len(plans)) as pool:
        futures: list[Future[InstanceRun]] = []
        try:
            futures += (pool.submit(_ran, plan, aws, stop, say) for plan in plans)
            wait(futures)
        except BaseException:
            stop.set()
            wait(futures)
            _refuse_not_ended(futures)
            raise
    return [future.result() for future in futures]


def _refuse_not_ended(futures: Sequence[Future[InstanceRun]]) -> None:
    """Nobody is to read that all was ended where something may run on."""
    for future in futures:
        if not future.exception() and isinstance(error := future.result().error, NotEndedError):
            raise error


def _planned(options: CloudOptions, aws: Aws) -> CloudPlan:
    try:
        return plan_cloud(options, aws)
    except UsageError as error:
        raise UsageError(
            "{instance}, with its share of the budget: {error}", instance=options.instance, error=error
        ) from error


def _ran(plan: CloudPlan, aws: Aws, stop: threading.Event, say: Say) -> InstanceRun:
    own = aws.by(LeavingClock(aws.clock, stop))
    name, had = plan.options.instance, list[LaunchedMachine]()
    try:
        run = run_cloud(plan, own, lambda line: say(f"{name}: {line}"), had.append)
        return InstanceRun(plan, run=run)
    except AdvisorError as error:
        say(f"{name}: {error}")
        return InstanceRun(plan, error=error, had_instance=bool(had))


def _gpu_words(instance: InstanceType, catalog: Catalog, names_gpu: bool) -> tuple[str, ...]:
    return ("--accelerator", str(accelerator_of(instance, catalog))) if names_gpu else ()
