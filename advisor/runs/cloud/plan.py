"""The plan of `sweep run --on aws`: a launch of each type with its share of the budget, suitable types,
disks, checks, and the highest cost.

Each instance runs a separate sweep, with a separate id, tags and share of the budget. So the end of one does
not affect the others, and the reaper can tell them apart."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, load_catalog
from advisor.domain import (
    LIST,
    OBSERVED,
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    DiskChoice,
    DiskRate,
    InstanceType,
    Market,
)
from advisor.errors import LiveError, UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Finding
from advisor.infra.aws.guest.job import SWEEP_RUN
from advisor.infra.aws.launch_options import Sweep, Volume, checked_sweep_id, sweep_id_of
from advisor.infra.aws.preflight import Preflight, bucket_region, data_finding, launch_findings, preflight_of
from advisor.infra.aws.reap import refuse_too_small, usd_per_hour
from advisor.infra.aws.regions import InstanceRequirements, PriceOf
from advisor.infra.live.aws import on_demand
from advisor.infra.live.session import Deadline, Quote
from advisor.runs.questions import MOST_SIDE_BY_SIDE, VerificationRun, command_words
from advisor.runs.sweep_questions import Launch, SweepRun, dollars
from advisor.runs.sweeps.data import plan_anywhere

# The same default as for `--disks gp3` on this machine.
_DEFAULT_DISK_GIB = 500
# Further types would only be dearer.
_MOST_TYPES = 4
_MOST_TIMES_AS_DEAR = 2.0
_ON_AWS = "aws"
_NOT_NVIDIA = ("Gaudi", "Radeon")
_MARKETS = {"any": (Market.SPOT, Market.ON_DEMAND), "spot": (Market.SPOT,), "on-demand": (Market.ON_DEMAND,)}
_HOURS, _QUEUE_MINUTES = 6.0, 15.0
# Fields about the launch, which the `sweep run` on the instance does not get.
_LAUNCH_FIELDS = (
    *Launch.asks,
    *("instance", "region", "market", "budget", "database_parameter", "max_minutes", "fresh_since"),
)


class CloudOptions(Struct, frozen=True, kw_only=True):
    """A user's options for a launch; the advisor chooses for empty texts. `arguments` follow `command` on the
    instance; `needs_vcpus` and `needs_mib` are the largest trial's; `volumes` replace those for `disks`;
    `only_this_type` forbids similar types; `engine` is a pip requirement, `data` an address in S3."""

    instance: str
    budget_usd: float
    owner: str
    arguments: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    needs_vcpus: float = 0.0
    needs_mib: float = 0.0
    region: str = "us-east-1"
    more_regions: tuple[str, ...] = ()
    markets: tuple[Market, ...] = (Market.SPOT, Market.ON_DEMAND)
    hours: float = 6.0
    queue_minutes: float = 15.0
    sweep_id: str = ""
    bucket: str = ""
    database_parameter: str = ""
    subnet: str = ""
    image: str = ""
    profile: str = ""
    since: datetime | None = None
    command: str = SWEEP_RUN
    volumes: tuple[Volume, ...] = ()
    local_disk: bool = False
    only_this_type: bool = False
    engine: str = ""
    data: str = ""


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
        arguments=(*command_words(sweep, without=_LAUNCH_FIELDS), *anew),
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


def shared_out(
    options: CloudOptions, instances: Sequence[str], *, names_gpu: bool
) -> tuple[CloudOptions, ...]:
    """The launch of each type. The budget is split by list price, so that each gets equal minutes, or equally
    if one has no price. With `names_gpu`, the trials of each launch name its GPU."""
    if len(instances) > MOST_SIDE_BY_SIDE:
        raise UsageError(
            "--instance takes {most_types} types at once, not {instances}",
            most_types=MOST_SIDE_BY_SIDE,
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


class CloudPlan(Struct, frozen=True, kw_only=True):
    """A launch after its checks; `bucket_region` is empty without a bucket."""

    options: CloudOptions
    sweep: Sweep
    preflight: Preflight
    findings: tuple[Finding, ...]
    bucket_region: str

    @property
    def most_usd(self) -> float:
        """Upper bound of the bill: the budget plus a billing minute, or the cost of the longest life; the
        budget where no offer is known."""
        if not self.preflight.options:
            return self.sweep.budget_usd
        hourly = max(usd_per_hour(option, self.sweep) for option in self.preflight.options)
        return min(self.sweep.budget_usd + hourly / 60, hourly * self.sweep.hours)


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


def plan_cloud(options: CloudOptions, aws: Aws) -> CloudPlan:
    """Check everything that the launch needs, without creating anything. `UsageError` if the budget is too
    small."""
    catalog = load_catalog()
    types = serving_types(catalog, options)
    sweep = Sweep(
        id=sweep_id(options),
        owner=options.owner,
        budget_usd=options.budget_usd,
        hours=options.hours,
        volumes=options.volumes or volumes(catalog, options.disks),
        profile=options.profile,
    )
    wish = InstanceRequirements(
        types=types,
        markets=options.markets,
        price_of=bounded_price(aws),
        subnet=options.subnet,
        image=options.image,
    )
    preflight = preflight_of(aws, regions_of(catalog, options), wish, sweep)
    roots = (region.image.root_gib for region in preflight.regions.values())
    sweep = replace(sweep, root_gib=max((sweep.root_gib, *roots)))  # an image may need a larger disk
    home, findings = _checked(options, aws, preflight, sweep)
    if preflight.options:
        cheapest = min(preflight.options, key=lambda option: usd_per_hour(option, sweep))
        refuse_too_small(sweep.budget_usd, usd_per_hour(cheapest, sweep), str(cheapest))
    return CloudPlan(options=options, sweep=sweep, preflight=preflight, findings=findings, bucket_region=home)


def _checked(
    options: CloudOptions, aws: Aws, preflight: Preflight, sweep: Sweep
) -> tuple[str, tuple[Finding, ...]]:
    """The bucket's region (empty without a bucket), and the findings of all checks."""
    if not preflight.caller:
        return "", preflight.findings
    home, about = bucket_region(aws, options.region, options.bucket)
    findings = [*preflight.findings, *launch_findings(aws, preflight, sweep, options.instance), about]
    if options.data:
        findings.append(data_finding(preflight.caller, options.profile, options.data))
    return home, tuple(findings)


