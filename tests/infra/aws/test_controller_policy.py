"""The controller's policy against every request of a real sweep on AWS: all are allowed, each
resource of them, and none that lacks what makes a launch safe."""

from copy import deepcopy

import boto3
import pytest

from advisor.cli.main import run
from advisor.infra.aws.errors import policy
from tests.advisor.cli.test_sweep_cloud import GRID, guest_that_measures
from tests.infra.aws.bed import account_here
from tests.infra.aws.iam import ACCOUNT, REGION, Ask, allows, asks, recorded_calls

pytestmark = pytest.mark.night  # records a dozen sweeps
POLICY = policy("controller", account=ACCOUNT, bucket="results")
SWEEP = (*GRID, "--on", "aws", "--instance", "g4dn.xlarge", "--budget", "5USD", "--sweep-id", "nightly")
OURS = {"aws:ResourceTag/advisor:managed": "true"}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Those of a spot and of an on-demand sweep."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, account_here(patch, home) as bed:
        iam = boto3.client("iam", region_name=REGION)
        iam.create_instance_profile(InstanceProfileName="advisor-guest")
        guest_that_measures(bed, 20)
        with recorded_calls(patch) as seen:
            assert run([*SWEEP, "--market", "spot"]) == 0
            bed.faulty.on_answer = lambda _request: None
            other = ("--market", "on-demand", "--sweep-id", "weekly", "--budget", "0.3USD")
            assert run([*SWEEP, *other]) == 1  # nobody tells of its end: the budget is over
    return seen


def launches(calls):
    return [entry for action, entry in calls if action == "ec2:RunInstances"]


def test_every_request_of_a_sweep_is_allowed_on_each_of_its_resources(calls):
    denied = {
        ask.action + " " + ask.resource
        for action, request in calls
        if "DryRun" not in request or action == "ec2:RunInstances"
        for ask in asks(action, request)
        if not allows(POLICY, ask)
    }
    assert denied == set()
    assert {"InstanceMarketOptions" in launch for launch in launches(calls)} == {True, False}


def without_expiry(entry):
    tags = entry["TagSpecifications"][0]["Tags"]
    tags[:] = [tag for tag in tags if tag["Key"] != "advisor:expires-at"]


SPOILS = {
    "without tags": lambda entry: entry["TagSpecifications"].pop(0),
    "without expiry": without_expiry,
    "with open metadata": lambda entry: entry["MetadataOptions"].update(HttpTokens="optional"),
    "with a plain disk": lambda entry: entry["BlockDeviceMappings"][-1]["Ebs"].update(Encrypted=False),
    "with another role": lambda entry: entry["IamInstanceProfile"].update(Name="Administrator"),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_launch_that_is_not_safe_is_denied(calls, spoil):
    request = deepcopy(launches(calls)[-1])
    spoil(request)
    assert not all(allows(POLICY, ask) for ask in asks("ec2:RunInstances", request))


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("ec2:TerminateInstances", "instance/i-1", {}),
        ("ec2:TerminateInstances", "instance/i-1", {"aws:ResourceTag/advisor:managed": "yes"}),
        ("ec2:DeleteVolume", "volume/vol-1", {}),
        ("ec2:CreateTags", "instance/i-1", {}),
        ("ec2:CreateTags", "instance/i-1", OURS),
        ("ec2:CreateTags", "security-group/sg-1", {"aws:TagKeys": ["advisor:expires-at"]}),
        ("ec2:CreateTags", "security-group/sg-1", OURS | {"aws:TagKeys": ["advisor:managed"]}),
        ("ec2:CreateTags", "volume/*", {"ec2:CreateAction": "CreateVolume"}),
    ],
)
def test_what_is_somebody_elses_cannot_be_touched_or_made_ours(action, resource, context):
    arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:{resource}"
    assert not allows(POLICY, Ask(action, arn, context))


def test_a_role_goes_to_ec2_and_to_nobody_else():
    arn = f"arn:aws:iam::{ACCOUNT}:role/advisor-guest"
    for service, may in (("ec2.amazonaws.com", True), ("lambda.amazonaws.com", False)):
        assert allows(POLICY, Ask("iam:PassRole", arn, {"iam:PassedToService": service})) is may
