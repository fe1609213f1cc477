"""Where a cloud tells its prices of today."""

from __future__ import annotations

# Public pages of the clouds' own; none of them was fetched, and a page may move.
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
