"""Where each part of the bundle comes from: origin, date, licence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """One origin; `as_of` is the date the facts were true, not the date of the build."""

    id: str
    as_of: str
    licence: str
    origin: str


_KARPENTER = "aws/karpenter-provider-aws@1d927085 (AWS Pricing API; Linux; shared tenancy)"
_RATIO = "the region's ratio of 2022-02-06 (cortexlabs/cortex@dc48c02e)"
_SAVING = "the saving of the AWS Spot Instance Advisor of 2025-06-28 (alexei-led/spotinfo@5eedf20a)"
_CORTEX = "cortexlabs/cortex@dc48c02e (AWS price list)"
_AWS_DOCS = "awsdocs/amazon-ec2-user-guide@d2899614"
_SHEETS = "IGUANE; gpu-info-api; NeuSight; Habitat; gpu-specs and vendor sheets"

OFFERINGS = Source("moto-c6bd43ff2d09", "2026-08-01", "Apache-2.0", "getmoto/moto@c6bd43ff2d09")
PRICES = Source("karpenter-1d927085", "2026-07-20", "Apache-2.0", _KARPENTER)
REGIONAL = Source(
    "aws-regional", "2022-02-06", "Apache-2.0", f"us-east-1 price of 2026-07-20 x {_RATIO}"
)
SPOT = Source("aws-spot", "2025-06-28", "Apache-2.0", f"on-demand price less {_SAVING}")
REGIONAL_SPOT = Source(
    "aws-regional-spot",
    "2022-02-06",
    "Apache-2.0",
    f"us-east-1 price of 2026-07-20 x {_RATIO} less {_SAVING}",
)
GCP = Source(
    "gcp-fd66b26f",
    "2026-07-30",
    "Apache-2.0",
    "Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26f (GCP price list)",
)
AZURE = Source(
    "azure-352646f5",
    "2026-06-18",
    "Apache-2.0",
    "Azure/karpenter-provider-azure@352646f5 (Azure price list)",
)
ALIBABA = Source(
    "alibaba-60cef47f",
    "2024-10-09",
    "Apache-2.0",
    "cloudpilot-ai/priceserver@60cef47f (Alibaba Cloud price list in CNY)",
)
DISK_PRICES = Source("cortex-89ba2f47", "2022-02-06", "Apache-2.0", _CORTEX)
DISK_RULES = Source("ebs-rules", "2025-09-01", "plain facts", f"{_AWS_DOCS}; gp3 limits 2025-09")
_GCP_RULES = "Compute Engine docs; opengovern/opengovernance@003004c0 (the same docs as code)"
GCP_DISK_RULES = Source("gcp-disk-rules", "2024-01-01", "plain facts", _GCP_RULES)
_CYCLENERD = "Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26f"
GCP_DISK_PRICES = Source("gcp-disks-fd66b26f", "2026-07-30", "Apache-2.0", _CYCLENERD)
ALIBABA_DISK_RULES = Source(
    "alibaba-disk-rules", "2021-07-19", "MIT", "AlibabaCloudDocs/ecs@41c0f515"
)
STORE_IOPS = Source("awsdocs-d2899614", "2023-05-01", "plain facts", _AWS_DOCS)
GPU_SHEETS = Source("gpu-sheets", "2026-08-02", "plain facts", _SHEETS)
SPARECORES = Source(
    "sparecores-804d3c71",
    "2026-06-11",
    "CC BY-SA 4.0",
    "SpareCores/sc-inspector-data@804d3c71 (measured)",
)

# Dates of the moto commits that still knew a type which EC2 has retired since.
CURRENT_TYPES = "34d6cad5abbb"


def moto(commit: str, date: str) -> Source:
    """The DescribeInstanceTypes answers that moto carried at one commit."""
    return Source(f"moto-{commit}", date, "Apache-2.0", f"getmoto/moto@{commit}")
