"""Checks that the role of rented instances may read the user's data set in S3."""

from __future__ import annotations

import json
from typing import Any

from advisor.errors import AdvisorError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.findings import Finding, good, missing, without

_CHECK = "data"


def guest_reads(aws: Aws, region: str, profile: str, address: str) -> Finding:
    """IAM's verdict on reading `s3://bucket/prefix` with the profile's role. Where IAM does not say, the
    launch goes on: a guest that is refused reports it."""
    if not profile:
        return missing(
            _CHECK, f"an instance without a role cannot read {address}", "leave --instance-profile none out"
        )
    try:
        found = aws.ask(region, "get_instance_profile", service="iam", InstanceProfileName=profile)
        (role,) = found["InstanceProfile"]["Roles"]
        rights = reading_policy(address, partition=str(role["Arn"]).split(":")[1])
        denied = [
            statement["Action"]
            for statement in rights["Statement"]
            if not _is_allowed(aws, region, role["Arn"], statement)
        ]
    except (AdvisorError, ValueError) as error:
        return without(_CHECK, f"nobody says whether {profile} may read {address}", error)
    if denied:
        name = role["RoleName"]
        return missing(
            _CHECK,
            f"the instances' role {name} may not {' and '.join(denied)} at {address}",
            f"`aws iam put-role-policy --role-name {name} --policy-name advisor-data "
            f"--policy-document '{json.dumps(rights)}'`",
        )
    return good(_CHECK, f"{role['RoleName']} may read {address}")


def reading_policy(address: str, *, partition: str) -> dict[str, Any]:
    """An IAM policy to list and read what lies at `s3://bucket/prefix`, and nothing else."""
    bucket, _, prefix = address.partition("://")[2].strip("/").partition("/")
    arn = f"arn:{partition}:s3:::{bucket}"
    beneath = f"{prefix}*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": arn,
                "Condition": {"StringLike": {"s3:prefix": beneath}},
            },
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/{beneath}"},
        ],
    }


def _is_allowed(aws: Aws, region: str, role: str, statement: dict[str, Any]) -> bool:
    prefix = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
    listed = {"ContextKeyName": "s3:prefix", "ContextKeyType": "string"}
    answer = aws.ask(
        region,
        "simulate_principal_policy",
        service="iam",
        PolicySourceArn=role,
        ActionNames=[statement["Action"]],
        ResourceArns=[statement["Resource"]],
        ContextEntries=[{**listed, "ContextKeyValues": [prefix]}] if prefix else [],
    )
    results = answer.get("EvaluationResults", ())
    return bool(results) and all(entry["EvalDecision"] == "allowed" for entry in results)
