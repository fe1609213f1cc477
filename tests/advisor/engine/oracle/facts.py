"""What may be bought and what runs, by the catalogue's records and the documented rules."""

import math

from advisor.domain import Precision, Task

ECC_SHARE = 0.93  # docs/reference/catalog.md: "24GiB.." keeps a card that shows 93 % of it


def instance_of(world, cloud, name):
    """The record of a type; None where facts are missing."""
    return None if world.catalog.partial_type(name, cloud).missing else (world.catalog.instance(name, cloud))


def asked_for(world, request):
    """(cloud, name) of every type that the request lets compete."""
    return [key for key in world.types(request.cloud) if _is_asked(world, request, *key)]


def _is_asked(world, request, cloud, name):
    known = instance_of(world, cloud, name) or world.catalog.partial_type(name, cloud)
    on_cpu = not (known.gpu_name or getattr(known, "accelerator", None))
    if on_cpu and request.accelerated_only:
        return False
    if on_cpu and request.task is not Task.PREPROCESSING and not _may_be_on_cpu(request, known):
        return False
    return _has_gpu(world, request, known) and _has_host(request, known)


def _may_be_on_cpu(request, known):
    """A CPU computes networks in fp32, of types whose facts are known."""
    whole = getattr(known, "physical_cores", None)
    return whole and request.precision in (None, Precision.FP32)


def _has_gpu(world, request, known):
    names = [gpu.lower() for gpu in request.gpus]
    card = (known.gpu_name or "").lower()
    if names and not any(card == name or card.startswith(name + "-") for name in names):
        return False
    sheet = world.catalog.gpus.get(known.gpu_name)
    capability = sheet and sheet.vendor == "NVIDIA" and sheet.compute_capability
    wanted = request.compute_capability
    if wanted.limits and not (capability and _between(float(capability), wanted.least, wanted.most)):
        return False
    least, most = request.min_gpu_memory_mib, request.max_gpu_memory_mib
    if least is None and most is None:
        return True
    return _between(known.gpu_memory_mib or 0, ECC_SHARE * (least or 0), most) and (
        known.gpu_memory_mib is not None
    )


def _has_host(request, known):
    """What is not known of a type that lacks facts is not held against it."""
    limits = ((known.vcpus, request.vcpus), (known.memory_mib, request.memory_mib))
    return all(has is None or _between(has, limit.least, limit.most) for has, limit in limits)


def _between(value, least, most):
    return (least or 0) <= value <= (math.inf if most is None else most)


def prices_of(world, request, cloud, name):
    """Region -> dollars an hour, in the regions and on the market that are asked for."""
    regions = [request.region] if request.region else world.regions[cloud]
    prices = {
        region: world.catalog.price(name, region, request.market, cloud)
        for region in regions
        if region in world.regions[cloud]
    }
    return {region: price.usd_per_hour for region, price in prices.items() if price}


def offered_in(world, cloud, name, market=None):
    """Regions that sell a type on a market: not those of a type that is closed to orders there."""
    closed = {
        closure.region
        for closure in world.catalog.order_restrictions(name, cloud)
        if closure.market in ("", str(market))
    }
    return set() if "" in closed else set(world.catalog.regions_of(name, cloud)) - closed


def why_unsupported(world, request, instance):
    """The documented rules of what PyTorch runs on; None where it runs."""
    if instance.cpu.architecture not in ("x86_64", "arm64"):
        return "unsupported"
    if instance.burstable:
        return "facts_missing"
    if instance.cloud == "aws" and instance.ebs_baseline_mib_per_second is None:
        return "facts_missing"
    on_cpu = instance.gpu_count == 0 and instance.accelerator is None
    if request.task is Task.PREPROCESSING or on_cpu:
        return None
    return _why_no_card(world, instance)


def _why_no_card(world, instance):
    if instance.gpu_count == 0 or instance.gpu_vendor != "NVIDIA":
        return "unsupported"
    sheet = world.catalog.gpu_of(instance)
    if instance.gpu_fraction < 1 or sheet is None or sheet.compute_capability is None:
        return "facts_missing"
    oldest = 8.0 if instance.cpu.architecture == "arm64" else 5.0
    return "unsupported" if float(sheet.compute_capability) < oldest else None
