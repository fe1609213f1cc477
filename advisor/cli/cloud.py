"""`advisor cloud`: what sweeps have on AWS, and the removal of what has expired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.cloud_documents import policy, template
from advisor.cli.cloud_guest import guest
from advisor.cli.cloud_view import reaped_lines, status_lines
from advisor.cli.parameters import Name, Text
from advisor.errors import Stopped

if TYPE_CHECKING:
    from infra.aws.reap import Reaped

_output_option = click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
_owner_option = click.option(
    "--owner", type=Text("--owner"), metavar="NAME", help="Only what this owner launched."
)
_region_option = click.option(
    "--region", "regions", metavar="REGION", multiple=True,
    help="Only this region; may be repeated.  [default: all of the account]",
)  # fmt: skip


@click.group()
def cloud() -> None:
    """What sweeps have launched on AWS, found by its tags in all regions.

    \b
    advisor cloud status
    advisor cloud reap --dry-run
    advisor cloud policy reaper
    """


for _command in (guest, policy, template):
    cloud.add_command(_command)


@cloud.command()
@_owner_option
@_region_option
@_output_option
def status(owner: str | None, regions: tuple[str, ...], output: str) -> int:
    """Everything that sweeps have there: instances, spot requests, volumes, network interfaces,
    security groups, keys, launch templates; whose it is, and when its time is over.

    Exit codes: 0 told, 1 a region did not tell all.
    """
    from advisor.runs.cloud.reaping import reap_cloud

    found = reap_cloud(owner=owner, regions=regions, dry_run=True)
    _print(found, "advisor.cloud-status/1", status_lines(found), output)
    return 1 if found.not_told else 0


@cloud.command()
@click.option("--dry-run", is_flag=True, help="Tell what would be removed, and remove nothing.")
@_owner_option
@_region_option
@_output_option
def reap(dry_run: bool, owner: str | None, regions: tuple[str, ...], output: str) -> int:
    """Remove what sweeps left there after its time; needs no file of this machine.

    Only what is tagged advisor:managed = true, with an advisor:expires-at in the past. Run it by
    a schedule too: docs/aws.md.

    Exit codes: 0 nothing expired is left (or it was a dry run), 1 something is, or a region did
    not tell all.
    """
    from advisor.runs.cloud.reaping import reap_cloud

    try:
        reaped = reap_cloud(owner=owner, regions=regions, dry_run=dry_run)
    except KeyboardInterrupt:
        told = "what was asked to end ends; `advisor cloud reap` again takes the rest"
        raise Stopped("left" if dry_run else f"left: {told}") from None
    _print(reaped, "advisor.cloud-reap/1", reaped_lines(reaped), output)
    return 1 if reaped.remaining or reaped.not_told else 0


def _print(reaped: Reaped, schema: str, lines: list[str], output: str) -> None:
    from advisor.runs.cloud.reaping import reaped_document

    document: dict[str, Any] = reaped_document(reaped, schema)
    click.echo(json.dumps(document, indent=1) if output == "json" else "\n".join(lines))
