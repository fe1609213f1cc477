"""The table of what a request may limit: one line a limit. A new limit is one more line.

`draw` and `tighten` give changes to a request, and take what random numbers come from (hypothesis
shrinks them); None: does not go with this request. `met` judges a point by what the words say.
Limits with a `reason` stand in the order in which a type is judged: it is rejected for the first
one that none of its points meets, of those that meet all before it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from advisor.domain import DiskChoice, Task

from .drawing import (
    between,
    but_for_training,
    no_more,
    one_of,
    only_for_inference,
    only_with_a_run,
    sometimes,
    times,
)
from .hardware import a_range, left_of_quota, less_quota, narrower, some_quotas
from .points import BATCHES

NVIDIA = ("T4", "A10G", "A100", "V100")
DISKS = {
    "aws": (
        "gp3",
        "gp3:300GiB",
        "gp3:400GiB:9000iops:400MiB/s",
        "gp2:1000GiB",
        "io2:200GiB:20000iops",
        "st1:2000GiB",
        "instance_store",
    ),
    "gcp": ("pd-ssd", "pd-balanced:500GiB", "pd-standard:4000GiB", "gp3"),
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
    if random.random() < 0.9:
        return {}
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
    return {"disk": _disk(random.choice(known), request.dataset)}


def _fewer_disk_types(random, request, world):
    if request.disk is not None:
        return None
    known = request.disk_types or world.disk_types(request.cloud)
    if not known:
        return None
    return {"disk_types": tuple(random.sample(known, random.randint(1, len(known))))}


def _some_disk_types(random, request, world):
    return (_fewer_disk_types(random, request, world) or {}) if random.random() < 0.15 else {}


def _a_disk(random, request, world):
    return (_one_disk(random, request, world) or {}) if random.random() < 0.12 else {}


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


def _a_batch(random, request, world):
    return {"batch_size": random.randint(1, 400)} if random.random() < 0.3 else {}


def _surer(random, request, world):
    return {"confidence": request.confidence + random.random() * (0.995 - request.confidence)}


def _least_memory(random, request, world):
    now = request.min_gpu_memory_mib or 8 * 1024
    return {"min_gpu_memory_mib": now * between(random, 1, 3)}


def _up_to(field, limit):
    def met(request, point):
        most = getattr(request, limit)
        return most is None or (getattr(point, field) is not None and getattr(point, field) <= most)

    return met


def _soon_read(request, point):
    """The first epoch takes at most twice as long as one at the target, or as a later one."""
    if request.task is not Task.TRAINING or request.run_samples is not None:
        return True
    return 2 * point.first_lower >= (request.target_throughput or point.prediction.lower)


LIMITS = (
    Limit("cloud", tighten=_one_cloud),
    Limit("region", tighten=_one_region),
    Limit("GPU", _some_gpus, _fewer_gpus),
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
    Limit(
        "instances",
        but_for_training(one_of(0.4, "max_count", (2, 3, 4, 7))),
        but_for_training(no_more("max_count", 1)),
    ),
    Limit(
        "quota",
        some_quotas,
        less_quota,
        lambda request, point: point.vcpus <= left_of_quota(request, point.instance),
    ),
    Limit("batch", _a_batch, _one_batch),
    Limit("disk", _a_disk, _one_disk),
    Limit("disk types", _some_disk_types, _fewer_disk_types),
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
        only_for_inference(sometimes(0.2, "max_latency_ms", 20, 5000)),
        only_for_inference(times("max_latency_ms", 0.3, 1, start=1000.0)),
        _up_to("p99_ms", "max_latency_ms"),
        "latency",
    ),
    Limit(
        "target",
        _a_target,
        times("target_throughput", 1, 3),
        lambda request, point: point.lower >= (request.target_throughput or 0),
        "too_slow",
    ),
    Limit("first epoch", met=_soon_read, reason="slow_first_epoch"),
    Limit(
        "hours",
        only_with_a_run(sometimes(0.2, "max_hours", 1, 3000)),
        only_with_a_run(times("max_hours", 0.2, 1, start=300.0)),
        _up_to("sure_hours", "max_hours"),
        "too_long",
    ),
    Limit(
        "cost of the run",
        only_with_a_run(sometimes(0.2, "max_run_usd", 3, 5000)),
        only_with_a_run(times("max_run_usd", 0.2, 1, start=500.0)),
        lambda request, point: (
            request.max_run_usd is None or point.sure_hours * point.usd <= request.max_run_usd
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
