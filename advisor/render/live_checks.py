"""What clouds told of today's prices and offers, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.render.blocks import price_block

if TYPE_CHECKING:
    from advisor.domain.live import LiveCheck, PriceAnswer  # few answers have any


def price_answer_block(answer: PriceAnswer) -> dict[str, Any]:
    """A price that a cloud was asked for: the one before, the new one, or why there is none."""
    return {
        "instance_type": answer.instance_type,
        "region": answer.region,
        "market": str(answer.market),
        "before": price_block(answer.before) if answer.before else None,
        "told": price_block(answer.told) if answer.told else None,
        "changed": answer.changed,
        "refused_usd_per_hour": answer.not_believed,
        "why": answer.why,
    }


def live_block(check: LiveCheck | None) -> dict[str, Any] | None:
    """Every type that a cloud was asked for, in order; null where none was to be asked."""
    if check is None:
        return None
    return {
        "as_of": check.as_of.isoformat(),
        "checked": [
            {
                **price_answer_block(checked.answer),
                "offered": checked.offered,
                "quota_code": checked.quota_code,
                "vcpu_quota": checked.vcpu_quota,
                "verified": checked.verified,
            }
            for checked in check.checked
        ],
        "warnings": list(check.warnings),
    }
