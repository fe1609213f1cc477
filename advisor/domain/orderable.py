"""Why an instance type that has a price cannot be ordered, or no longer."""

from __future__ import annotations

from datetime import date

from msgspec import Struct


class NotOrderable(Struct, frozen=True, kw_only=True):
    """A statement, with source and date, that a type cannot be ordered; on one `market` or in one
    `region` alone where they are named. `status` is one of `catalog.orderable.STATUSES`."""

    cloud: str
    status: str
    as_of: date | None = None
    source: str = ""
    market: str = ""
    region: str = ""

    def holds(self, region: str, market: str) -> bool:
        """Whether it is true of a region and a market."""
        return self.market in ("", market) and self.region in ("", region)
