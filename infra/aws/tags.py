"""Tags of all resources that we create: owner, expiry, and budget.

They are the only record of a launch: no local file is needed to find, adopt, price or end it."""

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
# Tags of instances only: the sweep's slot, and what the budget needs.
SLOT = "advisor:slot"
GENERATION = "advisor:generation"
USD_PER_HOUR = "advisor:usd-per-hour"
SPENT_BEFORE_USD = "advisor:spent-before-usd"

_TIME = "%Y-%m-%dT%H:%M:%SZ"


def name_of(sweep_id: str) -> str:
    """'advisor-<sweep id>', the `Name` tag and the name of the security group."""
    return f"advisor-{sweep_id}"


def time_text(moment: datetime) -> str:
    """A time as ISO 8601 in UTC, in whole seconds."""
    return moment.astimezone(UTC).strftime(_TIME)


def time_from(text: str) -> datetime | None:
    """The time in such a text; None for other texts (a tag that somebody else set)."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def base_tags(sweep_id: str, owner: str, expires_at: datetime, budget_usd: float) -> dict[str, str]:
    """The tags of all resources of a sweep."""
    return {
        MANAGED: MANAGED_VALUE,
        SWEEP_ID: sweep_id,
        OWNER: owner,
        EXPIRES_AT: time_text(expires_at),
        BUDGET_USD: f"{budget_usd:g}",
        NAME: name_of(sweep_id),
    }


def specifications(tags: Mapping[str, str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """`TagSpecifications` of a request that creates resources of these kinds."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]


def tags_from(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """The `Tags` of an answer as a dictionary."""
    return {entry["Key"]: entry["Value"] for entry in listed or ()}


def managed_filters(sweep_id: str | None = None, owner: str | None = None) -> list[dict[str, Any]]:
    """`Filters` for our resources, optionally of one sweep or owner."""
    wanted = {MANAGED: MANAGED_VALUE, SWEEP_ID: sweep_id, OWNER: owner}
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items() if value is not None]
