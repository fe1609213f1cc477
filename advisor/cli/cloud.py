"""`advisor cloud`: lists and removes AWS resources of sweeps; prints policies, templates and logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer, print_json, tell
from advisor.cli.questions import output_option, typed_option
from advisor.errors import Stopped, one_line, unknown_name
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import GUEST_ROLE
from advisor.infra.aws.reap import Reaped
from advisor.infra.aws.reap import reap as reap_expired
from advisor.messages import format_counted
from advisor.questions.fields import Kind, Number
from advisor.records import asdict
from advisor.render.text import table
from advisor.runs.cloud.exchange import logs_of_sweep

if TYPE_CHECKING:
    from advisor.infra.aws.machines import Managed


# Seconds to retry AWS for a listing: a user waits and can run it again. A real reap waits longer.
_PATIENCE_TO_LOOK = 20.0


def _reaped(*, owner: str | None, regions: Sequence[str], dry_run: bool) -> Reaped:
    """Run the reaper once with the user's AWS credentials and this machine's clock. AWS rejects requests if
    the clock is off by more than a few minutes, so a wrong clock removes nothing. Raises `LiveError` or
    `CloudError` if AWS cannot be reached at all, `UsageError` for an unknown region."""
    if regions:  # a mistyped region would cause a long wait, and look like one that does not answer
        import boto3

        session = boto3.session.Session()
        partitions = session.get_available_partitions()
        known = {name for each in partitions for name in session.get_available_regions("ec2", each)}
        for region in set(regions) - known:
            raise unknown_name("region", region, known, field="region")
    aws = Aws(patience=_PATIENCE_TO_LOOK) if dry_run else Aws()
    return reap_expired(aws, now=datetime.now(UTC), owner=owner, dry_run=dry_run, regions=regions)


def _reap_document(reaped: Reaped, schema: str) -> dict[str, Any]:
    """The JSON document of `cloud status` and `cloud reap` (render/schemas/cloud.schema.json)."""
    return {
        "schema": schema,
        "as_of": reaped.now.isoformat(timespec="seconds"),
        "dry_run": reaped.dry_run,
        "regions": list(reaped.regions),
        "expired": [*map(_resource_document, reaped.expired)],
        "kept": [*map(_resource_document, reaped.kept)],
        "removed": [*map(_resource_document, reaped.removed)],
        "remaining": [{**_resource_document(left.thing), "reason": left.reason} for left in reaped.remaining],
        "not_told": [
            {"region": kind.region, "kind": kind.kind, "reason": kind.reason} for kind in reaped.not_listed
        ],
    }


def _resource_document(thing: Managed) -> dict[str, Any]:
    expires = thing.expires_at.isoformat(timespec="seconds") if thing.expires_at else None
    return {**asdict(thing), "expires_at": expires}


COLUMNS = ("Kind", "id", "region", "sweep", "owner", "state", "expires")


def _reap_lines(reaped: Reaped, things: Sequence[Managed], verb: str) -> list[str]:
    """The text of what was found or removed, of what remains and why, and of what did not answer."""
    asked = format_counted(len(reaped.regions), "region")
    rows = [
        (
            *(thing.kind, thing.id, thing.region, one_line(thing.sweep_id), one_line(thing.owner)),
            one_line(" ".join(filter(None, (thing.state, thing.detail)))),
            f"{thing.expires_at:%Y-%m-%d %H:%M} UTC" if thing.expires_at else "not told",
        )
        for thing in things
    ]
    return [
        f"{format_counted(len(things), 'thing')} {verb}; asked {asked}.",
        *(["", *table(COLUMNS, rows)] if rows else []),
        *(
            f"still there: {left.thing.kind} {left.thing.id} in {left.thing.region}: {one_line(left.reason)}"
            for left in reaped.remaining
        ),
        *(  # the reaper never removes these
            f"has no readable advisor:expires-at, so it is left alone; remove it by hand: {thing.kind} "
            f"{thing.id} in {thing.region}"
            for thing in reaped.kept
            if thing.expires_at is None
        ),
        *(f"not told: {kind.region} ({kind.kind}): {one_line(kind.reason)}" for kind in reaped.not_listed),
    ]


@click.command(hidden=True)
@click.argument("job", metavar="s3://BUCKET/KEY")
@click.option("--region", required=True, help="The bucket's.")
@click.option(
    "--until", type=click.IntRange(0, 2**33), required=True, metavar="SECONDS", help="Its end, since 1970."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="For its database and log.",
)
def guest(job: str, region: str, until: int, folder: Path) -> int:
    """Do a job on the instance on which this runs; see docs/how-to/aws.md."""
    from advisor.runs.cloud.agent import run_job, this_instance
    from advisor.runs.cloud.exchange import End

    end = run_job(job, region, datetime.fromtimestamp(until, UTC), this_instance(folder.absolute()))
    tell(f"ended: {end}")
    return 0 if end is End.DONE else 1


@click.command()
@click.argument("name")
@click.option("--bucket", default="", metavar="NAME", help="S3 bucket of jobs and measurements.")
@click.option("--account", default="*", metavar="DIGITS", help="AWS account.  [default: any]")
@click.option("--guest-role", metavar="NAME", help="Role of rented instances.")
@click.option("--partition", default="aws", show_default=True, help="aws, aws-cn or aws-us-gov.")
def policy(name: str, bucket: str, account: str, guest_role: str | None, partition: str) -> None:
    """Print an IAM policy: controller (who launches), guest (the instances' role), cluster (a
    Ray cluster's head), or reaper.

    \b
    advisor cloud policy reaper > reaper.json
    aws iam create-policy --policy-name advisor-reaper --policy-document file://reaper.json
    """
    from advisor.infra.aws.errors import policy as document

    role = guest_role or GUEST_ROLE
    print_json(document(name, account=account, bucket=bucket, guest_role=role, partition=partition), indent=2)


@click.command()
@click.argument("name")
def template(name: str) -> None:
    """Print a CloudFormation template: account (bucket, role of instances, alarm of costs, once in
    an account) or schedules (sweeps and reaper without a machine of your own).

    \b
    advisor cloud template account > account.json
    aws cloudformation deploy --stack-name advisor-account --template-file account.json \\
      --capabilities CAPABILITY_NAMED_IAM --parameter-overrides AlarmEmail=you@example.com
    """
    from advisor.infra.cloudformation import template as document

    print_json(document(name))


@click.command()
@click.argument("sweep_id", metavar="SWEEP")
@click.option(
    "--bucket", envvar="ADVISOR_BUCKET", required=True, metavar="NAME", help="The sweep's S3 bucket."
)
@typed_option(Number(whole=True), "--lines", default=40, help="Of each log, at most.")
def log(sweep_id: str, bucket: str, lines: int) -> None:
    """Show the end of each log that the instances of a sweep left: of their work, of a start that
    failed (.boot.log), of the console of one that sent nothing (.console.log).

    \b
    advisor cloud log 4f0c2b7a91de
    """
    for entry in logs_of_sweep(Aws(), bucket, sweep_id):
        # One line at a time, so that control characters in a log cannot move the cursor.
        shown = [one_line(line) for line in entry.text.splitlines()[-lines:]]
        click.echo("\n".join([f"== {entry.key}", *shown, ""]))


_owner_option = typed_option(Kind(), "--owner", metavar="NAME", help="Only resources of this owner.")
_region_option = click.option(
    "--region",
    "regions",
    metavar="REGION",
    multiple=True,
    help="Only this region. Repeatable.  [default: all of the account]",
)


@click.group()
def cloud() -> None:
    """What the advisor has on AWS, found by its tags in all regions.

    \b
    advisor cloud status
    advisor cloud reap --dry-run
    advisor cloud log SWEEP
    advisor cloud policy reaper
    """


for _command in (guest, policy, template, log):
    cloud.add_command(_command)


@cloud.command()
@_owner_option
@_region_option
@output_option
def status(owner: str | None, regions: tuple[str, ...], output: str) -> int:
    """List what the advisor has on AWS, with owner and expiry.

    Instances, spot requests, volumes, network interfaces, security groups, keys and launch templates. Exit
    codes: 0 complete, 1 a region did not answer."""
    reaped = _reaped(owner=owner, regions=regions, dry_run=True)
    verb = f"of sweeps, {len(reaped.expired)} expired (advisor cloud reap removes what is)"
    print_answer(
        output,
        _reap_document(reaped, "advisor.cloud-status/1"),
        lambda: _reap_lines(reaped, [*reaped.expired, *reaped.kept], verb),
    )
    return 1 if reaped.not_listed else 0


@cloud.command()
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@_owner_option
@_region_option
@output_option
def reap(dry_run: bool, owner: str | None, regions: tuple[str, ...], output: str) -> int:
    """Remove what has expired on AWS. Needs credentials and no local file.

    Only what is tagged advisor:managed = true, with an advisor:expires-at in the past. Run it by a schedule
    too: docs/how-to/aws.md.

    Exit codes: 0 nothing expired is left (or it was a dry run), 1 something is, or a region did not tell
    all."""
    try:
        reaped = _reaped(owner=owner, regions=regions, dry_run=dry_run)
    except KeyboardInterrupt:
        hint = "what was asked to end ends; `advisor cloud reap` again takes the rest"
        raise Stopped("left" if dry_run else f"left: {hint}") from None
    done = (reaped.expired, "would be removed") if dry_run else (reaped.removed, "removed")
    print_answer(output, _reap_document(reaped, "advisor.cloud-reap/1"), lambda: _reap_lines(reaped, *done))
    return 1 if reaped.remaining or reaped.not_listed else 0
