"""Clouds that can be asked for the prices of today."""

from __future__ import annotations

from advisor.domain import Market

# By the name that users write: what people call it.
LIVE_CLOUDS = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud"}
LIVE_MARKETS = (Market.ON_DEMAND, Market.SPOT)


def is_live(cloud: str, market: Market) -> bool:
    """Whether `recommend --live` and `catalog refresh` can ask for such a price."""
    return cloud in LIVE_CLOUDS and market in LIVE_MARKETS


def refresh_command(cloud: str, region: str) -> str | None:
    """The command that asks for the prices of a region; None where no cloud answers that."""
    if cloud not in LIVE_CLOUDS:
        return None
    return f"advisor catalog refresh --cloud {cloud} --region {region}"


def cloud_title(cloud: str) -> str:
    """What people call a cloud."""
    return LIVE_CLOUDS.get(cloud, cloud)
