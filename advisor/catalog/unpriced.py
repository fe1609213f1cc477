"""Types that match a query and cannot be ranked, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.catalog.clouds import Cloud
from advisor.catalog.matching import OfferQuery
from advisor.catalog.orderable import why_closed
from advisor.domain import Rejected
from advisor.messages import Message


def unpriced(clouds: Sequence[Cloud], query: OfferQuery) -> list[Rejected]:
    """Without a price (`no_price`) where the region (or any) offers them, without facts
    (`facts_missing`), or closed to orders (`not_offered`)."""
    lacking = {
        (cloud.name, name): one.missing for cloud in clouds for name, one in cloud.incomplete(query).items()
    }
    rejected = [
        Rejected(
            cloud=cloud,
            instance_type=name,
            reason="facts_missing",
            detail=Message("not known of it: {facts}", facts=tuple(missing)),
        )
        for (cloud, name), missing in lacking.items()
    ]
    rejected += [
        Rejected(cloud=cloud.name, instance_type=name, reason="not_offered", detail=why_closed(closed))
        for cloud in clouds
        for name, closed in cloud.unpriced_closed(query)
    ]
    named = {(one.cloud, one.instance_type) for one in rejected}
    market = str(query.market or "instance")
    detail = Message("no {market} price anywhere is known", market=market)
    if query.region:
        detail = Message("no {market} price in {region} is known", market=market, region=query.region)
    return rejected + [
        Rejected(cloud=cloud.name, instance_type=name, reason="no_price", detail=detail)
        for cloud in clouds
        for name in cloud.unpriced(query)
        if (cloud.name, name) not in named
    ]
