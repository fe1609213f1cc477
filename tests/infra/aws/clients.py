"""moto's AWS, in this process and as a server, and clients of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import moto.core.models  # what a session asks goes through it if it was there first
import pytest
from moto import mock_aws
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

assert moto.core.models
_SESSION = boto3.session.Session("testing", "testing")
_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@cache
def client_of(service: str, region: str = "us-east-1") -> Any:
    """Making a client takes longer than all that a test asks of it: one for all tests."""
    return _SESSION.client(service, region_name=region)


@contextmanager
def moto_account(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever asks AWS in this process asks moto, with credentials that mean nothing."""
    for name, value in _SETTINGS.items():
        patch.setenv(name, value)
    with mock_aws():
        yield


@contextmanager
def moto_server(patch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The settings of this process and of those that it starts that lead to a server of moto."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", **_SETTINGS}
    for name, value in settings.items():
        patch.setenv(name, value)
    yield settings
    server.stop()
    moto_api_backend.reset()


def role_credentials(role: str, session: str, policy: Mapping[str, Any]) -> dict[str, str]:
    """Those of a new role with that policy alone."""
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    iam = boto3.client("iam")
    made = iam.create_role(
        RoleName=role, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=json.dumps(policy))
    given = boto3.client("sts").assume_role(RoleArn=made["Role"]["Arn"], RoleSessionName=session)
    return given["Credentials"]
