"""What is missing is told with what mends it, before anything is launched."""

from typing import Any

import pytest

from advisor.domain import Market
from advisor.errors import CloudError
from advisor.infra.aws.errors import Finding, refuse_missing
from advisor.infra.aws.preflight import bucket_region, data_finding, launch_findings, reading_policy
from tests.infra.aws.bed import Bed
from tests.infra.aws.builders import a_sweep, looked
from tests.infra.aws.iam import Ask, allows
from tests.infra.aws.test_provisioner import always

MAKING = {"RunInstances", "CreateSecurityGroup", "CreateTags"}


def findings(bed: Bed, **wish: Any) -> list[Finding]:
    result = looked(bed, **wish)
    return [*result.findings, *launch_findings(bed.aws(), result, a_sweep(), "g4dn.xlarge")]


def missing(bed: Bed, **wish: Any) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings(bed, **wish) if finding.stops and not finding.ok}


def made(bed: Bed) -> list[str]:
    asked = [entry for entry in bed.faulty.asked if entry.values.get("DryRun") != "true"]
    return [entry.operation for entry in asked if entry.operation in MAKING]


def test_a_good_account_lacks_nothing_and_spot_comes_before_on_demand(bed: Bed) -> None:
    assert missing(bed) == {}
    assert made(bed) == bed.instances() == []
    options = looked(bed).options
    spot = [option for option in options if option.market is Market.SPOT]
    assert options[: len(spot)] == tuple(spot)
    assert [entry.usd_per_hour for entry in spot] == sorted(entry.usd_per_hour for entry in spot)
    assert all(option.usd_per_hour <= 0.526 for option in options)
    bed.ways.spot_usd = 0.5  # a request never names more than the price on demand
    assert {option.usd_per_hour for option in looked(bed).options} == {0.526}


@pytest.mark.parametrize("operation", ["RunInstances", "CreateSecurityGroup"])
def test_a_denied_permission_is_told(bed: Bed, operation: str) -> None:
    bed.ways.denied = {operation}
    permission = missing(bed)["permission"]
    assert f"ec2:{operation} is denied" in permission.text
    assert f"allow ec2:{operation}" in permission.mend
    assert made(bed) == []


def test_a_launch_that_ec2_would_refuse_is_told_before(bed: Bed) -> None:
    """An instance profile that is not there, when it may not be looked at."""
    result = looked(bed)
    bed.faulty.plan = always("RunInstances", "InvalidParameterValue")
    expected = {entry.check: entry for entry in launch_findings(bed.aws(), result, a_sweep(), "g4dn.xlarge")}
    assert not expected["dry run"].ok
    assert "InvalidParameterValue" in expected["dry run"].text


@pytest.mark.parametrize("looked_at", ["Subnets", "Images", "InstanceTypeOfferings"])
def test_a_denied_look_is_told_too(bed: Bed, looked_at: str) -> None:
    bed.ways.denied = {f"Describe{looked_at}"}
    assert any(f"ec2:Describe{looked_at}" in entry.mend for entry in missing(bed).values())


NO_QUOTAS = {"L-DB2E81BA": 0.0, "L-3819A6DF": 0.0}
RAISED = ("--quota-code L-", "--desired-value 4 --region us-east-1")
NOWHERE = {"subnet": "subnet-0123456789abcdef0"}


@pytest.mark.parametrize(
    ("ways", "wish", "check", "mending"),
    [
        ({"quotas": NO_QUOTAS}, {}, "quota", RAISED),
        ({"image": ""}, {}, "image", ("--image",)),
        ({}, NOWHERE, "subnet", ("--subnet",)),
    ],
)
def test_what_is_not_there_is_told_with_what_mends_it(bed: Bed, ways, wish, check, mending) -> None:
    for name, value in ways.items():
        setattr(bed.ways, name, value)
    entry = missing(bed, **wish)[check]
    assert [words for words in mending if words not in entry.mend] == []
    assert looked(bed, **wish).options == ()


def test_a_quota_of_one_market_leaves_the_other(bed: Bed) -> None:
    bed.ways.quotas = {"L-3819A6DF": 0.0}
    assert missing(bed) == {}
    assert {option.market for option in looked(bed).options} == {Market.ON_DEMAND}


