"""Tags of everything that is launched: whose it is, until when, and what it may cost.

They are the only memory of a launch: no local file is needed to find, adopt, price or end it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

SWEEP_ID = "advisor:sweep-id"
OWNER = "advisor:owner"
EXPIRES_AT = "advisor:expires-at"
BUDGET_USD = "advisor:budget-usd"
MANAGED = "advisor:managed"
MANAGED_VALUE = "true"
NAME = "Name"
# Of instances only: which one of the sweep's, and what the budget has to know.
SLOT = "advisor:slot"
GENERATION = "advisor:generation"
USD_PER_HOUR = "advisor:usd-per-hour"
SPENT_BEFORE_USD = "advisor:spent-before-usd"

_TIME = "%Y-%m-%dT%H:%M:%SZ"


def name_of(sweep_id: str) -> str:
    """'advisor-<sweep id>': the `Name` tag, and the security group's name."""
    return f"advisor-{sweep_id}"


def time_text(moment: datetime) -> str:
    """ISO 8601 in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime(_TIME)


def time_from(text: str) -> datetime | None:
    """The moment; None for what is no such text (somebody's own tag)."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def base_tags(sweep_id: str, owner: str, expires_at: datetime, budget_usd: float) -> dict[str, str]:
    """The tags of every resource of a sweep."""
    return {
        MANAGED: MANAGED_VALUE,
        SWEEP_ID: sweep_id,
        OWNER: owner,
        EXPIRES_AT: time_text(expires_at),
        BUDGET_USD: f"{budget_usd:g}",
        NAME: name_of(sweep_id),
    }


def specifications(tags: Mapping[str, str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """`TagSpecifications` of a request that makes things of these kinds."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]


def tags_from(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """An answer's `Tags` as a dictionary."""
    return {entry["Key"]: entry["Value"] for entry in listed or ()}


def managed_filters(sweep_id: str | None = None, owner: str | None = None) -> list[dict[str, Any]]:
    """`Filters` for what is ours, of one sweep or one owner where given."""
    wanted = {MANAGED: MANAGED_VALUE, SWEEP_ID: sweep_id, OWNER: owner}
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items() if value is not None]
