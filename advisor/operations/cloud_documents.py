"""What a planned and what an ended cloud sweep tell, JSON-ready."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from infra.aws.budget import lasts, usd_per_hour

if TYPE_CHECKING:
    from advisor.operations.cloud_plan import CloudPlan
    from advisor.operations.cloud_running import CloudRun

PLAN_SCHEMA = "advisor.cloud-plan/1"
RUN_SCHEMA = "advisor.cloud-run/1"


def plan_document(plan: CloudPlan) -> dict[str, Any]:
    """As report/schemas/cloud-plan.schema.json describes it."""
    stopping = [one for one in plan.findings if one.stops and not one.ok]
    return {
        "schema": PLAN_SCHEMA,
        "sweep_id": plan.sweep.id,
        "owner": plan.sweep.owner,
        "can_launch": bool(plan.preflight.rungs) and not stopping,
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
        "command": ["advisor", "sweep", "run", *plan.options.arguments],
        "offers": [_offer(plan, number) for number in range(len(plan.preflight.rungs))],
        "checks": [
            {"check": one.check, "ok": one.ok, "stops": one.stops and not one.ok,
             "told": one.told, "mend": one.mend}
            for one in plan.findings
        ],
    }  # fmt: skip


def _offer(plan: CloudPlan, number: int) -> dict[str, Any]:
    rung = plan.preflight.rungs[number]
    hourly = usd_per_hour(rung, plan.sweep)
    paid = lasts(plan.sweep.budget_usd, hourly, plan.sweep.hours)
    return {
        "instance_type": rung.instance_type,
        "region": rung.region,
        "zone": rung.zone,
        "market": str(rung.market),
        "instance_usd_per_hour_at_most": round(rung.usd_per_hour, 6),
        "usd_per_hour_at_most": round(hourly, 6),
        "minutes_paid": int(paid / timedelta(minutes=1)),
    }


def run_document(run: CloudRun) -> dict[str, Any]:
    """As report/schemas/cloud-run.schema.json describes it."""
    rented = run.rented
    return {
        "schema": RUN_SCHEMA,
        "sweep_id": run.sweep_id,
        "ended": str(run.why),
        "measured_now": run.collected,
        "spent_usd": round(rented.spent_usd, 4) if rented else 0.0,
        "instances": rented.instances if rented else 0,
        "removed": [
            {"kind": one.kind, "id": one.id, "region": one.region}
            for one in (rented.ended.removed if rented else ())
        ],
        "said": run.said,
    }