@pytest.mark.parametrize(
    ("action", "markets"),
    [
        ("servicequotas:GetServiceQuota", {Market.SPOT, Market.ON_DEMAND}),
        ("ec2:DescribeSpotPriceHistory", {Market.ON_DEMAND}),
    ],
)
def test_what_may_not_be_asked_is_told_and_keeps_no_launch_back(
    bed: Bed, action: str, markets: set[Market]
) -> None:
    """Quotas are left to EC2; without spot prices there is on demand."""
    bed.ways.denied = {action.partition(":")[2]}
    assert missing(bed) == {}
    assert {option.market for option in looked(bed).options} == markets
    assert any(action in finding.mend for finding in findings(bed))


def test_no_credentials_are_told_alone(bed: Bed) -> None:
    """Nothing else can be asked without."""
    bed.faulty.plan = always("GetCallerIdentity", "ExpiredToken")
    (entry,) = findings(bed)
    assert not entry.ok
    assert "aws sso login" in entry.mend


def test_a_bucket_is_found_in_its_region_and_one_that_is_not_there_or_denied_is_told(bed: Bed) -> None:
    there = {"CreateBucketConfiguration": {"LocationConstraint": "us-east-2"}}
    bed.aws().ask("us-east-2", "create_bucket", service="s3", Bucket="mine-2", **there)
    home, found = bucket_region(bed.aws(), "us-east-1", "mine-2")
    assert (home, found.ok) == ("us-east-2", True)
    assert "aws s3 mb s3://none-2" in bucket_region(bed.aws(), "us-east-1", "none-2")[1].mend
    bed.faulty.plan = always("HEAD /mine-2", "AccessDenied")
    assert "s3:ListBucket" in bucket_region(bed.aws(), "us-east-1", "mine-2")[1].mend


def test_what_is_not_offered_or_priced_is_told_and_all_that_is_missing_in_one_line(bed: Bed) -> None:
    result = looked(bed, "p2.xlarge", image=bed.ways.image)
    (entry,) = [finding for finding in result.findings if not finding.ok]
    assert entry.check == "offering"
    assert result.options == ()
    unpriced = looked(bed, price_of=lambda *_: None)
    assert unpriced.options == ()
    mended = [finding.mend for finding in unpriced.findings if finding.check == "offer"]
    assert "catalog refresh" in mended[0]
    bed.faulty.plan = lambda request: "AuthFailure" if request.region == "us-east-2" else ""
    further = looked(bed, "g4dn.xlarge", regions=("us-east-1", "us-east-2"))  # not opted into
    bed.faulty.plan = lambda _: ""
    assert [finding for finding in further.findings if finding.stops and not finding.ok] == []
    assert {option.region for option in further.options} == {"us-east-1"}
    bed.ways.image = ""
    bed.ways.denied = {"DescribeSubnets"}
    with pytest.raises(CloudError) as caught:
        refuse_missing(findings(bed))
    words = ("nothing was launched", "(image)", "(subnet)")
    assert [text for text in words if text not in str(caught.value)] == []


def test_the_right_of_the_instances_role_to_read_data_is_told_and_allows_no_more() -> None:
    caller, address = "arn:aws:iam::123456789012:user/ada", "s3://photos/train"
    told = data_finding(caller, "advisor-guest", address)
    assert "put-role-policy --role-name advisor-guest" in told.mend
    assert not told.stops
    assert data_finding(caller, "", address).stops
    policy = reading_policy("s3://photos/train/", partition="aws")
    for action, where, prefix, is_allowed in (
        ("ListBucket", "photos", {"s3:prefix": "train"}, True),
        ("GetObject", "photos/train/a/1.jpg", {}, True),
        ("GetObject", "photos/secrets.txt", {}, False),
        ("ListBucket", "photos", {"s3:prefix": ""}, False),
        ("PutObject", "photos/train/a/1.jpg", {}, False),
    ):
        assert allows(policy, Ask(f"s3:{action}", f"arn:aws:s3:::{where}", prefix)) is is_allowed
