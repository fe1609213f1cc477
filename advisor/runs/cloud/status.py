"""Cloud sweeps as JSON documents: what is planned, what ended, what is left on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from advisor.errors import unknown_name
from infra.aws.budget import lasts, usd_per_hour

if TYPE_CHECKING:
    from advisor.runs.cloud.fleet import InstanceRun
    from advisor.runs.cloud.plan import CloudPlan
    from advisor.runs.cloud.sweep import CloudRun
    from infra.aws.managed import Managed
    from infra.aws.reap import Reaped


PLAN_SCHEMA = "advisor.cloud-plan/1"
RUN_SCHEMA = "advisor.cloud-run/1"
FLEET_PLAN_SCHEMA = "advisor.cloud-fleet-plan/1"
FLEET_SCHEMA = "advisor.cloud-fleet/1"


def plan_document(plan: CloudPlan) -> dict[str, Any]:
    """As report/schemas/cloud-plan.schema.json describes it."""
    stopping = [one for one in plan.findings if one.stops and not one.ok]
    return {
        "schema": PLAN_SCHEMA,
        "sweep_id": plan.sweep.id,
        "owner": plan.sweep.owner,
        "can_launch": bool(plan.preflight.options) and not stopping,
        "budget_usd": plan.sweep.budget_usd,
        "most_usd": round(plan.most_usd, 4),
        "hours": plan.sweep.hours,
        "volumes": [
            {
                "type": one.type,
                "size_gib": one.size_gib,
                "iops": one.iops,
                "mib_per_second": one.mib_per_second,
            }
            for one in plan.sweep.volumes
        ],
        "command": ["advisor", *plan.options.command.split(), *plan.options.arguments],
        "offers": [_offer(plan, number) for number in range(len(plan.preflight.options))],
        "checks": [
            {"check": one.check, "ok": one.ok, "stops": one.stops and not one.ok,
             "told": one.text, "mend": one.mend}
            for one in plan.findings
        ],
    }  # fmt: skip


def _offer(plan: CloudPlan, number: int) -> dict[str, Any]:
    option = plan.preflight.options[number]
    hourly = usd_per_hour(option, plan.sweep)
    paid = lasts(plan.sweep.budget_usd, hourly, plan.sweep.hours)
    return {
        "instance_type": option.instance_type,
        "region": option.region,
        "zone": option.zone,
        "market": str(option.market),
        "instance_usd_per_hour_at_most": round(option.usd_per_hour, 6),
        "usd_per_hour_at_most": round(hourly, 6),
        "minutes_paid": int(paid / timedelta(minutes=1)),
    }


def run_document(run: CloudRun) -> dict[str, Any]:
    """As report/schemas/cloud-run.schema.json describes it."""
    provisioned = run.provisioned
    return {
        "schema": RUN_SCHEMA,
        "sweep_id": run.sweep_id,
        "ended": str(run.why),
        "measured_now": run.collected,
        "spent_usd": round(provisioned.spent_usd, 4) if provisioned else 0.0,
        "instances": provisioned.instances if provisioned else 0,
        "removed": [
            {"kind": one.kind, "id": one.id, "region": one.region}
            for one in (provisioned.ended.removed if provisioned else ())
        ],
        "said": run.said,
    }


def fleet_plan_document(plans: Sequence[CloudPlan]) -> dict[str, Any]:
    """As report/schemas/cloud-fleet-plan.schema.json describes it."""
    documents = [plan_document(one) for one in plans]
    return {
        "schema": FLEET_PLAN_SCHEMA,
        "can_launch": all(one["can_launch"] for one in documents),
        "most_usd": round(sum(one["most_usd"] for one in documents), 4),
        "plans": documents,
    }


def fleet_document(berths: Sequence[InstanceRun]) -> dict[str, Any]:
    """As report/schemas/cloud-fleet.schema.json describes it. What an instance had cost whose
    sweep failed is not known here: its whole share of the budget is counted."""
    runs = [run_document(one.run) if one.run else None for one in berths]
    lost = sum(one.plan.most_usd for one in berths if one.had_instance)
    spent = lost + sum(run["spent_usd"] for run in runs if run)
    counts = [run["measured_now"] for run in runs if run]
    return {
        "schema": FLEET_SCHEMA,
        "measured_now": None if None in counts else sum(counts),
        "spent_usd": round(spent, 4),
        "sweeps": [
            {
                "instance_type": one.plan.options.instance,
                "error": str(one.error) if one.error else "",
                "run": run,
            }
            for one, run in zip(berths, runs, strict=True)
        ],
    }


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
        "remaining": [{**_row(one.thing), "reason": one.reason} for one in reaped.remaining],
        "not_told": [
            {"region": one.region, "kind": one.kind, "reason": one.reason}
            for one in reaped.not_listed
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
