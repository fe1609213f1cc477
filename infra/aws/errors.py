"""Errors of EC2 that a launch may meet, each with its reaction; the policies that mend refusals.

The codes are in `launch_errors.csv` (origin in SOURCES.md). What nobody knows stops the launch: trying on
could cost money."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from advisor.errors import AdvisorError, CloudError, UsageError, unknown_name


class AwsFailure(StrEnum):
    """The kinds of failure."""

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
    """The reactions to a failure.

    `next_offer`: this offer (type, zone and market) is left alone for three minutes; `never_again`: for good.
    `ask_again`: the same request, later. `find`: the token's instance exists. `launch_again`: with a new
    token. `stop`: nothing more is tried."""

    NEXT_OFFER = "next_offer"
    NEVER_AGAIN = "never_again"
    ASK_AGAIN = "ask_again"
    FIND = "find"
    GO_ON = "go_on"
    LAUNCH_AGAIN = "launch_again"
    DONE = "done"
    STOP = "stop"


class Refused(CloudError):
    """AWS said no; `code` is its word for why. `was_open`: an earlier try of the same question got
    no answer, or a server's error, and may have been done."""

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
        """The reaction to it."""
        return reaction_to(self.code)


class Unanswered(CloudError):
    """No answer came, however often it was asked: what changes things may have been done or not."""

    def __init__(self, operation: str, why: str) -> None:
        looks = operation.startswith(("describe_", "get_", "list_", "simulate_"))
        super().__init__(
            "AWS did not answer {operation} ({why})",
            operation=operation,
            why=why,
            hint="is the network there, or a proxy in between?" if looks else "it may have been done or not",
        )
        self.operation = operation


def kind_of(code: str) -> AwsFailure:
    """The kind of an error or state reason code."""
    return _meaning(code)[0]


def reaction_to(code: str) -> Reaction:
    """The reaction to an error or state reason code."""
    return _meaning(code)[1]


@cache
def error_codes(*, elsewhere: bool = False) -> dict[str, tuple[AwsFailure, Reaction]]:
    """The codes of the table that a launch is told; or those that are met on the way to it."""
    text = (files("advisor.infra.aws") / "launch_errors.csv").read_text(encoding="utf-8")
    return {
        row["error_code"]: (AwsFailure(row["kind"]), Reaction(row["reaction"]))
        for row in csv.DictReader(text.splitlines())
        if (row["from"] == "elsewhere") is elsewhere
    }


def _meaning(code: str) -> tuple[AwsFailure, Reaction]:
    """EC2 writes state reasons with `Server.` or `Client.` before codes that it has bare, too."""
    existing = error_codes() | error_codes(elsewhere=True)
    bare = code.partition(".")[2] if code.startswith(("Server.", "Client.")) else code
    for entry in (code, bare):
        if kinds := existing.get(entry):
            return kinds
    return AwsFailure.UNKNOWN, Reaction.STOP


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
    return (files("advisor.infra.aws") / "policies" / f"{name}.json").read_text(encoding="utf-8")


def policy(
    name: str, *, account: str = "*", bucket: str = "", guest_role: str = GUEST_ROLE, partition: str = "aws"
) -> dict[str, Any]:
    """The policy of that name for an account (twelve digits; `*` is any) and a bucket. `UsageError` where it
    needs a bucket, and none is named; and for a value that is none."""
    text = policy_text(name)
    if "${Bucket}" in text and not bucket:
        raise UsageError(f"the policy '{name}' names a bucket", hint="add --bucket NAME")
    places = {
        "AWS::Partition": partition,
        "AWS::AccountId": account,
        "Bucket": bucket,
        "GuestRole": guest_role,
    }
    for placeholder, value in places.items():
        form, noun = _FORMS[placeholder]
        if f"${{{placeholder}}}" in text and not re.fullmatch(form, value):
            raise UsageError(f"'{value}' is no {noun}")
        text = text.replace(f"${{{placeholder}}}", value)
    document: dict[str, Any] = json.loads(text)
    return document


def allowed_actions_of(statement: dict[str, Any]) -> set[str]:
    """The actions of one statement."""
    actions = statement["Action"]
    return {actions} if isinstance(actions, str) else set(actions)


class Finding(Struct, frozen=True, kw_only=True):
    """One thing a launch needs; `mend` is a command or policy, `stops` means no launch before."""

    check: str
    ok: bool
    text: str
    mend: str = ""
    stops: bool = True


def good(check: str, text: str) -> Finding:
    """Nothing is missing."""
    return Finding(check=check, ok=True, text=text)


def missing(check: str, text: str, mend: str) -> Finding:
    """Something is, and this mends it."""
    return Finding(check=check, ok=False, text=text, mend=mend)


