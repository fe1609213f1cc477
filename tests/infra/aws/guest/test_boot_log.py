"""A start that fails leaves its log in the bucket, by the guest's role and Python alone."""

import json
from datetime import timedelta

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.core import set_initial_no_auth_action_count

from advisor.infra.aws.guest.job import Job
from advisor.infra.aws.guest.software import Software
from advisor.infra.aws.policies import policy
from tests.infra.aws.clients import moto_server, role_credentials
from tests.infra.aws.guest.imds import serving
from tests.infra.aws.guest.sandbox import sandbox

BUCKET, INSTANCE = "advisor-test", "i-0123456789abcdef0"
JOB = Job(sweep_id="s1", region="us-east-1", bucket=BUCKET, prefix="sweeps/s1/g4dn.xlarge", arguments=())
KEY = f"{JOB.prefix}/guests/{INSTANCE}.boot.log"


@pytest.fixture
def aws(monkeypatch):
    """moto's server, as a client of an administrator finds it."""
    with moto_server(monkeypatch) as settings:
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield settings["AWS_ENDPOINT_URL"]


def guests_credentials(document):
    """Those of a role with that policy, as the metadata service gives them."""
    given = role_credentials("advisor-guest", INSTANCE, document)
    keys = {name: given[name] for name in ("AccessKeyId", "SecretAccessKey")}
    return json.dumps({**keys, "Token": given["SessionToken"]})


def failed_boot(tmp_path, endpoint, credentials):
    """The start script of an instance on which pip fails; AWS asks for rights meanwhile."""
    with serving() as service:
        role = "meta-data/iam/security-credentials/"
        service.told |= {role: "advisor-guest", f"{role}advisor-guest": credentials}
        box = sandbox(
            tmp_path / "instance",
            AWS_ENDPOINT_URL=endpoint,
            AWS_EC2_METADATA_SERVICE_ENDPOINT=service.address,
        )
        box.answer("python3.13", 0, pip=1)
        script = box.user_data(JOB, Software(b"", "0" * 64), timedelta(hours=1))
        script = script.replace("venv/bin/pip install", "echo no way to PyPI; venv/bin/pip install")

        set_initial_no_auth_action_count(0)(box.run)(script)
    return box


def test_a_failed_start_leaves_its_log_by_the_guests_role_and_ends(aws, tmp_path):
    """moto takes no request whose signature or right is wrong."""
    credentials = guests_credentials(policy("guest", bucket=BUCKET))
    box = failed_boot(tmp_path, aws, credentials)
    assert box.calls[-1] == "shutdown -h now"
    text = boto3.client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read().decode()
    assert text.splitlines()[-1] == "no way to PyPI"


@pytest.mark.parametrize("spoilt", ["right", "key"])
def test_a_bucket_that_refuses_the_log_keeps_no_machine_alive(aws, tmp_path, spoilt):
    document = policy("guest", bucket=BUCKET if spoilt == "key" else "another-one")
    credentials = guests_credentials(document)
    if spoilt == "key":
        credentials = json.dumps(json.loads(credentials) | {"SecretAccessKey": "x" * 40})
    box = failed_boot(tmp_path, aws, credentials)
    assert "403" in box.said
    assert box.calls[-1] == "shutdown -h now"
    with pytest.raises(ClientError, match="NoSuchKey"):
        boto3.client("s3").get_object(Bucket=BUCKET, Key=KEY)
