"""Limits of what the machine has: each end of a range apart, and the vCPUs of AWS's quotas."""

import math
import re

from msgspec.structs import replace

from advisor.domain import Market, Range

from .drawing import between

# Quota of on-demand instances (commitments count there) and of spot ones, by the first letters of a
# family: docs.aws.amazon.com, "Amazon EC2 instance type quotas".
QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "standard": ("L-1216C47A", "L-34B43A08"),
    "x": ("L-7295265B", "L-E3A00192"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-5480EFD2"),
}
_KINDS = {
    "g": "g",
    "gr": "g",
    "vt": "g",
    "p": "p",
    "x": "x",
    "inf": "inf",
    "trn": "trn",
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "standard"),
}


def quota_of(instance, market):
    """The code of what an instance counts against; None: not known, or none."""
    if instance.cloud != "aws":
        return None
    letters, digits = re.match(r"([a-z]+)(\d*)", instance.name).groups()
    spot = market is Market.SPOT
    if letters not in _KINDS:
        return None
    if spot and letters == "p" and int(digits) >= 5:  # quotas of their own
        return None
    return QUOTAS[_KINDS[letters]][spot]


def left_of_quota(request, instance):
    """vCPUs that may still be started of what the instance counts against."""
    return dict(request.vcpu_quota).get(quota_of(instance, request.market), math.inf)


def some_quotas(random, request, world):
    return _quotas(random, request) if random.random() < 0.15 else {}


def less_quota(random, request, world):
    left = request.vcpu_quota
    if not left:
        return _quotas(random, request)
    code, vcpus = random.choice(left)
    return {"vcpu_quota": tuple({**dict(left), code: int(vcpus * random.random())}.items())}


def _quotas(random, request):
    spot = request.market is Market.SPOT
    kinds = random.sample(["g", "g", "p", "standard", "x"], random.randint(1, 3))
    sizes = (0, 4, 8, 16, 40, 96, 200, 500)
    return {"vcpu_quota": tuple({QUOTAS[kind][spot]: random.choice(sizes) for kind in kinds}.items())}


def a_range(share, field, low, high):
    """From or to a number between two, or both, in so many of the requests."""

    def draw(random, request, world):
        if random.random() >= share:
            return {}
        ends = sorted(_rounded(between(random, low, high)) for _ in range(2))
        return {field: Range(*(end if random.random() < 0.6 else None for end in ends))}

    return draw


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
