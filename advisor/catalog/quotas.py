"""Which quota of AWS an instance counts against, and whether it is enough. All count vCPUs."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from advisor.domain import Market, Offer
from advisor.errors import UsageError, unknown_name

CLOUD = "aws"
# What an account may still run: pairs of a quota code and vCPUs. What is not named is not limited.
VcpuQuota = tuple[tuple[str, float], ...]


class _Kind(NamedTuple):
    """Families that share a quota; commitments count as on-demand instances do."""

    name: str
    families: tuple[str, ...]
    on_demand: str
    spot: str
    spot_name: str = ""


# Facts as in dstack `backends/aws/compute.py` and three further public files (2024 to 2026).
_KINDS = (
    _Kind("G and VT", ("g", "vt"), "L-DB2E81BA", "L-3819A6DF"),
    _Kind("P", ("p",), "L-417A185B", "L-7212CCBC", "P4, P3 and P2"),
    _Kind("Inf", ("inf",), "L-1945791B", "L-B5D1601B"),
    _Kind("Trn", ("trn",), "L-2C3B7624", "L-5480EFD2"),
    _Kind("DL", ("dl",), "L-6E869C2A", "L-85EED4F7"),
    _Kind("F", ("f",), "L-74FC7D96", "L-88CF9481"),
    _Kind("X", ("x",), "L-7295265B", "L-E3A00192"),
    _Kind("Standard", tuple("acdhimrtz"), "L-1216C47A", "L-34B43A08"),
)
_NAMES = {one.on_demand: f"Running On-Demand {one.name}" for one in _KINDS} | {
    one.spot: f"All {one.spot_name or one.name} Spot Instance Requests" for one in _KINDS
}
# The spot quota above is of P4, P3 and P2 only.
_OWN_SPOT_QUOTA = re.compile(r"p[5-9]")


def quota_code(instance_type: str, market: Market) -> str | None:
    """'g5.xlarge' -> 'L-DB2E81BA'; None where it is not known."""
    family = instance_type.partition(".")[0]
    letters = re.match(r"[a-z]+", family)
    if letters is None or (market is Market.SPOT and _OWN_SPOT_QUOTA.match(family)):
        return None
    name = letters.group()
    kind = _kind(name) or _kind(_plain_letter(name))
    return _code(kind, market) if kind else None


def quota_name(code: str) -> str:
    """'L-DB2E81BA' -> 'Running On-Demand G and VT'; `KeyError` for any other text."""
    return _NAMES[code]


def most_startable(offer: Offer, allowed: VcpuQuota) -> float:
    """How many instances of an offer may be started; infinite where nothing known forbids it."""
    _, vcpus = _limit(offer, allowed)
    return vcpus if math.isinf(vcpus) else vcpus // offer.instance.vcpus


def quota_shortfall(offer: Offer, allowed: VcpuQuota) -> str | None:
    """Why not even one instance may be started; None where nothing known forbids it."""
    code, most = _limit(offer, allowed)
    needed = offer.instance.vcpus
    if code is None or needed <= most:
        return None
    name = quota_name(code)
    return f"needs {needed} vCPUs of quota {code} ({name}), which allows {most:g}"


def _limit(offer: Offer, allowed: VcpuQuota) -> tuple[str | None, float]:
    """The quota that counts an offer, and its vCPUs."""
    if not allowed or offer.instance.cloud != CLOUD:
        return None, math.inf
    code = quota_code(offer.instance.name, offer.market)
    return code, dict(allowed).get(code, math.inf) if code else math.inf


def parse_quota(text: str, market: Market) -> VcpuQuota:
    """'G=8,P=0' or 'L-DB2E81BA=8' -> pairs; families mean the quota of the market asked for."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, vcpus = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"--quota takes vCPUs by family or code, as G=8,P=0; not '{text}'")
        code = _named(name, market)
        if code in found:
            raise UsageError(f"--quota tells {code} ({quota_name(code)}) twice")
        found[code] = _vcpus(vcpus)
    return tuple(found.items())


def _named(name: str, market: Market) -> str:
    if name.upper() in _NAMES:
        return name.upper()
    by_word = {word: kind for kind in _KINDS for word in (*kind.families, kind.name.lower())}
    if name.lower() not in by_word:
        known = [word for kind in _KINDS for word in (kind.name, *map(str.upper, kind.families))]
        raise unknown_name("quota", name, {*known, *_NAMES}, field="quota")
    return _code(by_word[name.lower()], market)


def _vcpus(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"--quota takes vCPUs of 0 or more, as G=8; not '{text}'")
    return value


def _kind(letters: str) -> _Kind | None:
    return next((one for one in _KINDS if letters in one.families), None)


def _code(kind: _Kind, market: Market) -> str:
    return kind.spot if market is Market.SPOT else kind.on_demand


def _plain_letter(name: str) -> str:
    """'gr' counts as 'g', 'im' as 'i'; 'mac', 'hpc' and 'u' have quotas of their own."""
    return "" if name in ("mac", "hpc", "u") else name[:1]
