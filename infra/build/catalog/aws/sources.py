"""The sources of all AWS data."""

from __future__ import annotations

from advisor.infra.build.catalog.wide import AWS_DISK_DAYS, AWS_LIST_DAYS, LIST_DAYS, Basis, Source

_AWS_DOCS = "awsdocs/amazon-ec2-user-guide@d2899614"
_EC2_SHOP = "yeo/ec2.shop@74c9fd8a"
_AWS_GPU = "tsaol/aws-gpu@77fcd9fe"
_NO_LICENCE = "none (published prices)"
# The moto commit with today's types; earlier commits still had types that EC2 has retired since.
CURRENT_TYPES = "34d6cad5abbb"

OFFERINGS = Source(
    "moto-c6bd43ff2d09", "2026-08-01", "Apache-2.0", "getmoto/moto@c6bd43ff2d09", "AWS regions offered"
)
LIST_2026_07 = Source(
    "karpenter-1d927085",
    "2026-07-20",
    "Apache-2.0",
    "aws/karpenter-provider-aws@1d927085 (AWS Pricing API; Linux; shared tenancy)",
    "AWS prices of us-east-1",
    AWS_LIST_DAYS,
)
LIST_2026_02 = Source(
    "parsec-28e2c407",
    "2026-02-17",
    _NO_LICENCE,
    "rhpds/parsec@28e2c407 (AWS price list; Linux)",
    "AWS prices of 13 regions",
    AWS_LIST_DAYS,
)
ACCELERATORS_2026_01 = Source(
    "aws-gpu-77fcd9fe",
    "2026-01-21",
    _NO_LICENCE,
    f"{_AWS_GPU} (instances.vantage.sh; Linux)",
    "AWS prices of accelerated types",
    LIST_DAYS,
)
LIST_2025_04 = Source(
    "ec2shop-74c9fd8a",
    "2025-04-04",
    "MIT",
    f"{_EC2_SHOP} (AWS price list; Linux)",
    "AWS prices elsewhere",
    AWS_LIST_DAYS,
)
ESTIMATED = Source(
    "aws-estimated",
    LIST_2025_04.as_of,
    "MIT",
    "price in us-east-1 x the region's ratio for like families (lists of 2025-04 to 2026-07)",
    "AWS prices (estimated)",
    AWS_LIST_DAYS,
)
COMMITMENTS_2025_04 = Source(
    "ec2shop-reserved-74c9fd8a",
    "2025-04-05",
    "MIT",
    f"{_EC2_SHOP} (AWS price list; no upfront; Linux)",
    "AWS commitments",
    AWS_LIST_DAYS,
)
COMMITMENTS_2026_01 = Source(
    "aws-gpu-reserved-77fcd9fe",
    ACCELERATORS_2026_01.as_of,
    _NO_LICENCE,
    f"{_AWS_GPU} (1 year; no upfront; Linux)",
    "AWS commitments for accelerators",
    LIST_DAYS,
)
SPOT_OBSERVED = Source(
    "cloud-pricing-90966299",
    "2024-09-28",
    "Apache-2.0",
    "vizares/cloud-pricing@90966299 (AWS spot prices; Linux)",
    "AWS spot prices (observed)",
    note="AWS spot prices after 2024-09-28 are not known offline (`--live` asks AWS for them)",
)
SPOT_ESTIMATED = Source(
    "aws-spot",
    "2025-06-28",
    "Apache-2.0",
    "on-demand price less the saving of the AWS Spot Instance Advisor of 2025-06-28 "
    "(alexei-led/spotinfo@5eedf20a) corrected by spot prices of 2024-09-28",
    "AWS spot prices (estimated)",
    note="no AWS spot price of this type was observed (`--live` asks AWS for it)",
)
DISK_PRICES = Source(
    "ec2shop-ebs-576c890f",
    "2024-07-18",
    "MIT",
    "yeo/ec2.shop@576c890f (AWS price list)",
    "AWS disk prices",
    AWS_DISK_DAYS,
)
DISK_RULES = Source(
    "ebs-rules", "2025-09-01", "CC BY-SA 4.0", f"{_AWS_DOCS}; gp3 limits 2025-09", "AWS disk types"
)
STORE_IOPS = Source(
    "awsdocs-d2899614",
    "2023-05-11",
    "CC BY-SA 4.0",
    f"{_AWS_DOCS}; accelerated types: AWS's page of 2026",
    "AWS read rates of local disks",
)


def _list(source: Source) -> Basis:
    return Basis(f"list-{source.as_of}", "list", "USD", source.id)


# Files of published prices, newest first.
ON_DEMAND = {
    "aws_on_demand_2026-07-20": _list(LIST_2026_07),
    "aws_on_demand_2026-02-17": _list(LIST_2026_02),
    "aws_on_demand_accelerators_2026-01-21": _list(ACCELERATORS_2026_01),
    "aws_on_demand_2025-04-04": _list(LIST_2025_04),
}
# Sources of estimates that are another type's price in one of these lists, by the list's basis.
SAME_AS_LISTED = {
    basis.id: Source(
        f"aws-estimated-{listed.as_of}",
        listed.as_of,
        listed.licence,
        f"price of the type with as many vCPUs: {listed.origin}",
        ESTIMATED.part,
        listed.max_age_days,
    )
    for listed in (LIST_2026_07, LIST_2026_02, ACCELERATORS_2026_01, LIST_2025_04)
    for basis in (_list(listed),)
}
OLDEST_COMMITMENTS = Basis("reserved-2025-04-05", "list", "USD", COMMITMENTS_2025_04.id)
NEWER_COMMITMENTS = Basis("reserved-2026-01-21", "list", "USD", COMMITMENTS_2026_01.id)
COMMITMENTS = {
    "commitment-1y": {
        "aws_commitment-1y_accelerators_2026-01-21": NEWER_COMMITMENTS,
        "aws_commitment-1y_2025-04-05": OLDEST_COMMITMENTS,
    },
    "commitment-3y": {"aws_commitment-3y_2025-04-05": OLDEST_COMMITMENTS},
    "commitment-1y-convertible": {"aws_commitment-1y-convertible_2025-04-05": OLDEST_COMMITMENTS},
    "commitment-3y-convertible": {"aws_commitment-3y-convertible_2025-04-05": OLDEST_COMMITMENTS},
}
LIST_BASES = (*ON_DEMAND.values(), OLDEST_COMMITMENTS, NEWER_COMMITMENTS)
SOURCES = (
    *(OFFERINGS, LIST_2026_07, LIST_2026_02, ACCELERATORS_2026_01, LIST_2025_04, ESTIMATED),
    *(COMMITMENTS_2025_04, COMMITMENTS_2026_01, SPOT_OBSERVED, SPOT_ESTIMATED),
    *(DISK_PRICES, DISK_RULES, STORE_IOPS, *SAME_AS_LISTED.values()),
)
# Shares of interrupted instances in the Spot Instance Advisor, by its index.
INTERRUPTIONS = tuple(
    f"{share} interrupted within a month"
    for share in ("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")
)


def moto(commit: str, date: str) -> Source:
    """The DescribeInstanceTypes answers that moto carried at one commit."""
    part = "AWS types" if commit == CURRENT_TYPES else "AWS retired types"
    return Source(f"moto-{commit}", date, "Apache-2.0", f"getmoto/moto@{commit}", part)
