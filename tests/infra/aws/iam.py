"""What IAM would say of a recorded request: each resource of it, with the context that EC2 and S3
give it (Service Authorization Reference), against the statements of a policy."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import botocore.client

ACCOUNT, REGION = "123456789012", "us-east-1"
OURS = {"aws:ResourceTag/advisor:managed": "true"}
# Operations on things that exist, which carry our tag.
_ENDING = {
    "ec2:TerminateInstances": "instance",
    "ec2:CancelSpotInstanceRequests": "spot-instances-request",
    "ec2:DeleteSecurityGroup": "security-group",
    "ec2:DeleteVolume": "volume",
    "ec2:DeleteNetworkInterface": "network-interface",
    "ec2:DeleteKeyPair": "key-pair",
    "ec2:DeleteLaunchTemplate": "launch-template",
    "ec2:GetConsoleOutput": "instance",
}


@dataclass(frozen=True)
class Ask:
    """One action on one resource."""

    action: str
    resource: str = "*"
    context: Mapping[str, Any] = field(default_factory=dict)


def allows(document: Mapping[str, Any], ask: Ask) -> bool:
    """Whether some statement does; these policies deny nothing."""
    return any(
        ask.action in _listed(entry["Action"])
        and any(fnmatchcase(ask.resource, pattern) for pattern in _listed(entry["Resource"]))
        and all(
            _holds(operator, key, _listed(wanted), ask.context)
            for operator, keys in entry.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
        for entry in document["Statement"]
    )


def asks(action: str, request: Mapping[str, Any]) -> Iterator[Ask]:
    """What a request needs, by resource."""
    if action in _ENDING:
        yield Ask(action, _arn(f"{_ENDING[action]}/x"), OURS)
    elif action.startswith("s3:"):
        key = f"/{request['Key']}" if "Key" in request else ""
        prefix = {"s3:prefix": request["Prefix"]} if "Prefix" in request else {}
        yield Ask(action, f"arn:aws:s3:::{request['Bucket']}{key}", prefix)
    elif action in _OWN:
        yield from _OWN[action](request)
    else:
        yield Ask(action, _NAMED.get(action, lambda _: "*")(request))


def _group(request: Mapping[str, Any]) -> Iterator[Ask]:
    worn = _tags(request, "security-group")
    yield Ask("ec2:CreateSecurityGroup", _arn("security-group/*"), _requested(worn))
    yield Ask("ec2:CreateSecurityGroup", _arn(f"vpc/{request['VpcId']}"))
    yield _tagging(worn, "security-group", "CreateSecurityGroup")


def _renewal(request: Mapping[str, Any]) -> Iterator[Ask]:
    context = {**OURS, "aws:TagKeys": [tag["Key"] for tag in request["Tags"]]}
    for name in request["Resources"]:
        yield Ask("ec2:CreateTags", _arn(f"security-group/{name}"), context)


def _launch(request: Mapping[str, Any]) -> Iterator[Ask]:
    action = "ec2:RunInstances"
    kinds = [tagspecification["ResourceType"] for tagspecification in request["TagSpecifications"]]
    made = ["instance", "network-interface"]
    made += ["spot-instances-request"] * ("InstanceMarketOptions" in request)
    expected = {"ec2:MetadataHttpTokens": request.get("MetadataOptions", {}).get("HttpTokens", "optional")}
    for kind in made:
        context = _requested(_tags(request, kind)) | (expected if kind == "instance" else {})
        yield Ask(action, _arn(f"{kind}/*"), context)
    for disk in request["BlockDeviceMappings"]:
        sealed = {"ec2:Encrypted": str(disk["Ebs"].get("Encrypted", False)).lower()}
        yield Ask(action, _arn("volume/*"), _requested(_tags(request, "volume")) | sealed)
    (interface,) = request["NetworkInterfaces"]
    yield Ask(action, f"arn:aws:ec2:{REGION}::image/{request['ImageId']}")
    yield Ask(action, _arn(f"subnet/{interface['SubnetId']}"))
    for group in interface.get("Groups", ["default"]):
        yield Ask(action, _arn(f"security-group/{group}"))
    for kind in kinds:
        yield _tagging(_tags(request, kind), kind, "RunInstances")
    if name := request.get("IamInstanceProfile", {}).get("Name"):
        passed = {"iam:PassedToService": "ec2.amazonaws.com"}
        yield Ask("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{name}", passed)


def _tagging(worn: Mapping[str, str], kind: str, creating: str) -> Ask:
    context = {**_requested(worn), "ec2:CreateAction": creating, "aws:TagKeys": list(worn)}
    return Ask("ec2:CreateTags", _arn(f"{kind}/*"), context)


def _tags(request: Mapping[str, Any], kind: str) -> dict[str, str]:
    of_kind = [entry for entry in request.get("TagSpecifications", ()) if entry["ResourceType"] == kind]
    return {tag["Key"]: tag["Value"] for entry in of_kind for tag in entry["Tags"]}


def _requested(worn: Mapping[str, str]) -> dict[str, Any]:
    return {f"aws:RequestTag/{key}": value for key, value in worn.items()}


def _arn(thing: str) -> str:
    return f"arn:aws:ec2:{REGION}:{ACCOUNT}:{thing}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _holds(operator: str, key: str, wanted: list[Any], context: Mapping[str, Any]) -> bool:
    expected = context.get(key)
    if operator == "Null":
        return (expected is None) == (wanted == ["true"])
    if operator == "ForAllValues:StringEquals":
        return set(expected or ()) <= set(wanted)
    if operator == "StringLike":
        return expected is not None and any(fnmatchcase(expected, entry) for entry in wanted)
    assert operator in ("StringEquals", "Bool"), operator
    return expected in wanted


def _parameter(request: Mapping[str, Any]) -> str:
    owner = "" if request["Name"].startswith("/aws/") else ACCOUNT
    return f"arn:aws:ssm:{REGION}:{owner}:parameter{request['Name']}"


_OWN = {"ec2:RunInstances": _launch, "ec2:CreateSecurityGroup": _group, "ec2:CreateTags": _renewal}
_PROFILE = f"arn:aws:iam::{ACCOUNT}:instance-profile/"
_NAMED = {
    "ssm:GetParameter": _parameter,
    "iam:GetInstanceProfile": lambda entry: _PROFILE + entry["InstanceProfileName"],
}


def allowed_actions_of(statement: Mapping[str, Any]) -> set[str]:
    return set(_listed(statement["Action"]))


def allowed_actions(document: dict[str, Any]) -> set[str]:
    return set().union(*map(allowed_actions_of, document["Statement"]))


# Which API calls the code makes, as IAM names their actions.


# Where IAM's prefix is not the service's name, or its action not the operation's.
_PREFIXES = {"service-quotas": "servicequotas"}
_ACTIONS = dict.fromkeys(("s3:ListObjectsV2", "s3:HeadBucket"), "s3:ListBucket")
_ACTIONS["s3:HeadObject"] = "s3:GetObject"


Calls = list[tuple[str, Mapping[str, Any]]]


def actions(calls: Calls) -> set[str]:
    """What was asked for, however often."""
    return {action for action, _ in calls}


@contextmanager
def recorded_calls(monkeypatch) -> Iterator[Calls]:
    """Action and request of all calls of all clients meanwhile, answered or not."""
    seen: Calls = []
    ask = botocore.client.BaseClient._make_api_call

    def noting(client, operation, request):
        seen.append((action_of(client.meta.service_model.service_name, operation), request))
        return ask(client, operation, request)

    with monkeypatch.context() as patch:
        patch.setattr(botocore.client.BaseClient, "_make_api_call", noting)
        yield seen


def action_of(service: str, operation: str) -> str:
    """('ec2', 'RunInstances') -> 'ec2:RunInstances'."""
    name = f"{_PREFIXES.get(service, service)}:{operation}"
    return _ACTIONS.get(name, name)
