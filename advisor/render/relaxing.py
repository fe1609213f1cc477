"""What to ask for instead: as the document's `relax`, and as lines of a table."""

from __future__ import annotations

from typing import Any

from advisor.domain import Change, Recommendation, Relaxation
from advisor.units import floor_rate, format_usd


def relax_documents(answer: Recommendation) -> list[dict[str, Any]]:
    """The document's `relax`: changes that are enough together, and what they give."""
    return [
        {
            "changes": [_change_document(change) for change in one.changes],
            "gives": {
                "instance_type": one.gives.spec.offer.instance.name,
                "region": one.gives.spec.offer.region,
                "total_usd_per_hour": one.gives.spec.total_usd_per_hour,
                "lower": one.gives.prediction.lower,
            },
        }
        for one in answer.relaxations
    ]


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "constraint": change.constraint,
        "option": change.option,
        "from": change.before,
        "to": change.after,
    }


def relax_title(answer: Recommendation) -> str:
    """How many changes it takes."""
    most = max(len(one.changes) for one in answer.relaxations)
    if most == 1:
        return "One change would do"
    return "Two changes would do" if most == 2 else "No two changes would do; together these"


def relax_rows(answer: Recommendation) -> list[list[str]]:
    """A row a relaxation: the change, what it gives, price per hour, and the lower bound."""
    return [_row(one) for one in answer.relaxations]


def _row(one: Relaxation) -> list[str]:
    spec = one.gives.spec
    return [
        "  " + " ".join(_text(change) for change in one.changes),
        spec.offer.instance.name,
        format_usd(spec.total_usd_per_hour),
        f"{floor_rate(one.gives.prediction.lower):,g}",
    ]


def _text(change: Change) -> str:
    """'--max-price 1.014', as it is typed."""
    return f"{change.option} {change.after}" if change.after else f"no {change.option}"
