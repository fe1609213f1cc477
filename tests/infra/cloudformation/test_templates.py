"""The stacks: linted by cfn-lint, created against moto, their schedules taken by its scheduler.

moto's CloudFormation knows no schedules, budgets, alarms and topic policies: what the template
says of those is resolved here and asked of moto's own services.
"""

from __future__ import annotations

import ast
import json
import warnings
from datetime import UTC, datetime

import pytest
from moto import mock_aws

from advisor.cli.sweep import run as sweep_run
from advisor.errors import UsageError
from advisor.infra.aws.policies import NAMES as POLICIES
from advisor.infra.aws.policies import policy
from advisor.infra.cloudformation import NAMES, template
from tests.infra.aws.clients import client_of
from tests.infra.aws.iam import allowed_actions
from tests.infra.cloudformation.resolving import ARGUMENTS, REGION, as_requests_write, given, resolved

BUCKET = "advisor-test"
KNOWN_TO_MOTO = {
    "AWS::EC2::SecurityGroup",
    "AWS::ECS::Cluster",
    "AWS::ECS::TaskDefinition",
    "AWS::Events::Rule",
    "AWS::IAM::InstanceProfile",
    "AWS::IAM::Role",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SNS::Topic",
}


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    with mock_aws():
        yield


def created(name):
    """Create the stack; its resources by logical name. moto warns of kinds that it passes over."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Tried to parse")
        return _created(name)


def _created(name):
    stacks = client_of("cloudformation")
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in given(name).items()]
    stacks.create_stack(
        StackName="advisor",
        TemplateBody=json.dumps(template(name)),
        Parameters=parameters,
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    (stack,) = stacks.describe_stacks(StackName="advisor")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    rows = stacks.describe_stack_resources(StackName="advisor")["StackResources"]
    made = [one for one in rows if "PhysicalResourceId" in one]
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in made}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cfn_lint_finds_nothing(name):
    from cfnlint.api import lint

    found = lint(json.dumps(template(name)), regions=[REGION, "eu-central-1"])
    assert [str(one) for one in found] == []


@pytest.mark.parametrize("name", NAMES)
def test_moto_creates_all_that_it_knows(name, account):
    resources = created(name)
    known = {key for key, one in template(name)["Resources"].items() if one["Type"] in KNOWN_TO_MOTO}
    assert known <= set(resources)


def test_the_role_of_instances_has_the_guests_policy_and_no_other(account):
    resources = created("account")
    iam = client_of("iam")
    assert iam.list_attached_role_policies(RoleName="advisor-guest")["AttachedPolicies"] == []
    held = iam.get_role_policy(RoleName="advisor-guest", PolicyName="guest")["PolicyDocument"]
    wanted = policy("guest", account="123456789012", bucket=resources["Bucket"])
    assert ast.literal_eval(held) == wanted  # moto keeps it as Python writes it
    profile = iam.get_instance_profile(InstanceProfileName="advisor-guest")["InstanceProfile"]
    assert [one["RoleName"] for one in profile["Roles"]] == ["advisor-guest"]


def test_each_container_has_its_own_policy():
    resources = template("schedules")["Resources"]
    for task, name in (("SweepTask", "controller"), ("ReaperTask", "reaper")):
        role, attribute = resources[task]["Properties"]["TaskRoleArn"]["Fn::GetAtt"]
        assert attribute == "Arn"
        (held,) = resources[role]["Properties"]["Policies"]
        assert allowed_actions(held["PolicyDocument"]) == allowed_actions(policy(name, bucket=BUCKET))


def test_the_reapers_container_reaps(account):
    task = created("schedules")["ReaperTask"]
    described = client_of("ecs").describe_task_definition(taskDefinition=task)
    (container,) = described["taskDefinition"]["containerDefinitions"]
    assert container["command"] == ["cloud", "reap"]


def test_the_bucket_is_closed_and_outlives_the_stack():
    bucket = template("account")["Resources"]["Bucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    closed = bucket["Properties"]["PublicAccessBlockConfiguration"]
    assert len(closed) == 4
    assert all(closed.values())


def test_no_port_of_the_containers_is_open(account):
    group = created("schedules")["ContainerGroup"]
    described = client_of("ec2").describe_security_groups(GroupIds=[group])
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
    scheduler = client_of("scheduler")
    scheduler.create_schedule_group(Name=properties["Schedules"]["Name"])
    for name in ("SweepSchedule", "ReaperSchedule"):
        scheduler.create_schedule(**as_requests_write(properties[name]))
    sweep = scheduler.get_schedule(GroupName="advisor", Name="sweep")
    assert sweep["ScheduleExpressionTimezone"] == "Europe/Berlin"
    (override,) = json.loads(sweep["Target"]["Input"])["containerOverrides"]
    assert override.pop("environment") == [
        {"name": "ADVISOR_FRESH_SINCE", "value": "<aws.scheduler.scheduled-time>"}
    ]
    assert override == {"name": "advisor", "command": json.loads(ARGUMENTS)}
    assert scheduler.get_schedule(GroupName="advisor", Name="reaper")["State"] == "ENABLED"


def test_what_the_scheduler_starts_is_a_sweep_of_its_due_time(account, monkeypatch):
    """As EventBridge fills the time in, ECS puts it into the container's environment."""
    target = resolved("schedules")["SweepSchedule"]["Target"]
    told = target["Input"].replace("<aws.scheduler.scheduled-time>", "2026-11-23T02:00:00Z")
    (override,) = json.loads(told)["containerOverrides"]
    for one in override["environment"]:
        monkeypatch.setenv(one["name"], one["value"])
    (sweep, run, *options) = override["command"]
    assert (sweep, run) == ("sweep", "run")
    context = sweep_run.make_context("advisor sweep run", options)
    assert context.params["fresh_since"] == datetime(2026, 11, 23, 2, tzinfo=UTC)


