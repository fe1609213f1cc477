"""`advisor cloud policy` and `template`: what an administrator of an account is handed."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("name")
@click.option("--bucket", default="", metavar="NAME", help="Where jobs and measurements lie.")
@click.option("--account", default="*", metavar="DIGITS", help="The account; any by default.")
@click.option("--guest-role", metavar="NAME", help="The role of rented instances.")
@click.option("--partition", default="aws", show_default=True, help="aws, aws-cn or aws-us-gov.")
def policy(name: str, bucket: str, account: str, guest_role: str | None, partition: str) -> None:
    """Print an IAM policy: controller (who launches), guest (the instances' role), or reaper.

    \b
    advisor cloud policy reaper > reaper.json
    aws iam create-policy --policy-name advisor-reaper --policy-document file://reaper.json
    """
    from infra.aws.policies import GUEST_ROLE
    from infra.aws.policies import policy as document

    told = document(
        name, account=account, bucket=bucket, guest_role=guest_role or GUEST_ROLE,
        partition=partition,
    )  # fmt: skip
    click.echo(json.dumps(told, indent=2))


@click.command()
@click.argument("name")
def template(name: str) -> None:
    """Print a CloudFormation template: account (bucket, role of instances, alarm of costs, once in
    an account) or schedules (sweeps and reaper with no machine of one's own).

    \b
    advisor cloud template account > account.json
    aws cloudformation deploy --stack-name advisor-account --template-file account.json \\
      --capabilities CAPABILITY_NAMED_IAM --parameter-overrides AlarmEmail=you@example.com
    """
    from infra.cloudformation import template as document

    click.echo(json.dumps(document(name), indent=1))
