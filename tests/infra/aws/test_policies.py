"""Each part may do what it does, and nothing else: policies against recorded API calls."""

import ast
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

import advisor.infra.aws
from advisor.errors import UsageError
from advisor.infra.aws.errors import NAMES, policy, policy_text
from advisor.infra.aws.guest.job import job_to_json
from advisor.infra.aws.guest.metadata import Metadata, ResultBucket
from advisor.infra.aws.guest.volumes import volume_ids
from advisor.infra.aws.machines import KINDS
from advisor.infra.aws.reap import reap
from advisor.runs.cloud.agent import Guest, run_job
from advisor.runs.cloud.exchange import object_of
from tests.infra.aws.builders import a_job, is_clean
from tests.infra.aws.guest.sandbox import serving
from tests.infra.aws.iam import action_of, actions, allowed_actions, allowed_actions_of, recorded_calls
from tests.infra.aws.reaping import MAKERS, NOW, REGIONS, aws, moto_account
from tests.sweeps.builders import measurement

BUCKET = "advisor-test"
# Asked of IAM by EC2 in our name: no call of ours has these names.
IMPLIED = {"iam:PassRole", "iam:CreateServiceLinkedRole"}
# Asked by advisor.infra.live, which has clients of its own.
OF_PRICES = {"pricing:GetProducts"}


@pytest.fixture
def account(monkeypatch):
    with moto_account(monkeypatch):
        yield


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_one_that_iam_takes(name, account):
    document = policy(name, account="123456789012", bucket=BUCKET)
    assert "${" not in str(document)
    assert all(entry["Effect"] == "Allow" for entry in document["Statement"])
    names = [entry["Sid"] for entry in document["Statement"]]
    assert len(set(names)) == len(names)
    assert all(entry.isalnum() for entry in names)
    listed = Counter(action for entry in document["Statement"] for action in allowed_actions_of(entry))
    assert not any("*" in action for action in listed)
    twice = {action for action, count in listed.items() if count > 1}
    assert twice <= {"ec2:RunInstances", "ec2:CreateTags", "ec2:CreateSecurityGroup"}
    assert len(policy_text(name)) < 10_240 / 1.2  # IAM's limit of a role's own policies
    boto3.client("iam").create_policy(PolicyName=name, PolicyDocument=json.dumps(document))


@pytest.mark.parametrize("name", ["controller", "reaper"])
def test_what_changes_or_ends_things_is_held_to_our_tags(name):
    ends = ("ec2:Delete", "ec2:Terminate", "ec2:Cancel")
    for entry in policy(name, bucket=BUCKET)["Statement"]:
        if any(action.startswith(ends) for action in allowed_actions_of(entry)):
            held = entry["Condition"]["StringEquals"]
            assert held == {"aws:ResourceTag/advisor:managed": "true"}


def test_the_reaper_may_do_exactly_what_it_does(account, few_regions, monkeypatch):
    for make in MAKERS.values():
        make("us-east-1")
    with recorded_calls(monkeypatch) as seen:
        assert is_clean(reap(aws(), now=NOW))
        reap(aws(), now=NOW, regions=REGIONS, dry_run=True)
    assert actions(seen) == allowed_actions(policy("reaper"))


def test_a_guest_may_do_exactly_what_it_does(account, monkeypatch, tmp_path):
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    boto3.client("ssm").put_parameter(
        Name="/advisor/database", Value=f"sqlite:///{tmp_path / 'x'}", Type="SecureString"
    )
    seen = []
    for parameter in ("", "/advisor/database"):
        job = a_job(database_parameter=parameter)
        box = ResultBucket(aws(), "us-east-1", BUCKET, job.prefix)
        box.put("job.json", job_to_json(job).encode())
        with serving() as service, recorded_calls(monkeypatch) as now:
            run_job(
                job.url,
                "us-east-1",
                datetime.now(UTC) + timedelta(hours=1),
                Guest(
                    aws=aws(),
                    metadata=Metadata(service.address),
                    folder=tmp_path,
                    mount=lambda _: volume_ids(aws(), "us-east-1", "i-0") and {},
                    advisor=("true",),
                    poll_seconds=0.05,
                ),
            )
            box.put_once(*object_of(measurement()))
        seen += now
    assert actions(seen) == allowed_actions(policy("guest", bucket=BUCKET))


def test_a_guest_writes_only_where_its_policy_lets_it(account):
    """Keys are relative to `sweeps/ID..`; the policy has two folders of each."""
    from advisor.infra.aws.guest.job import STATES_FOLDER as GUESTS
    from advisor.runs.cloud.exchange import MEASUREMENTS_FOLDER as MEASUREMENTS

    (sending,) = [
        entry for entry in policy("guest", bucket=BUCKET)["Statement"] if entry["Action"] == "s3:PutObject"
    ]
    assert [entry.rpartition("sweeps/*/")[2] for entry in sending["Resource"]] == [
        f"{MEASUREMENTS}*",
        f"{GUESTS}*",
    ]


def test_the_controller_may_do_exactly_what_its_code_asks(account):
    request = _asked_in_source() | {action_of("ec2", _camel(kind.operation)) for kind in KINDS}
    request |= {action_of("ec2", _camel(kind.removal)) for kind in KINDS}
    allowed = allowed_actions(policy("controller", bucket=BUCKET))
    assert request == allowed - IMPLIED - OF_PRICES
    assert allowed_actions(policy("reaper")) <= allowed, "its `finally` removes as the reaper does"


@pytest.mark.parametrize(("name", "words"), [("guest", "--bucket"), ("reeper", "reaper")])
def test_a_policy_that_names_a_bucket_wants_one_and_one_that_is_none_is_told(name, words):
    with pytest.raises(UsageError, match=words):
        policy(name)


def _asked_in_source() -> set[str]:
    """Operations that the launching part names in `ask` and `pages`; the guest's own side apart,
    but for the mailbox, which both use."""
    folder = Path(advisor.infra.aws.__file__).parent
    result: set[str] = set()
    for path in (*folder.glob("*.py"), folder / "guest/metadata.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("ask", "_ask", "pages"):
                result |= set(_operation(node))
    return result


def _operation(node: ast.Call) -> list[str]:
    """The one that a call names; a mailbox (`_ask`) is a bucket's."""
    names = [each.value for each in node.args if isinstance(each, ast.Constant)]
    usual = ast.Constant("s3" if getattr(node.func, "attr", "") == "_ask" else "ec2")
    service = next((each.value for each in node.keywords if each.arg == "service"), usual)
    return [action_of(service.value, _camel(names[0]))] if names and isinstance(service, ast.Constant) else []


def _camel(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))
