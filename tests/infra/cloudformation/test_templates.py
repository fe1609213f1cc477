"""The stacks: linted by cfn-lint, created against moto, their schedules taken by its scheduler.

moto's CloudFormation knows no schedules, budgets, alarms and topic policies: what the template
says of those is resolved here and asked of moto's own services.
"""

from __future__ import annotations

import json
import re

import boto3
import pytest
from moto import mock_aws

from advisor.errors import UsageError
from infra.aws.policies import NAMES as POLICIES
from infra.aws.policies import allowed_actions, policy
from infra.cloudformation import NAMES, template

REGION = "us-east-1"
ARGUMENTS = '["sweep", "run", "--on", "aws", "--vcpus", "1,2", "--budget", "5USD"]'
GIVEN = {
    "account": {"AlarmEmail": "you@example.com"},
    "schedules": {
        "AlarmEmail": "you@example.com",
        "Bucket": "advisor-test",
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/advisor:1",
        "SweepArguments": ARGUMENTS,
        "Timezone": "Europe/Berlin",
    },
}
KNOWN_TO_MOTO = {
    "AWS::EC2::SecurityGroup", "AWS::ECS::Cluster", "AWS::ECS::TaskDefinition",
    "AWS::Events::Rule", "AWS::IAM::InstanceProfile", "AWS::IAM::Role", "AWS::Logs::LogGroup",
    "AWS::S3::Bucket", "AWS::SNS::Topic",
}  # fmt: skip


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    with mock_aws():
        yield


def given(name):
    """The stack's parameters, with a network of moto's."""
    values = dict(GIVEN[name])
    if name == "schedules":
        ec2 = boto3.client("ec2")
        values["Network"] = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        subnets = ec2.describe_subnets()["Subnets"]
        values["Subnets"] = ",".join(one["SubnetId"] for one in subnets[:2])
    return values


def created(name):
    """Create the stack; its resources by logical name."""
    stacks = boto3.client("cloudformation")
    parameters = [
        {"ParameterKey": key, "ParameterValue": value} for key, value in given(name).items()
    ]
    stacks.create_stack(
        StackName="advisor", TemplateBody=json.dumps(template(name)), Parameters=parameters,
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )  # fmt: skip
    (stack,) = stacks.describe_stacks(StackName="advisor")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    rows = stacks.describe_stack_resources(StackName="advisor")["StackResources"]
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cfn_lint_finds_nothing(name):
    from cfnlint.api import lint

    found = lint(json.dumps(template(name)), regions=[REGION, "eu-central-1"])
    assert [str(one) for one in found] == []


@pytest.mark.parametrize("name", NAMES)
def test_moto_creates_all_that_it_knows(name, account):
    resources = created(name)
    known = {key for key, one in template(name)["Resources"].items()
             if one["Type"] in KNOWN_TO_MOTO}  # fmt: skip
    assert known <= set(resources)


def test_the_role_of_instances_has_the_guests_policy_and_no_other(account):
    resources = created("account")
    iam = boto3.client("iam")
    assert iam.list_attached_role_policies(RoleName="advisor-guest")["AttachedPolicies"] == []
    held = iam.get_role_policy(RoleName="advisor-guest", PolicyName="guest")["PolicyDocument"]
    wanted = policy("guest", account="123456789012", bucket=resources["Bucket"])
    assert held == wanted
    profile = iam.get_instance_profile(InstanceProfileName="advisor-guest")["InstanceProfile"]
    assert [one["RoleName"] for one in profile["Roles"]] == ["advisor-guest"]


def test_each_container_has_its_own_policy(account):
    resources = created("schedules")
    iam, ecs = boto3.client("iam"), boto3.client("ecs")
    for task, name in (("SweepTask", "controller"), ("ReaperTask", "reaper")):
        described = ecs.describe_task_definition(taskDefinition=resources[task])["taskDefinition"]
        role = described["taskRoleArn"].rpartition("/")[2]
        held = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        assert allowed_actions(held) == allowed_actions(policy(name, bucket="b"))
    assert described["containerDefinitions"][0]["command"] == ["cloud", "reap"]


def test_the_bucket_is_closed_and_outlives_the_stack(account):
    bucket = template("account")["Resources"]["Bucket"]
    assert bucket["DeletionPolicy"] == "Retain"
    name = created("account")["Bucket"]
    closed = boto3.client("s3").get_public_access_block(Bucket=name)
    assert all(closed["PublicAccessBlockConfiguration"].values())


def test_no_port_of_the_containers_is_open(account):
    group = created("schedules")["ContainerGroup"]
    described = boto3.client("ec2").describe_security_groups(GroupIds=[group])
    assert described["SecurityGroups"][0]["IpPermissions"] == []