def not_checked(check: str, error: Exception, without: str = "") -> Finding:
    """It could not be asked for; `without` says what a launch does without, where it can."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    text = f"{without} ({error})" if without else str(error)
    return Finding(check=check, ok=False, text=text, mend=mend, stops=not without)


def absent(check: str, error: Exception, codes: str | tuple[str, ...], text: str, mend: str) -> Finding:
    """It is missing, where AWS says one of these codes; else it could not be asked for."""
    if isinstance(error, Refused) and error.code.startswith(codes):
        return missing(check, text, mend)
    return not_checked(check, error)


def refuse_missing(findings: Iterable[Finding]) -> None:
    """`CloudError` with each thing that stops a launch, and what mends it."""
    stopping = [finding for finding in findings if finding.stops and not finding.ok]
    if stopping:
        raise CloudError(f"nothing was launched: {findings_text(stopping)}")


def findings_text(findings: Sequence[Finding]) -> str:
    """One after the other, each with its mend."""
    return "; ".join(f"({finding.check}) {finding.text.rstrip('.')}: {finding.mend}" for finding in findings)


# The IAM prefix of what is not EC2's.
_PREFIXES = {
    "GetServiceQuota": "servicequotas",
    "GetParameter": "ssm",
    "GetInstanceProfile": "iam",
    "GetCallerIdentity": "sts",
    "GetBucketLocation": "s3",
    "GetObject": "s3",
    "PutObject": "s3",
    "ListObjectsV2": "s3",
}
WHOLE_POLICY = "`advisor cloud policy controller` prints the whole policy"


def action_of(operation: str) -> str:
    """'RunInstances' -> 'ec2:RunInstances'."""
    action = "ListBucket" if operation == "ListObjectsV2" else operation
    return f"{_PREFIXES.get(operation, 'ec2')}:{action}"


def statements(*actions: str) -> str:
    """The statements of the controller's own policy that grant the actions."""
    document = policy("controller", bucket="*")
    result = [
        {**entry, "Action": [action for action in actions if action in allowed_actions_of(entry)]}
        for entry in document["Statement"]
        if allowed_actions_of(entry) & set(actions)
    ]
    existing = {action for entry in result for action in entry["Action"]}
    others = [entry for entry in actions if entry not in existing]
    if others:
        result.append({"Effect": "Allow", "Action": others, "Resource": "*"})
    return json.dumps(result)


def explained(refused: Refused) -> CloudError:
    """A refusal that ends a launch, with what mends it."""
    return CloudError(_what(refused), hint=mend_of(refused))


def reaping_refusal(error: AdvisorError) -> str:
    """The refusal that hinders the reaper, and its remedy; the reaper's policy is a small one."""
    if not isinstance(error, Refused):
        return str(error)
    if error.kind is AwsFailure.PERMISSION:
        return f"{_what(error)}; `advisor cloud policy reaper` prints what it needs"
    if error.kind is AwsFailure.CREDENTIALS:
        return f"{_what(error)}; {mend_of(error)}"
    return _what(error)


def mend_of(refused: Refused) -> str:
    """The command, or the statement of a policy, that mends what was refused."""
    if refused.kind is AwsFailure.PERMISSION:
        actions = [action_of(refused.operation)]
        # What makes things with tags needs the right to tag, and is refused under its own name.
        actions += ["ec2:CreateTags"] if refused.operation in _TAGGING else []
        # Passing a role to the instance is refused under the name of RunInstances, too.
        actions += ["iam:PassRole"] if refused.operation == "RunInstances" else []
        return f"allow it: {statements(*actions)} ({WHOLE_POLICY})"
    if refused.kind is AwsFailure.CREDENTIALS:
        return (
            "log in again: `aws sso login`, or `aws configure`; `aws sts get-caller-identity` "
            "shows who you are (a clock that is minutes off is refused, too)"
        )
    return _MENDS.get(refused.kind, "ask again later; docs/how-to/aws.md explains each code")


def _what(refused: Refused) -> str:
    if refused.kind is AwsFailure.PERMISSION:
        return f"the AWS credentials may not {action_of(refused.operation)}"
    if refused.kind is AwsFailure.CREDENTIALS:
        return f"AWS does not take the credentials any more ({refused.code})"
    return f"AWS refused {refused.operation}: {refused.code}: {refused.answer}".rstrip(": ")


_TAGGING = ("RunInstances", "CreateSecurityGroup")
_MENDS = {
    AwsFailure.ACCOUNT: "AWS looks at the account, and mails when that is over (up to four hours)",
    AwsFailure.THROTTLE: "others of the account ask AWS too often; ask again in some minutes",
    AwsFailure.SERVER: "AWS is in trouble there; take another --region, or ask again later",
    AwsFailure.VOLUME_QUOTA: "the account's volumes are at their limit: delete some, or run `aws "
    "service-quotas request-service-quota-increase --service-code ebs --quota-code L-7A658B76 "
    "--desired-value 100`",
    AwsFailure.KEY: "the key that encrypts the account's volumes may not be used: allow kms:CreateGrant, "
    "kms:Decrypt, kms:DescribeKey and kms:GenerateDataKeyWithoutPlaintext on what `aws ec2 "
    "get-ebs-default-kms-key-id` names",
}


def explained_state(instance_id: str, code: str) -> CloudError:
    """An instance that ended by itself, and what mends that."""
    mend = _MENDS.get(kind_of(code), "see `advisor cloud status`: somebody or something ended it")
    return CloudError(f"{instance_id} has ended before its work was done ({code})", hint=mend)
