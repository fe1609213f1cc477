"""The stacks: linted by cfn-lint, created against moto, their schedules taken by its scheduler.

moto's CloudFormation knows no schedules, budgets, alarms and topic policies: what the template says of those
is resolved here and asked of moto's own services."""

import ast
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from advisor.cli.sweep import run as sweep_run
from advisor.errors import UsageError
from advisor.infra.aws import tags
from advisor.infra.aws.errors import NAMES as POLICIES
from advisor.infra.aws.errors import policy
from advisor.infra.cloudformation import NAMES, template
from tests.infra.aws.iam import allowed_actions
from tests.infra.aws.reaping import client_of, moto_account

REGION = "us-east-1"
ARGUMENTS = '["sweep", "run", "--on", "aws", "--vcpus", "1,2", "--budget", "5USD"]'
ACCOUNT, BUCKET = "123456789012", "advisor-test"
SCHEDULED = {"Bucket": BUCKET, "Image": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/advisor:1"}
SCHEDULED |= {"SweepArguments": ARGUMENTS, "Timezone": "Europe/Berlin"}
# moto warns of kinds that it passes over.
pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse")
KNOWN_TO_MOTO = re.compile(
    r"AWS::(EC2::SecurityGroup|ECS::(Cluster|TaskDefinition)|Events::Rule|IAM::(InstanceProfile|Role)"
    r"|Logs::LogGroup|S3::Bucket|SNS::Topic)"
)


def given(name):
    """The stack's parameters, with a network of moto's."""
    values = {"AlarmEmail": "you@example.com"}
    if name == "schedules":
        ec2 = client_of("ec2")
        subnets = ",".join(subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"][:2])
        values |= SCHEDULED | {"Network": ec2.describe_vpcs()["Vpcs"][0]["VpcId"], "Subnets": subnets}
    return values


def resolved(name, **changes):
    """The properties of each resource as CloudFormation would ask for them."""
    document = template(name)
    expected = {key: parameter.get("Default", "") for key, parameter in document["Parameters"].items()}
    names = expected | given(name) | changes
    names |= {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT}
    names["AWS::StackName"] = "advisor"
    if "Subnets" in names:
        names["Subnets"] = names["Subnets"].split(",")
    properties = {key: resource.get("Properties", {}) for key, resource in document["Resources"].items()}
    for key, values in properties.items():
        names[key] = _filled(values.get("Name", key), names)
    return {key: _filled(values, names) for key, values in properties.items()}


def _filled(value, names):
    if isinstance(value, list):
        return [_filled(entry, names) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return names.get(value["Ref"])
    if set(value) == {"Fn::Sub"}:
        return re.sub(r"\$\{([\w:.]+)\}", lambda result: _text(result[1], names), value["Fn::Sub"])
    if set(value) == {"Fn::GetAtt"}:
        return _text(".".join(value["Fn::GetAtt"]), names)
    if set(value) == {"Fn::If"}:
        return _filled(value["Fn::If"][1 if names["DatabaseParameter"] else 2], names)
    filled = {key: _filled(entry, names) for key, entry in value.items()}
    return {key: entry for key, entry in filled.items() if entry is not None}


def _text(path, names):
    """A name's value; an attribute of a resource as an ARN of the right form."""
    if path in names:
        return names[path]
    resource = path.partition(".")[0]
    kind = "role" if resource.endswith("Role") else "cluster"
    service = "iam" if kind == "role" else "ecs"
    return f"arn:aws:{service}:{'' if kind == 'role' else REGION}:123456789012:{kind}/{resource}"


def as_requests_write(properties):
    """The API writes two words of a network in lower case, and ARNs of task definitions whole."""
    target = dict(properties["Target"])
    ecs = dict(target["EcsParameters"])
    network = ecs["NetworkConfiguration"]["AwsvpcConfiguration"]
    ecs["NetworkConfiguration"] = {"awsvpcConfiguration": network}
    ecs["TaskDefinitionArn"] = f"arn:aws:ecs:{REGION}:123456789012:task-definition/{ecs['TaskDefinitionArn']}"
    return {**properties, "Target": {**target, "EcsParameters": ecs}}


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    with moto_account(monkeypatch):
        yield


def created(name):
    stacks = client_of("cloudformation")
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in given(name).items()]
    asked = {"TemplateBody": json.dumps(template(name)), "Capabilities": ["CAPABILITY_NAMED_IAM"]}
    stacks.create_stack(StackName="advisor", Parameters=parameters, **asked)
    (stack,) = stacks.describe_stacks(StackName="advisor")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    rows = stacks.describe_stack_resources(StackName="advisor")["StackResources"]
    made = [row for row in rows if "PhysicalResourceId" in row]
    return {entry["LogicalResourceId"]: entry["PhysicalResourceId"] for entry in made}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cfn_lint_finds_nothing(name):
    from cfnlint.api import lint

    result = lint(json.dumps(template(name)), regions=[REGION, "eu-central-1"])
    assert [str(entry) for entry in result] == []


@pytest.mark.parametrize("name", NAMES)
def test_moto_creates_all_that_it_knows(name, account):
    resources = created(name)
    described = template(name)["Resources"]
    known = {key for key, made in described.items() if KNOWN_TO_MOTO.fullmatch(made["Type"])}
    assert set() < known <= set(resources)
    if "Bucket" in described:  # it is closed, and outlives the stack
        assert described["Bucket"]["DeletionPolicy"] == described["Bucket"]["UpdateReplacePolicy"] == "Retain"
        closed = described["Bucket"]["Properties"]["PublicAccessBlockConfiguration"]
        assert list(closed.values()) == [True] * 4


def test_each_role_has_its_own_policy_and_no_other(account):
    resources = created("account")
    iam = client_of("iam")
    assert iam.list_attached_role_policies(RoleName="advisor-guest")["AttachedPolicies"] == []
    held = iam.get_role_policy(RoleName="advisor-guest", PolicyName="guest")["PolicyDocument"]
    wanted = policy("guest", account=ACCOUNT, bucket=resources["Bucket"])
    assert ast.literal_eval(held) == wanted  # moto keeps it as Python writes it
    profile = iam.get_instance_profile(InstanceProfileName="advisor-guest")["InstanceProfile"]
    assert [role["RoleName"] for role in profile["Roles"]] == ["advisor-guest"]
    resources = template("schedules")["Resources"]
    for task, name in (("SweepTask", "controller"), ("ReaperTask", "reaper")):
        role, attribute = resources[task]["Properties"]["TaskRoleArn"]["Fn::GetAtt"]
        assert attribute == "Arn"
        (held,) = resources[role]["Properties"]["Policies"]
        assert allowed_actions(held["PolicyDocument"]) == allowed_actions(policy(name, bucket=BUCKET))
    (scheduler,) = resources["SchedulerRole"]["Properties"]["Policies"]
    assert allowed_actions(scheduler["PolicyDocument"]) == {"ecs:RunTask", "iam:PassRole"}


def test_the_accounts_reaper_ends_what_has_expired_and_nothing_else(account):
    resources = template("account")["Resources"]
    (held,) = resources["ReaperRole"]["Properties"]["Policies"]
    assert allowed_actions(held["PolicyDocument"]) == allowed_actions(policy("reaper", bucket=BUCKET))
    ec2 = client_of("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]

    def instance(**worn):
        listed = [{"Key": key, "Value": value} for key, value in worn.items()]
        worn = [{"ResourceType": "instance", "Tags": listed}]
        made = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=worn)
        return made["Instances"][0]["InstanceId"]

    now = datetime.now(UTC)
    before, later = (tags.time_text(now + timedelta(minutes=minutes)) for minutes in (-1, 5))
    ours = {tags.MANAGED: tags.MANAGED_VALUE}
    expired = instance(**ours, **{tags.EXPIRES_AT: before})
    worn = (ours | {tags.EXPIRES_AT: later}, ours, {tags.EXPIRES_AT: before})
    kept = [instance(**each) for each in worn]
    code, text = {}, resources["Reaper"]["Properties"]["Code"]["ZipFile"]
    exec(text, code)  # as Lambda imports it
    code["reap"]({}, None)
    rows = ec2.describe_instances(InstanceIds=[expired, *kept])["Reservations"]
    states = {row["Instances"][0]["InstanceId"]: row["Instances"][0]["State"]["Name"] for row in rows}
    assert states == {expired: "terminated", **dict.fromkeys(kept, "running")}
    assert len(text) < 4096


@pytest.mark.parametrize("database", ["", "/advisor/database"])
def test_the_database_is_named_and_never_written_out(account, database):
    described = resolved("schedules", DatabaseParameter=database)["SweepTask"]
    secrets = described["ContainerDefinitions"][0].get("Secrets", [])
    assert [entry["ValueFrom"].partition(":parameter")[2] for entry in secrets] == [database] * bool(database)


def test_the_scheduler_takes_both_schedules_and_starts_a_sweep_of_its_due_time(account, monkeypatch):
    properties = resolved("schedules")
    scheduler = client_of("scheduler")
    scheduler.create_schedule_group(Name=properties["Schedules"]["Name"])
    for name in ("SweepSchedule", "ReaperSchedule"):
        scheduler.create_schedule(**as_requests_write(properties[name]))
    sweep = scheduler.get_schedule(GroupName="advisor", Name="sweep")
    assert sweep["ScheduleExpressionTimezone"] == "Europe/Berlin"
    (override,) = json.loads(sweep["Target"]["Input"])["containerOverrides"]
    since = [{"name": "ADVISOR_FRESH_SINCE", "value": "<aws.scheduler.scheduled-time>"}]
    assert override == {"name": "advisor", "command": json.loads(ARGUMENTS), "environment": since}
    assert scheduler.get_schedule(GroupName="advisor", Name="reaper")["State"] == "ENABLED"
    # As EventBridge fills the time in, ECS puts it into the container's environment.
    target = resolved("schedules")["SweepSchedule"]["Target"]
    changed = target["Input"].replace("<aws.scheduler.scheduled-time>", "2026-11-23T02:00:00Z")
    (override,) = json.loads(changed)["containerOverrides"]
    for entry in override["environment"]:
        monkeypatch.setenv(entry["name"], entry["value"])
    (sweep, run, *options) = override["command"]
    assert (sweep, run) == ("sweep", "run")
    context = sweep_run.make_context("advisor sweep run", options)
    assert context.params["fresh_since"] == datetime(2026, 11, 23, 2, tzinfo=UTC)


def test_the_accounts_budget_is_taken_and_no_port_of_the_containers_is_open(account):
    expected = resolved("account")["Costs"]
    limit = expected["Budget"]["BudgetLimit"]
    limit["Amount"] = str(limit["Amount"])
    budgets = client_of("budgets")
    budgets.create_budget(AccountId=ACCOUNT, **expected)
    (made,) = budgets.describe_budgets(AccountId=ACCOUNT)["Budgets"]
    assert made["CostFilters"] == {"TagKeyValue": ["user:advisor:managed$true"]}
    group = created("schedules")["ContainerGroup"]
    described = client_of("ec2").describe_security_groups(GroupIds=[group])
    assert described["SecurityGroups"][0]["IpPermissions"] == []


def test_a_reaper_that_cannot_even_start_is_told_and_every_policy_stands_in_a_template():
    """Its image is gone: there is no exit code, and `anything-but` matches what is there only."""
    resources = template("schedules")["Resources"].values()
    rules = [entry["Properties"] for entry in resources if entry["Type"] == "AWS::Events::Rule"]
    patterns = [rule["EventPattern"]["detail"] for rule in rules]
    assert any(pattern.get("stopCode") == ["TaskFailedToStart"] for pattern in patterns)
    assert any("containers" in pattern for pattern in patterns)
    with pytest.raises(UsageError, match="schedules"):
        template("schedule")
    text = json.dumps([template(name) for name in NAMES])
    statements = [entry for name in POLICIES for entry in policy(name, bucket=BUCKET)["Statement"]]
    assert [entry["Sid"] for entry in statements if entry["Sid"] not in text] == []
