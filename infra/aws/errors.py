"""EC2's errors during a launch, each with a reaction; findings of checks; IAM policies that fix refusals.

The codes are in `launch_errors.csv` (origin in SOURCES.md). An unknown code stops the launch, since further
attempts could cost money."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from advisor.errors import AdvisorError, CloudError, UsageError, unknown_name


class AwsFailure(StrEnum):
    """Kind of a failure."""

    CAPACITY = "capacity"
    RESERVATION = "reservation"
    PRICE = "price"
    QUOTA = "quota"
    OFFERING = "offering"
    NETWORK = "network"
    TOKEN = "token"
    OK = "ok"
    PERMISSION = "permission"
    ACCOUNT = "account"
    CREDENTIALS = "credentials"
    THROTTLE = "throttle"
    SERVER = "server"
    SPOT_TAKEN_BACK = "spot_taken_back"
    OWN_END = "own_end"
    VOLUME_QUOTA = "volume_quota"
    KEY = "key"
    UNKNOWN = "unknown"


class Reaction(StrEnum):
    """Reaction to a failure.

    `next_offer`: skip this offer (type, zone and market) for three minutes; `never_again`: for good.
    `ask_again`: repeat the same request later. `find`: the token's instance exists, look for it.
    `launch_again`: use a new token. `stop`: end the launch."""

    NEXT_OFFER = "next_offer"
    NEVER_AGAIN = "never_again"
    ASK_AGAIN = "ask_again"
    FIND = "find"
    GO_ON = "go_on"
    LAUNCH_AGAIN = "launch_again"
    DONE = "done"
    STOP = "stop"


class Refused(CloudError):
    """AWS refused a request with the error `code`. `was_open`: an earlier attempt of the same request got no
    answer, or a server error, so it may have taken effect."""

    was_open = False

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(
            "AWS refused {operation}: {reason}: {message}",
            operation=operation,
            reason=code,
            message=message,
            code=code,
        )
        self.operation = operation
        self.answer = message

    @property
    def kind(self) -> AwsFailure:
        """The kind of failure."""
        return kind_of(self.code)

    @property
    def reaction(self) -> Reaction:
        """The reaction to the failure."""
        return reaction_to(self.code)


class Unanswered(CloudError):
    """AWS did not answer a request in any attempt, so a change may have taken effect or not."""

    def __init__(self, operation: str, why: str) -> None:
        reads = operation.startswith(("describe_", "get_", "list_"))
        super().__init__(
            "AWS did not answer {operation} ({why})",
            operation=operation,
            why=why,
            hint="is the network there, or a proxy in between?" if reads else "it may have been done or not",
        )
        self.operation = operation


def kind_of(code: str) -> AwsFailure:
    """The kind of an error or state reason code."""
    return _meaning(code)[0]


def reaction_to(code: str) -> Reaction:
    """The reaction to an error or state reason code."""
    return _meaning(code)[1]


@cache
def error_codes() -> dict[str, tuple[AwsFailure, Reaction]]:
    """Kind and reaction of each error code."""
    text = (files("advisor.infra.aws") / "launch_errors.csv").read_text(encoding="utf-8")
    return {
        row["error_code"]: (AwsFailure(row["kind"]), Reaction(row["reaction"]))
        for row in csv.DictReader(text.splitlines())
    }


def _meaning(code: str) -> tuple[AwsFailure, Reaction]:
    """Kind and reaction of a code, with or without the `Server.` or `Client.` of EC2's state reasons."""
    bare = code.partition(".")[2] if code.startswith(("Server.", "Client.")) else code
    return error_codes().get(code) or error_codes().get(bare) or (AwsFailure.UNKNOWN, Reaction.STOP)


