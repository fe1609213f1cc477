"""What sweeps have left on AWS, and removing it; as the documents that `advisor cloud` prints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from advisor.errors import unknown_name

if TYPE_CHECKING:
    from infra.aws.finding import Managed
    from infra.aws.reap import Reaped

# Seconds; somebody waits, and may simply look again. The reaper itself waits longer.
_PATIENCE_TO_LOOK = 20.0


def reap_cloud(
    *,
    owner: str | None = None,
    regions: Sequence[str] = (),
    dry_run: bool = False,
    now: datetime | None = None,
) -> Reaped:
    """One pass of the reaper with the user's AWS credentials, by this machine's clock.

    AWS refuses requests of a clock that is more than minutes off, so that a wrong one reaps
    nothing. `LiveError` or `CloudError` when AWS cannot be asked at all, `UsageError` for a region
    that is none.
    """
    from infra.aws.asking import Aws
    from infra.aws.reap import reap

    for region in regions:
        _refuse_unknown(region)
    moment = now or datetime.now(UTC)
    aws = Aws(patience=_PATIENCE_TO_LOOK) if dry_run else Aws()
    return reap(aws, now=moment, owner=owner, dry_run=dry_run, regions=regions)


def _refuse_unknown(region: str) -> None:
    """A name that is mistyped would be waited for, and told as a region that does not answer."""
    import boto3

    session = boto3.session.Session()
    known = [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("ec2", partition)
    ]
    if region not in known:
        raise unknown_name("region", region, known)


def reaped_document(reaped: Reaped, schema: str) -> dict[str, Any]:
    """As report/schemas/cloud.schema.json describes it."""
    return {
        "schema": schema,
        "as_of": reaped.now.isoformat(timespec="seconds"),
        "dry_run": reaped.dry_run,
        "regions": list(reaped.regions),
        "expired": [_row(one) for one in reaped.expired],
        "kept": [_row(one) for one in reaped.kept],
        "removed": [_row(one) for one in reaped.removed],
        "remaining": [{**_row(one.found), "reason": one.reason} for one in reaped.remaining],
        "not_told": [
            {"region": one.region, "kind": one.kind, "reason": one.reason}
            for one in reaped.not_told
        ],
    }


def _row(one: Managed) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "id": one.id,
        "region": one.region,
        "sweep_id": one.sweep_id,
        "owner": one.owner,
        "expires_at": one.expires_at.isoformat(timespec="seconds") if one.expires_at else None,
        "state": one.state,
        "detail": one.detail,
    }
