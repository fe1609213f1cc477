"""Clouds whose current prices can be fetched, and the price pages of all clouds."""

from __future__ import annotations

from advisor.domain import Market

# Name in commands -> name for people.
LIVE_CLOUDS = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud"}
# Regions to suggest, for live clouds without a default region.
USUAL_REGIONS = {"azure": "eastus or westeurope", "gcp": "us-central1 or europe-west4"}
LIVE_MARKETS = (Market.ON_DEMAND, Market.SPOT)


def is_live(cloud: str, market: Market) -> bool:
    """Whether `recommend --live` and `catalog refresh` can fetch such a price."""
    return cloud in LIVE_CLOUDS and market in LIVE_MARKETS


def refresh_command(cloud: str, region: str) -> str | None:
    """The command that fetches a region's prices; None for a cloud without live prices."""
    if cloud not in LIVE_CLOUDS:
        return None
    return f"advisor catalog refresh --cloud {cloud} --region {region}"


def cloud_title(cloud: str) -> str:
    """A cloud's name for people."""
    return LIVE_CLOUDS.get(cloud, cloud)


# Public pages of the clouds; nothing fetches them, and a page may move.
PRICE_PAGES = {
    "alibaba": "https://www.alibabacloud.com/product/ecs-pricing-list/en",
    "aws": "https://aws.amazon.com/ec2/pricing/",
    "azure": "https://azure.microsoft.com/pricing/details/virtual-machines/linux/",
    "civo": "https://www.civo.com/pricing",
    "digitalocean": "https://www.digitalocean.com/pricing/gpu-droplets",
    "gcp": "https://cloud.google.com/compute/all-pricing",
    "hyperstack": "https://www.hyperstack.cloud/gpu-pricing",
    "jarvislabs": "https://jarvislabs.ai/pricing",
    "lambda": "https://lambda.ai/pricing",
    "nebius": "https://nebius.com/prices",
    "oci": "https://www.oracle.com/cloud/price-list/",
    "ovh": "https://www.ovhcloud.com/en/public-cloud/prices/",
    "paperspace": "https://www.paperspace.com/pricing",
    "runpod": "https://www.runpod.io/pricing",
    "scaleway": "https://www.scaleway.com/en/pricing/",
    "vast": "https://vast.ai/pricing",
    "verda": "https://verda.com/pricing",
    "vultr": "https://www.vultr.com/pricing/",
}
