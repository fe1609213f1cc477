"""How many vCPUs of a kind an account may run (`servicequotas:GetServiceQuota`)."""

from __future__ import annotations

import re

from advisor.domain import Market
from infra.live.session import client, required, told_as_live_error

# Quota codes by the first letters of a family; on-demand, spot. All count vCPUs. Facts as in
# dstack `backends/aws/compute.py` and three further public files (2024 to 2026).
_CODES = {
    "g": ("L-DB2E81BA", "L-3819A6DF"),
    "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-5480EFD2"),
    "dl": ("L-6E869C2A", "L-85EED4F7"),
    "f": ("L-74FC7D96", "L-88CF9481"),
    "x": ("L-7295265B", "L-E3A00192"),
    **dict.fromkeys("acdhimrtz", ("L-1216C47A", "L-34B43A08")),
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
    codes = _CODES.get(name) or _CODES.get(_plain_letter(name))
    return codes[market is Market.SPOT] if codes else None


def vcpu_quota(instance_type: str, region: str, market: Market) -> float | None:
    """vCPUs the account may run at once of the type's kind; None where no code is known."""
    code = quota_code(instance_type, market)
    if code is None:
        return None
    quotas = client("service-quotas", region)
    with told_as_live_error("quotas"):
        answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    return float(required(answer, "Quota", "quotas")["Value"])


def _plain_letter(name: str) -> str:
    """'gr' counts as 'g', 'im' as 'i'; 'mac', 'hpc' and 'u' have quotas of their own."""
    return "" if name in ("mac", "hpc", "u") else name[:1]
