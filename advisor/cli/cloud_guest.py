"""`advisor cloud guest`: what a rented instance calls; nobody types it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


@click.command(hidden=True)
@click.argument("job", metavar="s3://BUCKET/KEY")
@click.option("--region", required=True, help="The bucket's.")
@click.option(
    "--until", type=click.IntRange(0, 2**33), required=True, metavar="SECONDS",
    help="Its end, since 1970.",
)  # fmt: skip
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path(),
    help="For its database and log.",
)  # fmt: skip
def guest(job: str, region: str, until: int, folder: Path) -> int:
    """Do a job on the instance on which this runs; see docs/aws.md."""
    from advisor.runs.cloud.guest import run_job, this_instance
    from advisor.runs.cloud.states import End

    until_then = datetime.fromtimestamp(until, UTC)
    end = run_job(job, region, until_then, this_instance(folder.absolute()))
    click.echo(f"ended: {end}", err=True)
    return 0 if end is End.DONE else 1
