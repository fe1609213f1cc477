"""Prices that AWS was asked for, as JSON-ready values."""

from __future__ import annotations

from typing import Any

from advisor.domain.live import PriceAnswer
from advisor.render.document import price_document


def price_answer_document(one: PriceAnswer) -> dict[str, Any]:
    """One price asked for: the one known before, the one told, or why there is none."""
    return {
        "instance_type": one.instance_type,
        "region": one.region,
        "market": str(one.market),
        "before": price_document(one.before) if one.before else None,
        "told": price_document(one.told) if one.told else None,
        "changed": one.changed,
        "refused_usd_per_hour": one.not_believed,
        "why": one.why,
    }
