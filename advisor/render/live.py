"""What was verified live for an answer: sentences and JSON."""

from __future__ import annotations

from typing import Any

from advisor.domain.live import LiveCheck, LiveChecked
from advisor.render.prices import price_answer_document
from advisor.units import format_usd


def live_document(check: LiveCheck) -> dict[str, Any]:
    """Every type that was asked for, in order."""
    return {
        "as_of": check.as_of.isoformat(),
        "checked": [
            {
                **price_answer_document(one.answer),
                "offered": one.offered,
                "quota_code": one.quota_code,
                "vcpu_quota": one.vcpu_quota,
                "verified": one.verified,
            }
            for one in check.checked
        ],
        "warnings": list(check.warnings),
    }


def live_sentences(check: LiveCheck) -> list[str]:
    """'g4dn.xlarge $0.526/h (as known), offered, quota 8 vCPUs': each type of which anything was
    told.
    """
    told = [one for one in check.checked if one.answer.told or one.offered is not None]
    return [_sentence(one) for one in told]


def _sentence(one: LiveChecked) -> str:
    offered = {True: "offered", False: "no longer offered", None: "offer not confirmed"}
    parts = [f"{one.answer.instance_type} {_price(one)}", offered[one.offered]]
    if one.vcpu_quota is not None:
        parts.append(f"quota {one.vcpu_quota:g} vCPUs")
    return ", ".join(parts)


def _price(one: LiveChecked) -> str:
    told, before = one.answer.told, one.answer.before
    if told is None:
        return "price not verified"
    if before is None:
        return f"{format_usd(told.usd_per_hour)}/h (unknown before)"
    was = f"was {format_usd(before.usd_per_hour)}" if one.answer.changed else "as known"
    return f"{format_usd(told.usd_per_hour)}/h ({was})"
