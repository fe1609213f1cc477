"""Whether what an answer says of a rejected type is true, each reason by facts of its own."""

from advisor.catalog import resources_of

from .constraints import LIMITS
from .disks import every_disk
from .facts import instance_of, offered_in, prices_of, why_unsupported
from .hardware import left_of_quota
from .points import fits_gpu, fits_ram, workloads


def is_true(truth, cloud, name, reason):
    """`truth` is the request's `BruteForce`; unknown reasons are not true.

    CPUs are turned down by what they could do at most, whether anything can run there or not.
    """
    if reason in {limit.reason for limit in LIMITS if limit.reason}:
        on_cpu = instance_of(truth.world, cloud, name).gpu_count == 0
        points = truth.points(cloud, name)
        return (on_cpu or bool(points)) and truth.rightly_rejected(cloud, name, reason)
    return reason in _TRUTHS and _TRUTHS[reason](truth, cloud, name)


def _no_price(truth, cloud, name):
    region = truth.request.region
    offered = offered_in(truth.world, cloud, name)
    return not prices_of(truth.world, truth.request, cloud, name) and (
        region in offered if region else bool(offered)
    )


def _facts_missing(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return instance is None or _verdict(truth, instance) == "facts_missing"


def _unsupported(truth, cloud, name):
    return _verdict(truth, instance_of(truth.world, cloud, name)) == "unsupported"


def _not_offered(truth, cloud, name):
    """Priced, and sold nowhere that was asked for."""
    priced = set(prices_of(truth.world, truth.request, cloud, name))
    sold = offered_in(truth.world, cloud, name, truth.request.market)
    return (bool(priced) or not sold) and not priced & sold


def _quota(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return instance.vcpus > left_of_quota(truth.request, instance)


def _gpu_memory(truth, cloud, name):
    world, request = truth.world, truth.request
    instance = instance_of(world, cloud, name)
    return not any(fits_gpu(world, request, truth.model, instance, w) for w in workloads(request))


def _memory(truth, cloud, name):
    world, request, model = truth.world, truth.request, truth.model
    instance = instance_of(world, cloud, name)
    fitting = [w for w in workloads(request) if fits_gpu(world, request, model, instance, w)]
    disks = _disks(truth, cloud, name)
    return bool(fitting and disks) and not any(
        fits_ram(model, resources_of(world.catalog, instance, disk, request.max_gpus), w)
        for w in fitting
        for disk in disks
    )


def _no_disk(truth, cloud, name):
    return not _disks(truth, cloud, name)


def _disks(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return [
        disk
        for region in truth.places(cloud, name)
        for disk in every_disk(truth.world, instance, region, truth.request)
    ]


def _verdict(truth, instance):
    return why_unsupported(truth.world, truth.request, instance)


_TRUTHS = {
    "no_price": _no_price,
    "facts_missing": _facts_missing,
    "unsupported": _unsupported,
    "not_offered": _not_offered,
    "quota": _quota,
    "gpu_memory": _gpu_memory,
    "memory": _memory,
    "no_disk": _no_disk,
}
