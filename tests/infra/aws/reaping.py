"""Things of sweeps in moto's EC2, a clock that takes no time, and clients that misbehave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
import moto.core.models  # what a session asks goes through it if it was there first
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from tests.infra.aws.lifecycles import START, FakeClock

assert moto.core.models
_SESSION = boto3.session.Session("testing", "testing")
_SETTINGS = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "testing")
_SETTINGS["AWS_DEFAULT_REGION"] = "us-east-1"


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
    trusting = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made = iam.create_role(RoleName=role, AssumeRolePolicyDocument=trusting)
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=json.dumps(policy))
    given = boto3.client("sts").assume_role(RoleArn=made["Role"]["Arn"], RoleSessionName=session)
    return given["Credentials"]


NOW = START
PAST, FUTURE = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)
REGIONS = ("us-east-1", "eu-west-1")
IMAGE = "ami-12c6146b"


class Faulty:
    """A client whose operations are refused as `faults` says: a list of codes each, used up one a
    call ("" lets a call through), or one code for ever."""

    def __init__(self, client, faults):
        self._client = client
        self._faults = faults
        self.asked = []

    def __getattr__(self, operation):
        def ask(**request):
            self.asked.append(operation)
            code = self._next(operation)
            if code:
                raise ClientError({"Error": {"Code": code, "Message": "as told"}}, operation)
            return getattr(self._client, operation)(**request)

        return ask

    def _next(self, operation):
        expected = self._faults.get(operation, "")
        if isinstance(expected, str):
            return expected
        return expected.pop(0) if expected else ""


def aws(faults=None, clock=None):
    """An `Aws` on moto; `faults` are by region, then by operation."""

    def client(service, region):
        return Faulty(client_of(service, region), (faults or {}).get(region, {}))

    return Aws(client, clock or FakeClock())


def worn(expires_at=PAST, owner="ann", sweep_id="s1", **changes):
    """Tags as EC2 takes them; a change to None leaves one out."""
    expected = {**tags.base_tags(sweep_id, owner, expires_at, 5.0), **changes}
    return {key: value for key, value in expected.items() if value is not None}


def specified(kind, expected):
    """As a request has them; those of an expired thing of ours, where a test tells none."""
    expected = worn() if expected is None else expected
    return tags.specifications(expected, [kind]) if expected else []


def maker(kind, operation, *path, **wanted):
    """Makes a thing of a kind in a region, with these tags; its name stands at that place of the answer."""

    def make(region, expected=None, **more):
        request = {**wanted, **more}
        request = {name: value(region) if callable(value) else value for name, value in request.items()}
        ask = getattr(client_of("ec2", region), operation)
        answer = ask(TagSpecifications=specified(kind, expected), **request)
        for part in path:
            answer = answer[part]
        return answer

    return make


def a_subnet(region):
    return client_of("ec2", region).describe_subnets()["Subnets"][0]["SubnetId"]


LIKE = {"ImageId": IMAGE, "InstanceType": "g4dn.xlarge"}
an_instance = maker("instance", "run_instances", "Instances", 0, "InstanceId", MinCount=1, MaxCount=1, **LIKE)
a_volume = maker("volume", "create_volume", "VolumeId", AvailabilityZone="{}a".format, Size=10)
NAMED = {"GroupName": "advisor-s1", "Description": "nothing comes in"}
a_group = maker("security-group", "create_security_group", "GroupId", **NAMED)
a_key = maker("key-pair", "create_key_pair", "KeyName", KeyName="advisor-s1")
MAKERS = {"instance": an_instance, "volume": a_volume, "security-group": a_group, "key-pair": a_key}
MAKERS["launch-template"] = maker(
    *("launch-template", "create_launch_template", "LaunchTemplate", "LaunchTemplateId"),
    **{"LaunchTemplateName": "advisor-s1", "LaunchTemplateData": {"InstanceType": "g4dn.xlarge"}},
)
MAKERS["network-interface"] = maker(
    *("network-interface", "create_network_interface", "NetworkInterface", "NetworkInterfaceId"),
    SubnetId=a_subnet,
)
MAKERS["spot-request"] = maker(
    *("spot-instances-request", "request_spot_instances"),
    *("SpotInstanceRequests", 0, "SpotInstanceRequestId"),
    LaunchSpecification=LIKE,
)
