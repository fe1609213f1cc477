"""What is known of AWS, and from where."""

from __future__ import annotations

from infra.catalog_build.provenance import AWS_LIST_DAYS, Source
from infra.catalog_build.wide import Basis

_KARPENTER = "aws/karpenter-provider-aws@1d927085 (AWS Pricing API; Linux; shared tenancy)"
_RATIO = "the region's ratio of 2022-02-06 (cortexlabs/cortex@dc48c02e)"
_SAVING = "the saving of the AWS Spot Instance Advisor of 2025-06-28 (alexei-led/spotinfo@5eedf20a)"
_CORTEX = "cortexlabs/cortex@dc48c02e (AWS price list)"
_AWS_DOCS = "awsdocs/amazon-ec2-user-guide@d2899614"
_OLD_PRICE = "us-east-1 price of 2026-07-20"
# The moto commit with the types of today; those before it still knew what EC2 has retired since.
CURRENT_TYPES = "34d6cad5abbb"

OFFERINGS = Source(
    "moto-c6bd43ff2d09",
    "2026-08-01",
    "Apache-2.0",
    "getmoto/moto@c6bd43ff2d09",
    "regions offered",
)
PRICES = Source(
    "karpenter-1d927085", "2026-07-20", "Apache-2.0", _KARPENTER, "instance prices", AWS_LIST_DAYS
)
REGIONAL = Source(
    "aws-regional",
    "2022-02-06",
    "Apache-2.0",
    f"{_OLD_PRICE} x {_RATIO}",
    "instance prices outside us-east-1 (estimated)",
    AWS_LIST_DAYS,
)
SPOT = Source(
    "aws-spot",
    "2025-06-28",
    "Apache-2.0",
    f"on-demand price less {_SAVING}",
    "spot prices (estimated)",
)
REGIONAL_SPOT = Source(
    "aws-regional-spot",
    "2022-02-06",
    "Apache-2.0",
    f"{_OLD_PRICE} x {_RATIO} less {_SAVING}",
    "spot prices outside us-east-1 (estimated)",
)
DISK_PRICES = Source(
    "cortex-89ba2f47", "2022-02-06", "Apache-2.0", _CORTEX, "disk prices", 2 * AWS_LIST_DAYS
)
DISK_RULES = Source(
    "ebs-rules", "2025-09-01", "plain facts", f"{_AWS_DOCS}; gp3 limits 2025-09", "disk types"
)
STORE_IOPS = Source(
    "awsdocs-d2899614", "2023-05-01", "plain facts", _AWS_DOCS, "instance store read rates"
)

# How often the Spot Instance Advisor saw instances taken back; by the index it gives.
_INTERRUPTIONS = ("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")


def _spot_bases(name: str, source: Source) -> tuple[Basis, ...]:
    """A basis for each band of interruptions, in order."""
    return tuple(
        Basis(
            f"{name}{band}",
            "estimated",
            "USD",
            source.id,
            terms=f"{share} interrupted within a month",
        )
        for band, share in enumerate(_INTERRUPTIONS)
    )


LIST_BASIS = Basis("list", "list", "USD", PRICES.id)
REGIONAL_BASIS = Basis("regional", "estimated", "USD", REGIONAL.id)
SPOT_BASES = _spot_bases("spot", SPOT)
REGIONAL_SPOT_BASES = _spot_bases("regspot", REGIONAL_SPOT)
BASES = (LIST_BASIS, REGIONAL_BASIS, *SPOT_BASES, *REGIONAL_SPOT_BASES)
SOURCES = (OFFERINGS, PRICES, REGIONAL, SPOT, REGIONAL_SPOT, DISK_PRICES, DISK_RULES, STORE_IOPS)


def moto(commit: str, date: str) -> Source:
    """The DescribeInstanceTypes answers that moto carried at one commit."""
    part = "instance types" if commit == CURRENT_TYPES else "retired instance types"
    return Source(f"moto-{commit}", date, "Apache-2.0", f"getmoto/moto@{commit}", part)