NAMES = ("controller", "guest", "reaper", "cluster")
GUEST_ROLE = "advisor-guest"
# The valid values of each placeholder (`*` is any), and what they are called.
_FORMS = {
    "AWS::Partition": (r"aws(-[a-z]+)*|\*", "partition of AWS; take aws, aws-cn or aws-us-gov"),
    "AWS::AccountId": (r"\d{12}|\*", "number of an account, which has twelve digits"),
    "Bucket": (r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|\*", "name of a bucket, as my-results"),
    "GuestRole": (r"[\w+=,.@-]{1,64}|\*", "name of a role, as advisor-guest"),
}


def policy_text(name: str) -> str:
    """A policy's text with its placeholders, as CloudFormation templates need it."""
    if name not in NAMES:
        raise unknown_name("policy", name, NAMES)
    return (files("advisor.infra.aws") / "policies" / f"{name}.json").read_text(encoding="utf-8")


def policy(
    name: str, *, account: str = "*", bucket: str = "", guest_role: str = GUEST_ROLE, partition: str = "aws"
) -> dict[str, Any]:
    """The policy of that name for an account (twelve digits; `*` is any) and a bucket. `UsageError` for a
    missing bucket, or a malformed value."""
    text = policy_text(name)
    if "${Bucket}" in text and not bucket:
        raise UsageError(f"the policy '{name}' names a bucket", hint="add --bucket NAME")
    placeholders = {
        "AWS::Partition": partition,
        "AWS::AccountId": account,
        "Bucket": bucket,
        "GuestRole": guest_role,
    }
    for placeholder, value in placeholders.items():
        form, noun = _FORMS[placeholder]
        if f"${{{placeholder}}}" in text and not re.fullmatch(form, value):
            raise UsageError(f"'{value}' is no {noun}")
        text = text.replace(f"${{{placeholder}}}", value)
    document: dict[str, Any] = json.loads(text)
    return document


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check before a launch; `mend` is the command or policy that fixes it; `stops` means
    no launch until then."""

    check: str
    ok: bool
    text: str
    mend: str = ""
    stops: bool = True


def good(check: str, text: str) -> Finding:
    """The finding of a check that passed."""
    return Finding(check=check, ok=True, text=text)


def missing(check: str, text: str, mend: str) -> Finding:
    """The finding of a check that failed, with its fix."""
    return Finding(check=check, ok=False, text=text, mend=mend)


def not_checked(check: str, error: Exception, without: str = "") -> Finding:
    """The finding of a check that AWS did not answer. A launch goes on if `without` says what it lacks."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    text = f"{without} ({error})" if without else str(error)
    return Finding(check=check, ok=False, text=text, mend=mend, stops=not without)


def absent(check: str, error: Exception, codes: str | tuple[str, ...], text: str, mend: str) -> Finding:
    """The finding for an error: `missing` if AWS gave one of these codes, else `not_checked`."""
    if isinstance(error, Refused) and error.code.startswith(codes):
        return missing(check, text, mend)
    return not_checked(check, error)


def refuse_missing(findings: Iterable[Finding]) -> None:
    """Raise `CloudError` with all findings that stop a launch, and their fixes."""
    stopping = [finding for finding in findings if finding.stops and not finding.ok]
    if stopping:
        lacks = (f"({finding.check}) {finding.text.rstrip('.')}: {finding.mend}" for finding in stopping)
        raise CloudError(f"nothing was launched: {'; '.join(lacks)}")


# IAM prefixes of operations of other services than EC2.
_PREFIXES = {
    "GetServiceQuota": "servicequotas",
    "GetParameter": "ssm",
    "GetInstanceProfile": "iam",
    "GetCallerIdentity": "sts",
    "HeadBucket": "s3",
    "GetObject": "s3",
    "PutObject": "s3",
    "ListObjectsV2": "s3",
}


def action_of(operation: str) -> str:
    """The IAM action of an operation: 'RunInstances' -> 'ec2:RunInstances'."""
    action = "ListBucket" if operation in ("HeadBucket", "ListObjectsV2") else operation
    return f"{_PREFIXES.get(operation, 'ec2')}:{action}"


def explained(refused: Refused) -> CloudError:
    """The error for a refusal that ends a launch, with its fix."""
    return CloudError(_refusal_text(refused), hint=mend_of(refused))


def reaping_refusal(error: AdvisorError) -> str:
    """An error of the reaper in words, with its fix, which is a smaller policy than the controller's."""
    if not isinstance(error, Refused):
        return str(error)
    if error.kind is AwsFailure.PERMISSION:
        return f"{_refusal_text(error)}; `advisor cloud policy reaper` prints what it needs"
    return f"{_refusal_text(error)}; {mend_of(error)}"


def mend_of(refused: Refused) -> str:
    """The command that fixes a refusal, or the right that is missing."""
    if refused.kind is AwsFailure.PERMISSION:
        # What tags resources, or passes a role to an instance, needs more than the refusal names.
        return f"allow {action_of(refused.operation)}, as `advisor cloud policy controller` prints it"
    if refused.kind is AwsFailure.CREDENTIALS:
        return (
            "log in again: `aws sso login`, or `aws configure`; `aws sts get-caller-identity` "
            "shows who you are (a clock that is minutes off, or a region not opted into, is refused, too)"
        )
    return _MENDS.get(refused.kind, "ask again later")


def _refusal_text(refused: Refused) -> str:
    if refused.kind is AwsFailure.PERMISSION:
        return f"the AWS credentials may not {action_of(refused.operation)}"
    if refused.kind is AwsFailure.CREDENTIALS:
        return f"AWS does not take the credentials any more ({refused.code})"
    return f"AWS refused {refused.operation}: {refused.code}: {refused.answer}".rstrip(": ")


_MENDS = {
    AwsFailure.ACCOUNT: "AWS looks at the account, and mails when that is over (up to four hours)",
    AwsFailure.THROTTLE: "others of the account ask AWS too often; ask again in some minutes",
    AwsFailure.SERVER: "AWS is in trouble there; take another --region, or ask again later",
    AwsFailure.VOLUME_QUOTA: "the account's volumes are at their limit: delete some, or have it raised",
    AwsFailure.KEY: "allow kms:CreateGrant, kms:Decrypt, kms:DescribeKey and "
    "kms:GenerateDataKeyWithoutPlaintext on what `aws ec2 get-ebs-default-kms-key-id` names",
}


def explained_state(instance_id: str, code: str) -> CloudError:
    """The error for an instance that ended by itself, with the fix."""
    mend = _MENDS.get(kind_of(code), "see `advisor cloud status`: somebody or something ended it")
    return CloudError(f"{instance_id} has ended before its work was done ({code})", hint=mend)
