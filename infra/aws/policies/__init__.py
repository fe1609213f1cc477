"""IAM policies of each part: the controller, a guest's role, the reaper, the head of a Ray cluster.

The files have CloudFormation's names for what differs between accounts (`${AWS::AccountId}`,
`${Bucket}`, ..): a template takes them as they are, and `policy` fills them in.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from advisor.errors import UsageError, unknown_name

NAMES = ("controller", "guest", "reaper", "cluster")
GUEST_ROLE = "advisor-guest"
# What may stand in each place, and what it is called. `*` is any.
_FORMS = {
    "AWS::Partition": (r"aws(-[a-z]+)*|\*", "partition of AWS; take aws, aws-cn or aws-us-gov"),
    "AWS::AccountId": (r"\d{12}|\*", "number of an account, which has twelve digits"),
    "Bucket": (r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|\*", "name of a bucket, as my-results"),
    "GuestRole": (r"[\w+=,.@-]{1,64}|\*", "name of a role, as advisor-guest"),
}


def policy_text(name: str) -> str:
    """The policy with its places left open, as a template of CloudFormation takes it."""
    if name not in NAMES:
        raise unknown_name("policy", name, NAMES)
    return (files("advisor.infra.aws.policies") / f"{name}.json").read_text(encoding="utf-8")


def policy(
    name: str, *, account: str = "*", bucket: str = "", guest_role: str = GUEST_ROLE, partition: str = "aws"
) -> dict[str, Any]:
    """The policy of that name for an account (twelve digits; `*` is any) and a bucket.

    `UsageError` where it needs a bucket, and none is named; and for a value that is none.
    """
    text = policy_text(name)
    if "${Bucket}" in text and not bucket:
        raise UsageError("the policy '{name}' names a bucket", hint="add --bucket NAME", name=name)
    places = {
        "AWS::Partition": partition,
        "AWS::AccountId": account,
        "Bucket": bucket,
        "GuestRole": guest_role,
    }
    for place, value in places.items():
        if f"${{{place}}}" in text:
            _refuse_wrong(place, value)
        text = text.replace(f"${{{place}}}", value)
    document: dict[str, Any] = json.loads(text)
    return document


def _refuse_wrong(place: str, value: str) -> None:
    form, noun = _FORMS[place]
    if not re.fullmatch(form, value):
        raise UsageError("'{value}' is no {noun}", value=value, noun=noun)


def allowed_actions_of(statement: dict[str, Any]) -> set[str]:
    """The actions of one statement."""
    actions = statement["Action"]
    return {actions} if isinstance(actions, str) else set(actions)
