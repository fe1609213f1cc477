"""How many vCPUs of a kind an account may run (`servicequotas:GetServiceQuota`)."""

from __future__ import annotations

import math

from advisor.catalog.support import quota_code
from advisor.domain import Market
from advisor.errors import LiveError
from infra.live.session import as_live_errors, client, required


def vcpu_quota(instance_type: str, region: str, market: Market) -> float | None:
    """vCPUs the account may run at once of the type's kind; None where no code is known."""
    code = quota_code(instance_type, market)
    if code is None:
        return None
    quotas = client("service-quotas", region)
    with as_live_errors("quotas"):
        answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    value = required(required(answer, "Quota", "quotas"), "Value", "quotas")
    if not math.isfinite(value) or value < 0:
        raise LiveError(
            "AWS quotas told {value} vCPUs of {code_name}, which is no quota",
            value=value,
            code_name=code,
        )
    return float(value)
