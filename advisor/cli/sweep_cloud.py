"""Runs `advisor sweep run --on aws`, and prints its plans and results."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from advisor.cli.main import leaving_cleanly
from advisor.cli.printing import print_answer, tell
from advisor.errors import CloudError, one_line
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.reap import Why
from advisor.messages import format_counted, format_usd
from advisor.render.text import table
from advisor.runs.cloud.status import fleet_document, plans_document, run_document
from advisor.runs.sweep_questions import SweepRun

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudPlan
    from advisor.runs.cloud.sweep import CloudRun


_COLUMNS = ("offer", "zone", "market", "per hour, at most", "paid for")


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """The text of a plan: the offers in order of preference, the highest cost, and the checks."""
    rows = [
        (
            *(offer["instance_type"], offer["zone"], offer["market"]),
            *(format_usd(offer["usd_per_hour_at_most"]), f"{offer['minutes_paid']} min"),
        )
        for offer in plan["offers"]
    ]
    volumes = [f"{each['type']} {each['size_gib']} GiB" for each in plan["volumes"]]
    lines = [
        f"Run {plan['sweep_id']}, by {plan['owner']}: {shlex.join(plan['command'])}",
        "",
        *(
            table(_COLUMNS, rows, right=(3, 4))
            if rows
            else ["No offer is known; what is missing for that is below."]
        ),
        "",
        f"Volumes: {', '.join(volumes) or 'none but the one it boots from'}.",
        f"Costs {format_usd(plan['most_usd'])} at most (budget {format_usd(plan['budget_usd'])}; "
        f"{plan['hours']:g} h at most; traffic out of AWS comes on top).",
        "",
    ]
    for check in sorted(plan["checks"], key=lambda check: (check["ok"], not check["stops"])):
        mark = "ok     " if check["ok"] else "missing" if check["stops"] else "without"
        mend = f" -> {check['mend']}" if check["mend"] else ""
        lines.append(f"{mark}  " + one_line(f"{check['check']}: {check['told']}{mend}"))
    verdict = "Nothing is missing; without --dry-run this is launched."
    return [*lines, "", verdict if plan["can_launch"] else "Nothing can be launched: something is missing."]


def run_lines(run: Mapping[str, Any]) -> list[str]:
    """The text of a run: how it ended, its cost, and how many resources were removed."""
    count, removed = run["measured_now"], format_counted(len(run["removed"]), "thing")
    came = "what it measured is in its database" if count is None else format_counted(count, "measurement")
    lines = [f"Ended: {run['ended'].replace('_', ' ')}; {came}."]
    if not run["instances"]:
        return [*lines, "It was measured before: nothing was launched. --sweep-id measures anew."]
    instances = format_counted(run["instances"], "instance")
    return [
        *lines,
        f"{format_usd(run['spent_usd'])} at most for {instances}; all of it is ended ({removed} removed).",
    ]


def fleet_lines(fleet: Mapping[str, Any]) -> list[str]:
    """The text of runs on several instance types: a paragraph for each, then the total cost."""
    lines: list[str] = []
    for entry in fleet["sweeps"]:
        lines_of_run = run_lines(entry["run"]) if entry["run"] else [entry["error"]]
        lines += [f"{entry['instance_type']}: {lines_of_run[0]}", *(f"  {line}" for line in lines_of_run[1:])]
    return [*lines, f"In all {format_usd(fleet['spent_usd'])} at most."]


def run_on_aws(question: SweepRun, since: datetime | None, output: str) -> int:
    """Plan a sweep on AWS and, unless it is a dry run, launch, measure and end it; return the exit code."""
    from advisor.runs.cloud.plan import launches, plan_fleet

    options, aws = launches(question, since), Aws()
    plans = plan_fleet(options, aws)
    if question.dry_run:
        return show_plans(plans, output)
    return _run_one(plans[0], aws, output) if len(plans) == 1 else _run_all(plans, aws, output)


def show_plans(plans: Sequence[CloudPlan], output: str) -> int:
    """Print the planned launches; return exit code 0 if they are possible, else 1."""
    document = plans_document(plans)
    lines = [line for plan in document.get("plans", [document]) for line in (*plan_lines(plan), "")]
    print_answer(output, document, lambda: lines)
    return 0 if document["can_launch"] else 1


@contextmanager
def ended_on_aws(what: str) -> Iterator[None]:
    """Run the block; on Ctrl-C, end what it launched on AWS and say so. `what` names it in the message."""
    with leaving_cleanly(
        lambda: f"{what} was ended on AWS; what came back is kept",
        abandoned="what was launched ends itself when its time is over; `advisor cloud status` tells",
    ):
        yield


def _run_one(plan: CloudPlan, aws: Aws, output: str) -> int:
    from advisor.runs.cloud.sweep import run_cloud

    with ended_on_aws(f"sweep {plan.sweep.id}"):
        run = run_cloud(plan, aws, tell)
    document = run_document(run)
    print_answer(output, document, lambda: run_lines(document))
    return _exit_code(run)


def _run_all(plans: Sequence[CloudPlan], aws: Aws, output: str) -> int:
    from advisor.runs.cloud.sweep import run_fleet

    with ended_on_aws(f"each of {len(plans)} sweeps"):
        instances = run_fleet(plans, aws, tell)
    document = fleet_document(instances)
    print_answer(output, document, lambda: fleet_lines(document))
    failed = [each["instance_type"] for each in document["sweeps"] if each["error"]]
    if failed:
        raise CloudError(f"nothing came of {', '.join(failed)}", hint="see above")
    return max(_exit_code(each.run) for each in instances if each.run)


def _exit_code(run: CloudRun) -> int:
    if run.why is Why.FAILED:
        raise CloudError(f"the sweep failed on its instance: {run.last_line or 'it told nothing'}")
    return 0 if run.why is Why.DONE else 1