@pytest.mark.parametrize("database", ["", "/advisor/database"])
def test_the_database_is_named_and_never_written_out(account, database):
    described = resolved("schedules", DatabaseParameter=database)["SweepTask"]
    told = described["ContainerDefinitions"][0].get("Secrets")
    if not database:
        assert told is None
    else:
        assert told[0]["ValueFrom"].endswith("parameter/advisor/database")


def test_the_scheduler_takes_both_schedules(account):
    properties = resolved("schedules")
    scheduler = boto3.client("scheduler")
    scheduler.create_schedule_group(Name=properties["Schedules"]["Name"])
    for name in ("SweepSchedule", "ReaperSchedule"):
        scheduler.create_schedule(**_as_requests_write(properties[name]))
    sweep = scheduler.get_schedule(GroupName="advisor", Name="sweep")
    assert sweep["ScheduleExpressionTimezone"] == "Europe/Berlin"
    (override,) = json.loads(sweep["Target"]["Input"])["containerOverrides"]
    assert override == {"name": "advisor", "command": json.loads(ARGUMENTS)}
    assert scheduler.get_schedule(GroupName="advisor", Name="reaper")["State"] == "ENABLED"


def test_the_budget_is_one_that_is_taken(account):
    told = resolved("account")["Costs"]
    asked = {**told["Budget"]}
    asked["BudgetLimit"] = {**asked["BudgetLimit"], "Amount": str(asked["BudgetLimit"]["Amount"])}
    budgets = boto3.client("budgets")
    budgets.create_budget(
        AccountId="123456789012", Budget=asked,
        NotificationsWithSubscribers=told["NotificationsWithSubscribers"],
    )  # fmt: skip
    (made,) = budgets.describe_budgets(AccountId="123456789012")["Budgets"]
    assert made["CostFilters"] == {"TagKeyValue": ["user:advisor:managed$true"]}


def test_the_reaper_may_not_launch_and_the_scheduler_only_starts_containers():
    roles = template("schedules")["Resources"]
    (reaper,) = roles["ReaperRole"]["Properties"]["Policies"]
    assert "ec2:RunInstances" not in allowed_actions(reaper["PolicyDocument"])
    (scheduler,) = roles["SchedulerRole"]["Properties"]["Policies"]
    assert allowed_actions(scheduler["PolicyDocument"]) == {"ecs:RunTask", "iam:PassRole"}


def test_every_policy_stands_in_one_of_the_templates():
    text = json.dumps([template(name) for name in NAMES])
    for name in POLICIES:
        for one in policy(name, bucket="b")["Statement"]:
            assert one["Sid"] in text


def test_a_template_that_is_none_is_told():
    with pytest.raises(UsageError, match="schedules"):
        template("schedule")


def resolved(name, **changes):
    """The properties of each resource as CloudFormation would ask for them."""
    document = template(name)
    told = {key: one.get("Default", "") for key, one in document["Parameters"].items()}
    told |= given(name) | changes
    names = {
        **told, "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": "123456789012",
        "AWS::StackName": "advisor",
    }  # fmt: skip
    if "Subnets" in names:
        names["Subnets"] = names["Subnets"].split(",")
    for key, one in document["Resources"].items():
        named = one["Properties"].get("Name", key) if "Properties" in one else key
        names[key] = _filled(named, names)
    return {
        key: _filled(one.get("Properties", {}), names) for key, one in document["Resources"].items()
    }


def _filled(value, names):
    if isinstance(value, list):
        return [_filled(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return names.get(value["Ref"])
    if set(value) == {"Fn::Sub"}:
        return re.sub(r"\$\{([\w:.]+)\}", lambda found: _text(found[1], names), value["Fn::Sub"])
    if set(value) == {"Fn::GetAtt"}:
        return _text(".".join(value["Fn::GetAtt"]), names)
    if set(value) == {"Fn::If"}:
        return _filled(value["Fn::If"][1 if names["DatabaseParameter"] else 2], names)
    filled = {key: _filled(one, names) for key, one in value.items()}
    return {key: one for key, one in filled.items() if one is not None}


def _text(place, names):
    """A name's value; an attribute of a resource as an ARN of the right form."""
    if place in names:
        return names[place]
    resource = place.partition(".")[0]
    kind = "role" if resource.endswith("Role") else "cluster"
    service = "iam" if kind == "role" else "ecs"
    return f"arn:aws:{service}:{'' if kind == 'role' else REGION}:123456789012:{kind}/{resource}"


def _as_requests_write(properties):
    """The API writes two words of a network in lower case, and ARNs of task definitions whole."""
    target = dict(properties["Target"])
    ecs = dict(target["EcsParameters"])
    network = ecs["NetworkConfiguration"]["AwsvpcConfiguration"]
    ecs["NetworkConfiguration"] = {"awsvpcConfiguration": network}
    ecs["TaskDefinitionArn"] = (
        f"arn:aws:ecs:{REGION}:123456789012:task-definition/{ecs['TaskDefinitionArn']}"
    )
    return {**properties, "Target": {**target, "EcsParameters": ecs}}