def refuse_unknown(options: CloudOptions) -> None:
    """Raise `UsageError` for errors that show without asking AWS: types, disks, regions, names."""
    catalog = load_catalog()
    serving_types(catalog, options)
    sweep_id(options)
    volumes(catalog, options.disks)
    regions_of(catalog, options)


def regions_of(catalog: Catalog, options: CloudOptions) -> tuple[str, ...]:
    """The regions in the order in which they are tried; `UsageError` for an unknown one."""
    regions = tuple(dict.fromkeys((options.region, *options.more_regions)))
    for region in regions:
        catalog.require_region(region, _ON_AWS)
    return regions


def sweep_id(options: CloudOptions) -> str:
    """The given id, or one derived from the options, so that the same command finds its launch again."""
    if options.sweep_id:
        anew = f"-{options.since.astimezone(UTC):%Y%m%dT%H%M}" if options.since else ""
        return checked_sweep_id(options.sweep_id + anew)
    return sweep_id_of(options.owner, options.instance, *options.arguments)


def serving_types(catalog: Catalog, options: CloudOptions) -> tuple[InstanceType, ...]:
    """The wanted type, then large enough ones of its family with the same GPUs, cheapest first."""
    wanted = type_named(catalog, options.instance)

    def is_large_enough(instance: InstanceType) -> bool:
        return instance.vcpus >= options.needs_vcpus and instance.memory_mib > options.needs_mib

    if not is_large_enough(wanted):
        raise UsageError(
            "{name} is too small for the largest trial ({vcpus:g} vCPUs, {gib:g} GiB)",
            name=wanted.name,
            vcpus=options.needs_vcpus,
            gib=options.needs_mib / 1024,
            hint="take a larger --instance, or smaller --vcpus and --memory",
        )
    if options.only_this_type:
        return (wanted,)
    own = listed_usd_per_hour(catalog, wanted, options.region) or math.inf
    others = []
    for other in catalog.instances(_ON_AWS):
        if other != wanted and other.current and _make(other) == _make(wanted) and is_large_enough(other):
            usd = listed_usd_per_hour(catalog, other, options.region)
            if usd is not None and usd <= _MOST_TIMES_AS_DEAR * own:
                others.append((usd, other.name, other))
    return (wanted, *(other for *_, other in sorted(others)[: _MOST_TYPES - 1]))


