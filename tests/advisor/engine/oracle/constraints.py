"""The table of what a request may limit: one line a limit. A new limit is one more line.

`draw` and `tighten` give changes to a request, and take what random numbers come from (hypothesis shrinks
them); None: does not go with this request. `met` judges a point by what the words say. Limits with a `reason`
stand in the order in which a type is judged: it is rejected for the first one that none of its points meets,
of those that meet all before it."""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from advisor.domain import DiskChoice, Market, Range, Task

from .points import BATCHES


def between(random, low, high):
    """A number between two, evenly in its logarithm."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def rarely(share, change):
    """The change in so many of the requests."""
    return lambda random, *of: (change(random, *of) or {}) if random.random() < share else {}


def where(goes, change):
    return lambda random, request, world: change(random, request, world) if goes(request) else {}


def sometimes(share, field, low, high):
    """A number between two in so many of the requests."""
    return rarely(share, lambda random, *_: {field: between(random, low, high)})


def one_of(share, field, values):
    """One of the values in so many of the requests."""
    return rarely(share, lambda random, *_: {field: random.choice(values)})


def times(field, low, high, start=None):
    """What is limited, limited more; what is free, held to `start` times a factor."""

    def tighten(random, request, world):
        value = getattr(request, field)
        value = start if value is None else value
        return None if value is None else {field: value * between(random, low, high)}

    return tighten


def no_more(field, start):
    """A whole number that is no larger, `start` at most."""
    return lambda random, request, world: {field: random.randint(1, getattr(request, field) or start)}


# Quota of on-demand instances (commitments count there) and of spot ones, by the first letters of a
# family: docs.aws.amazon.com, "Amazon EC2 instance type quotas".
QUOTAS = {
    "g gr vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "a c d h i im is m r t z": ("L-1216C47A", "L-34B43A08"),
    "x": ("L-7295265B", "L-E3A00192"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-5480EFD2"),
}
_CODES = {letters: codes for families, codes in QUOTAS.items() for letters in families.split()}


def quota_of(instance, market):
    """The code of what an instance counts against; None: not known, or none."""
    if instance.cloud != "aws":
        return None
    letters, digits = re.match(r"([a-z]+)(\d*)", instance.name).groups()
    spot = market is Market.SPOT
    if letters not in _CODES or (spot and letters == "p" and int(digits) >= 5):  # quotas of their own
        return None
    return _CODES[letters][spot]


def left_of_quota(request, instance):
    """vCPUs that may still be started of what the instance counts against."""
    return dict(request.vcpu_quota).get(quota_of(instance, request.market), math.inf)


def less_quota(random, request, world):
    left = request.vcpu_quota
    if not left:
        return _quotas(random, request, world)
    code, vcpus = random.choice(left)
    return {"vcpu_quota": tuple({**dict(left), code: int(vcpus * random.random())}.items())}


def _quotas(random, request, world):
    spot = request.market is Market.SPOT
    families = random.sample(["g", "g", "p", "m", "x"], random.randint(1, 3))
    sizes = (0, 4, 8, 16, 40, 96, 200, 500)
    return {"vcpu_quota": tuple({_CODES[each][spot]: random.choice(sizes) for each in families}.items())}


def a_range(share, field, low, high):
    """From or to a number between two, or both, in so many of the requests."""

    def draw(random, request, world):
        ends = sorted(_rounded(between(random, low, high)) for _ in range(2))
        return {field: Range(*(end if random.random() < 0.6 else None for end in ends))}

    return rarely(share, draw)


def narrower(field, low, high):
    """One end drawn in."""

    def tighten(random, request, world):
        wanted = getattr(request, field)
        least, most = wanted.least or low, wanted.most or high
        if least >= most:
            return None
        end = _rounded(between(random, least, most), least, most)
        return {field: replace(wanted, **{random.choice(("least", "most")): end})}

    return tighten


def _rounded(value, least=0.0, most=math.inf):
    """As users type it, so that it meets what is sold."""
    digits = 1 if value < 10 else 0
    return min(max(round(value, digits), least), most)


NVIDIA = ("T4", "A10G", "A100", "V100")
DISKS = {
    "aws": "gp3 gp3:300GiB gp3:400GiB:9000iops:400MiB/s gp2:1000GiB io2:200GiB:20000iops st1:2000GiB "
    "instance_store",
    "gcp": "pd-ssd pd-balanced:500GiB pd-standard:4000GiB gp3",
}


class Limit(NamedTuple):
    """One line of the table."""

    name: str
    draw: Callable[..., dict[str, Any]] = lambda random, request, world: {}
    tighten: Callable[..., dict[str, Any] | None] = lambda random, request, world: None
    met: Callable[..., bool] = lambda request, point: True
    reason: str = ""


def _a_run(random, request, world):
    kind = random.choice([None, None, "epochs", "samples"])
    if kind is None:
        return {}
    return {kind: between(random, 0.2, 90) if kind == "epochs" else random.randint(1000, 10**9)}


def _some_gpus(random, request, world):
    names = [random.choice([*world.cards, *NVIDIA]) for _ in range(random.randint(1, 4))]
    return {"gpus": tuple(sorted(set(names)))}


def _fewer_gpus(random, request, world):
    return {"gpus": (random.choice(request.gpus or (*world.cards, *NVIDIA)),)}


def _one_region(random, request, world):
    if request.region or request.cloud == "any":
        return None
    return {"region": random.choice(world.regions[request.cloud])}


def _one_cloud(random, request, world):
    return {"cloud": random.choice(world.clouds)} if request.cloud == "any" else None


def _one_disk(random, request, world):
    if request.disk is not None or request.disk_types:
        return None
    known = DISKS.get(request.cloud, DISKS["aws"])
    return {"disk": _disk(random.choice(known.split()), request.dataset)}


def _fewer_disk_types(random, request, world):
    known = request.disk_types or world.disk_types(request.cloud)
    if request.disk is not None or not known:
        return None
    return {"disk_types": tuple(random.sample(known, random.randint(1, len(known))))}


def _disk(text, dataset):
    kind, *parts = text.split(":")
    number = {part.lstrip("0123456789"): float(part.rstrip("GiBopsM/")) for part in parts}
    size = number.get("GiB")
    if size is not None:  # not smaller than what would be chosen: that is no tightening
        size = max(size, math.ceil(1.2 * dataset.total_mib / 1024))
    return DiskChoice(type=kind, size_gib=size, iops=number.get("iops"), mib_per_second=number.get("MiB/s"))


def _a_target(random, request, world):
    """More where several instances may share the work."""
    draw = sometimes(0.65, "target_throughput", 3, 1500 * request.max_count**1.5)
    return draw(random, request, world)


def _one_batch(random, request, world):
    if request.batch_size or request.task is Task.PREPROCESSING:
        return None
    return {"batch_size": random.choice(BATCHES)}


def _surer(random, request, world):
    return {"confidence": request.confidence + random.random() * (0.995 - request.confidence)}


def _least_memory(random, request, world):
    now = request.min_gpu_memory_mib or 8 * 1024
    return {"min_gpu_memory_mib": now * between(random, 1, 3)}


def _up_to(surely, limit, at_the_median=None):
    def met(request, point):
        most, value = getattr(request, limit), point.deciding(request, surely, at_the_median or surely)
        return most is None or (value is not None and value <= most)

    return met


def _soon_read(request, point):
    """The first epoch takes at most twice as long as one at the target, or as a later one."""
    if request.task is not Task.TRAINING or request.run_samples is not None:
        return True
    # Without a target a smaller batch than the advisor's least (8) is slower for nothing: its first epoch
    # takes as long, and only its later ones longer.
    if request.target_throughput is None and request.batch_size is None and point.batch < 8:
        return False
    first = point.deciding(request, "first_lower", "first_median")
    return 2 * first >= (
        request.target_throughput or point.deciding(request, "lower", "median") / point.count
    )


def goes_with(test, *of):
    """A limit of those questions that it goes with."""
    return [where(test, change) for change in of]


of_inference = partial(goes_with, lambda request: request.task is Task.INFERENCE)
of_what_is_shared = partial(goes_with, lambda request: request.task is not Task.TRAINING)
of_runs = partial(goes_with, lambda request: request.run_samples)

LIMITS = (
    Limit("cloud", tighten=_one_cloud),
    Limit("region", tighten=_one_region),
    Limit("GPU", rarely(0.1, _some_gpus), _fewer_gpus),
    Limit("GPU memory", sometimes(0.06, "min_gpu_memory_mib", 8e3, 9e4), _least_memory),
    Limit(
        "most GPU memory",
        sometimes(0.05, "max_gpu_memory_mib", 9e3, 2e5),
        times("max_gpu_memory_mib", 0.2, 1, start=9e4),
    ),
    Limit(
        "compute capability",
        a_range(0.06, "compute_capability", 5.0, 9.5),
        narrower("compute_capability", 5.0, 12.0),
    ),
    Limit("vCPUs", a_range(0.06, "vcpus", 2, 200), narrower("vcpus", 2, 200)),
    Limit("RAM", a_range(0.06, "memory_mib", 8e3, 2e6), narrower("memory_mib", 8e3, 2e6)),
    Limit(
        "no CPUs",
        one_of(0.05, "accelerated_only", (True,)),
        lambda random, request, world: {"accelerated_only": True},
    ),
    Limit("GPUs of an instance", one_of(0.15, "max_gpus", (1, 2, 3, 4)), no_more("max_gpus", 8)),
    Limit("instances", *of_what_is_shared(one_of(0.4, "max_count", (2, 3, 4, 7)), no_more("max_count", 1))),
    Limit(
        "quota",
        rarely(0.15, _quotas),
        less_quota,
        lambda request, point: point.count * point.instance.vcpus <= left_of_quota(request, point.instance),
    ),
    Limit("batch", rarely(0.3, lambda random, *_: {"batch_size": random.randint(1, 400)}), _one_batch),
    Limit("disk", rarely(0.12, _one_disk), _one_disk),
    Limit("disk types", rarely(0.15, _fewer_disk_types), _fewer_disk_types),
    Limit("confidence", one_of(1, "confidence", (0.5, 0.8, 0.9, 0.9, 0.95, 0.99)), _surer),
    Limit("run", _a_run),
    Limit(
        "interval",
        lambda random, request, world: {"allow_extrapolation": random.random() < 0.3},
        lambda random, request, world: {"allow_extrapolation": False},
        lambda request, point: point.prediction.calibrated or request.allow_extrapolation,
        "no_interval",
    ),
    Limit(
        "latency",
        *of_inference(
            sometimes(0.2, "max_latency_ms", 20, 5000), times("max_latency_ms", 0.3, 1, start=1000.0)
        ),
        _up_to("p99_ms", "max_latency_ms", "p99_median_ms"),
        "latency",
    ),
    Limit(
        "target",
        _a_target,
        times("target_throughput", 1, 3),
        lambda request, point: point.deciding(request, "lower", "median") >= (request.target_throughput or 0),
        "too_slow",
    ),
    Limit("first epoch", met=_soon_read, reason="slow_first_epoch"),
    Limit(
        "hours",
        *of_runs(sometimes(0.2, "max_hours", 1, 3000), times("max_hours", 0.2, 1, start=300.0)),
        _up_to("sure_hours", "max_hours", "hours"),
        "too_long",
    ),
    Limit(
        "cost of the run",
        *of_runs(sometimes(0.2, "max_run_usd", 3, 5000), times("max_run_usd", 0.2, 1, start=500.0)),
        lambda request, point: (
            request.max_run_usd is None
            or point.deciding(request, "sure_hours", "hours") * point.usd <= request.max_run_usd
        ),
        "over_max_cost",
    ),
    Limit(
        "price",
        sometimes(0.3, "max_usd_per_hour", 1, 30),
        times("max_usd_per_hour", 0.3, 1, start=30.0),
        _up_to("usd", "max_usd_per_hour"),
        "over_max_price",
    ),
)


def feasible(request, point):
    """Whether a point meets every limit."""
    return all(limit.met(request, point) for limit in LIMITS)


def met_before(request, point, reason):
    """Whether a point meets all limits that are judged before this reason's."""
    for limit in LIMITS:
        if limit.reason == reason:
            return True
        if not limit.met(request, point):
            return False
    raise AssertionError(f"no limit has the reason {reason}")


def limit_of(reason):
    return next(limit for limit in LIMITS if limit.reason == reason)