def test_the_budget_is_one_that_is_taken(account):
    told = resolved("account")["Costs"]
    asked = {**told["Budget"]}
    asked["BudgetLimit"] = {**asked["BudgetLimit"], "Amount": str(asked["BudgetLimit"]["Amount"])}
    budgets = client_of("budgets")
    budgets.create_budget(
        AccountId="123456789012",
        Budget=asked,
        NotificationsWithSubscribers=told["NotificationsWithSubscribers"],
    )
    (made,) = budgets.describe_budgets(AccountId="123456789012")["Budgets"]
    assert made["CostFilters"] == {"TagKeyValue": ["user:advisor:managed$true"]}


def test_the_reaper_may_not_launch_and_the_scheduler_only_starts_containers():
    roles = template("schedules")["Resources"]
    (reaper,) = roles["ReaperRole"]["Properties"]["Policies"]
    assert "ec2:RunInstances" not in allowed_actions(reaper["PolicyDocument"])
    (scheduler,) = roles["SchedulerRole"]["Properties"]["Policies"]
    assert allowed_actions(scheduler["PolicyDocument"]) == {"ecs:RunTask", "iam:PassRole"}


def test_a_reaper_that_cannot_even_start_is_told():
    """Its image is gone: there is no exit code, and `anything-but` matches what is there only."""
    patterns = [
        one["Properties"]["EventPattern"]["detail"]
        for one in template("schedules")["Resources"].values()
        if one["Type"] == "AWS::Events::Rule"
    ]
    assert any(one.get("stopCode") == ["TaskFailedToStart"] for one in patterns)
    assert any("containers" in one for one in patterns)


def test_every_policy_stands_in_one_of_the_templates():
    text = json.dumps([template(name) for name in NAMES])
    for name in POLICIES:
        for one in policy(name, bucket=BUCKET)["Statement"]:
            assert one["Sid"] in text


def test_a_template_that_is_none_is_told():
    with pytest.raises(UsageError, match="schedules"):
        template("schedule")