def type_named(catalog: Catalog, name: str) -> InstanceType:
    """AWS's instance type of that name; `UsageError` suggests the nearest names."""
    return catalog.instance(catalog.name_of(name, _ON_AWS), _ON_AWS)


def listed_usd_per_hour(catalog: Catalog, instance: InstanceType, region: str) -> float | None:
    """The catalogue's on-demand price of a type; None if it has none."""
    price = catalog.price(instance.name, region, Market.ON_DEMAND, _ON_AWS)
    return price.usd_per_hour if price else None


def _make(instance: InstanceType) -> tuple[object, ...]:
    """The facts, apart from size, on which measurements depend."""
    family = instance.name.partition(".")[0]
    return family, instance.cpu.model, instance.gpu_name, instance.gpu_count, instance.gpu_fraction


def volumes(catalog: Catalog, texts: Sequence[str]) -> tuple[Volume, ...]:
    """One volume for each AWS disk type; named rates, `unlimited` and `local` need none."""
    by_type: dict[str, Volume] = {}
    for text in texts:
        if "=" in text or text.strip().lower() in ("unlimited", "local"):
            continue
        disk_type, size = catalog.disks.parse(text)
        if disk_type in by_type:
            raise UsageError(
                "{disk_type} is asked for twice", disk_type=disk_type, hint="one volume of a type is mounted"
            )
        order = DiskChoice(type=disk_type, size_gib=size or _DEFAULT_DISK_GIB)
        by_type[disk_type] = volume_of(order, catalog.disks.rate(order))
    return tuple(by_type.values())


def volume_of(order: DiskChoice, rate: DiskRate) -> Volume:
    """The volume of an order of known size; EC2 refuses io1 and io2 without a number of IOPS."""
    iops = order.iops or (rate.read_iops if order.type in ("io1", "io2") else None)
    return Volume(
        type=order.type,
        size_gib=math.ceil(order.size_gib or 0.0),
        iops=round(iops) if iops else None,
        mib_per_second=round(order.mib_per_second) if order.mib_per_second else None,
    )


def bounded_price(aws: Aws) -> PriceOf:
    """A function that gives an upper bound of a type's price: AWS's on-demand price today, else the
    catalogue's list price (never an estimate), else None."""
    catalog = load_catalog()
    deadline = Deadline(30.0, 12.0)

    @cache
    def price_of(name: str, region: str) -> float | None:
        today = aws.clock.now().date()
        with suppress(LiveError):
            for answer in deadline.within("AWS prices", lambda: list(on_demand([name], region, today))):
                if isinstance(answer, Quote):
                    return answer.usd_per_hour
        price = catalog.price(name, region, Market.ON_DEMAND, _ON_AWS)
        return price.usd_per_hour if price and price.kind in (LIST, OBSERVED) else None

    return price_of


def accelerator_of(instance: InstanceType, catalog: Catalog) -> Accelerator:
    """`cpu`, or the GPU by Ray's name: `cuda:T4`, with memory if the cloud has several sizes of it
    (`cuda:A100-40GB`). `UsageError` for slices of a card, and GPUs on which trials do not run."""
    if instance.gpu_name is None:
        return ON_CPU
    if instance.gpu_name.startswith(_NOT_NVIDIA) or instance.gpu_fraction < 1:
        raise UsageError(
            "trials run on whole NVIDIA GPUs (and CPUs), not on {instance}'s {part}{gpu}",
            instance=instance.name,
            part="slice of a " if instance.gpu_fraction < 1 else "",
            gpu=instance.gpu_name,
            field="instance",
            hint="take another --instance",
        )
    chip, memory = _chip_memory(instance.gpu_name)
    cards = {_chip_memory(other.gpu_name) for other in catalog.instances(instance.cloud) if other.gpu_name}
    sizes = [size for other, size in cards if other == chip]
    return replace(ON_ANY_GPU, gpu=f"{chip}-{memory}" if len(sizes) > 1 else chip)


def _chip_memory(name: str) -> tuple[str, str]:
    """'A100-SXM4-40GB' -> ('A100', '40GB'); the memory is empty if the name lacks it."""
    chip, *rest = name.upper().split("-")
    return chip, next((part for part in rest if part.endswith("GB")), "")
