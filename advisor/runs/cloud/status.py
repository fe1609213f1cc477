"""JSON documents of cloud sweeps: plans and ended runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.launch_options import LaunchOption
from advisor.infra.aws.reap import lasts, usd_per_hour
from advisor.records import asdict

if TYPE_CHECKING:  # a launch keeps measurements, whose store loads SQLAlchemy
    from advisor.runs.cloud.plan import CloudPlan
    from advisor.runs.cloud.sweep import CloudRun, InstanceRun
    from advisor.runs.sweep_questions import SweepRun

# For what a client waits for.
_PATIENCE_SECONDS = 20.0
PLAN_SCHEMA = "advisor.cloud-plan/1"
RUN_SCHEMA = "advisor.cloud-run/1"
FLEET_PLAN_SCHEMA = "advisor.cloud-fleet-plan/1"
FLEET_SCHEMA = "advisor.cloud-fleet/1"


def plan_document(plan: CloudPlan) -> dict[str, Any]:
    """The JSON document of a plan: render/schemas/cloud-plan.schema.json."""
    missing = [check for check in plan.findings if check.stops and not check.ok]
    return {
        "schema": PLAN_SCHEMA,
        "sweep_id": plan.sweep.id,
        "owner": plan.sweep.owner,
        "can_launch": bool(plan.preflight.options) and not missing,
        "budget_usd": plan.sweep.budget_usd,
        "most_usd": round(plan.most_usd, 4),
        "hours": plan.sweep.hours,
        "volumes": [asdict(volume) for volume in plan.sweep.volumes],
        "command": ["advisor", *plan.options.command.split(), *plan.options.arguments],
        "offers": [_offer(plan, option) for option in plan.preflight.options],
        "checks": [
            {
                "check": check.check,
                "ok": check.ok,
                "stops": check.stops and not check.ok,
                "told": check.text,
                "mend": check.mend,
            }
            for check in plan.findings
        ],
    }


def _offer(plan: CloudPlan, option: LaunchOption) -> dict[str, Any]:
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
    """The JSON document of a run: render/schemas/cloud-run.schema.json."""
    provisioned = run.provisioned
    removed = provisioned.ended.removed if provisioned else ()
    return {
        "schema": RUN_SCHEMA,
        "sweep_id": run.sweep_id,
        "ended": str(run.why),
        "measured_now": run.collected,
        "spent_usd": round(provisioned.spent_usd, 4) if provisioned else 0.0,
        "instances": provisioned.instances if provisioned else 0,
        "removed": [{"kind": gone.kind, "id": gone.id, "region": gone.region} for gone in removed],
        "said": run.last_line,
    }


def plans_document(plans: Sequence[CloudPlan]) -> dict[str, Any]:
    """The JSON document of a plan, or of a fleet's: render/schemas/cloud-fleet-plan.schema.json."""
    documents = [plan_document(plan) for plan in plans]
    if len(plans) == 1:
        return documents[0]
    return {
        "schema": FLEET_PLAN_SCHEMA,
        "can_launch": all(document["can_launch"] for document in documents),
        "most_usd": round(sum(document["most_usd"] for document in documents), 4),
        "plans": documents,
    }


def fleet_document(instances: Sequence[InstanceRun]) -> dict[str, Any]:
    """The JSON document of a fleet's runs: render/schemas/cloud-fleet.schema.json."""
    runs = [run_document(instance.run) if instance.run else None for instance in instances]
    counts = [run["measured_now"] for run in runs if run]
    spent = sum(round(instance.spent_usd, 4) for instance in instances)
    return {
        "schema": FLEET_SCHEMA,
        "measured_now": None if None in counts else sum(counts),
        "spent_usd": round(spent, 4),
        "sweeps": [
            {"instance_type": entry.plan.options.instance, "error": str(entry.error or ""), "run": run}
            for entry, run in zip(instances, runs, strict=True)
        ],
    }


def dry_run(sweep: SweepRun, since: datetime | None) -> dict[str, Any]:
    """The document of `advisor sweep run --on aws --dry-run`."""
    from advisor.runs.cloud.plan import launches, plan_fleet

    return plans_document(plan_fleet(launches(sweep, since), Aws(patience=_PATIENCE_SECONDS)))


def why_not(document: Mapping[str, Any]) -> str:
    """The reason why a plan cannot be launched, with the fix for each reason; empty if it can."""
    if document["can_launch"]:
        return ""
    checks = [check for plan in document.get("plans", [document]) for check in plan["checks"]]
    missing = [check for check in checks if check["stops"] and not check["ok"]]
    reasons = dict.fromkeys(f"{check['check']}: {check['told']}; {check['mend']}" for check in missing)
    return ". ".join(reasons) or "nothing that fits is offered within this budget"
