"""Things of sweeps in moto's EC2, a clock that takes no time, and clients that misbehave."""

from datetime import timedelta

from botocore.exceptions import ClientError

from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from tests.infra.aws.clients import client_of
from tests.infra.aws.clocks import START, FakeClock

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
        request = {
            name: value(region) if callable(value) else value for name, value in {**wanted, **more}.items()
        }
        answer = getattr(client_of("ec2", region), operation)(
            TagSpecifications=specified(kind, expected), **request
        )
        for part in path:
            answer = answer[part]
        return answer

    return make


def a_subnet(region):
    return client_of("ec2", region).describe_subnets()["Subnets"][0]["SubnetId"]


LIKE = {"ImageId": IMAGE, "InstanceType": "g4dn.xlarge"}
an_instance = maker("instance", "run_instances", "Instances", 0, "InstanceId", MinCount=1, MaxCount=1, **LIKE)
a_volume = maker("volume", "create_volume", "VolumeId", AvailabilityZone="{}a".format, Size=10)
a_group = maker(
    "security-group",
    "create_security_group",
    "GroupId",
    GroupName="advisor-s1",
    Description="nothing comes in",
)
a_key = maker("key-pair", "create_key_pair", "KeyName", KeyName="advisor-s1")
MAKERS = {
    "instance": an_instance,
    "volume": a_volume,
    "security-group": a_group,
    "key-pair": a_key,
    "launch-template": maker(
        "launch-template",
        "create_launch_template",
        *("LaunchTemplate", "LaunchTemplateId"),
        LaunchTemplateName="advisor-s1",
        LaunchTemplateData={"InstanceType": "g4dn.xlarge"},
    ),
    "network-interface": maker(
        "network-interface",
        "create_network_interface",
        *("NetworkInterface", "NetworkInterfaceId"),
        SubnetId=a_subnet,
    ),
    "spot-request": maker(
        "spot-instances-request",
        "request_spot_instances",
        *("SpotInstanceRequests", 0, "SpotInstanceRequestId"),
        LaunchSpecification=LIKE,
    ),
}
