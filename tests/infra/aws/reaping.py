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
        told = self._faults.get(operation, "")
        if isinstance(told, str):
            return told
        return told.pop(0) if told else ""


def aws(faults=None, clock=None):
    """An `Aws` on moto; `faults` are by region, then by operation."""

    def client(service, region):
        return Faulty(client_of(service, region), (faults or {}).get(region, {}))

    return Aws(client, clock or FakeClock())


def worn(expires_at=PAST, owner="ann", sweep_id="s1", **changes):
    """Tags as EC2 takes them; a change to None leaves one out."""
    told = {**tags.base_tags(sweep_id, owner, expires_at, 5.0), **changes}
    return {key: value for key, value in told.items() if value is not None}


def specified(kind, told):
    """As a request has them; those of an expired thing of ours, where a test tells none."""
    told = worn() if told is None else told
    return tags.specifications(told, [kind]) if told else []


def an_instance(region, told=None, **more):
    answer = client_of("ec2", region).run_instances(
        ImageId=IMAGE,
        MinCount=1,
        MaxCount=1,
        InstanceType="g4dn.xlarge",
        TagSpecifications=specified("instance", told),
        **more,
    )
    return answer["Instances"][0]["InstanceId"]


def a_volume(region, told=None):
    return client_of("ec2", region).create_volume(
        AvailabilityZone=f"{region}a", Size=10, TagSpecifications=specified("volume", told)
    )["VolumeId"]


def a_group(region, told=None):
    return client_of("ec2", region).create_security_group(
        GroupName="advisor-s1",
        Description="nothing comes in",
        TagSpecifications=specified("security-group", told),
    )["GroupId"]


def a_key(region, told=None):
    return client_of("ec2", region).create_key_pair(
        KeyName="advisor-s1", TagSpecifications=specified("key-pair", told)
    )["KeyName"]


def a_template(region, told=None):
    return client_of("ec2", region).create_launch_template(
        LaunchTemplateName="advisor-s1",
        LaunchTemplateData={"InstanceType": "g4dn.xlarge"},
        TagSpecifications=specified("launch-template", told),
    )["LaunchTemplate"]["LaunchTemplateId"]


def an_interface(region, told=None):
    ec2 = client_of("ec2", region)
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    return ec2.create_network_interface(
        SubnetId=subnet, TagSpecifications=specified("network-interface", told)
    )["NetworkInterface"]["NetworkInterfaceId"]


def a_spot_request(region, told=None):
    return client_of("ec2", region).request_spot_instances(
        LaunchSpecification={"ImageId": IMAGE, "InstanceType": "g4dn.xlarge"},
        TagSpecifications=specified("spot-instances-request", told),
    )["SpotInstanceRequests"][0]["SpotInstanceRequestId"]


MAKERS = {
    "instance": an_instance,
    "volume": a_volume,
    "security-group": a_group,
    "key-pair": a_key,
    "launch-template": a_template,
    "network-interface": an_interface,
    "spot-request": a_spot_request,
}
