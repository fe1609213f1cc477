"""`advisor sweep run --on aws`: what it shows before, while and after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.sweep_cloud_view import fleet_lines, plan_lines, run_lines
from advisor.errors import CloudError
from advisor.runs.cloud.sweep_asking import fleet_asked

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudPlan
    from advisor.runs.cloud.running import CloudRun
    from infra.aws.asking import Aws


def run_on_aws(output: str, answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> int:
    """Plan, and unless it is a dry run launch, measure and end; returns the exit code."""
    from advisor.runs.cloud.fleet import plan_fleet
    from infra.aws.asking import Aws

    options, aws = fleet_asked(answers, cloud), Aws()
    plans = plan_fleet(options, aws)
    if cloud["dry_run"]:
        return show_plans(plans, output)
    return _run_one(plans[0], aws, output) if len(plans) == 1 else _run_all(plans, aws, output)


def show_plans(plans: Sequence[CloudPlan], output: str) -> int:
    """What would be launched; the exit code says whether it can be."""
    from advisor.runs.cloud.documents import fleet_plan_document, plan_document

    if len(plans) == 1:
        document = plan_document(plans[0])
        _show(document, plan_lines(document), output)
    else:
        document = fleet_plan_document(plans)
        lines = [line for one in document["plans"] for line in (*plan_lines(one), "")]
        _show(document, lines, output)
    return 0 if document["can_launch"] else 1


@contextmanager
def ended_on_aws(what: str) -> Iterator[None]:
    """Ctrl-C ends what was launched, and says so."""
    from advisor.cli.leaving import leaving_cleanly

    with leaving_cleanly(
        lambda: f"{what} was ended on AWS; what came back is kept",
        abandoned="what was launched ends itself when its time is over; `advisor cloud status` "
        "tells",
    ):
        yield


def tell(line: str) -> None:
    """What happens meanwhile goes to stderr."""
    click.echo(line, err=True)


def _run_one(plan: CloudPlan, aws: Aws, output: str) -> int:
    from advisor.runs.cloud.documents import run_document
    from advisor.runs.cloud.running import run_cloud

    with ended_on_aws(f"sweep {plan.sweep.id}"):
        run = run_cloud(plan, aws, tell)
    document = run_document(run)
    _show(document, run_lines(document), output)
    return _exit_code(run)


def _run_all(plans: Sequence[CloudPlan], aws: Aws, output: str) -> int:
    from advisor.runs.cloud.documents import fleet_document
    from advisor.runs.cloud.fleet import run_fleet

    with ended_on_aws(f"each of {len(plans)} sweeps"):
        berths = run_fleet(plans, aws, tell)
    document = fleet_document(berths)
    _show(document, fleet_lines(document), output)
    failed = [one["instance_type"] for one in document["sweeps"] if one["error"]]
    if failed:
        raise CloudError(f"nothing came of {', '.join(failed)}; see above")
    return max(_exit_code(one.run) for one in berths if one.run)


def _show(document: Mapping[str, Any], lines: Sequence[str], output: str) -> None:
    click.echo(json.dumps(document, indent=1) if output == "json" else "\n".join(lines))


def _exit_code(run: CloudRun) -> int:
    from infra.aws.watching import Why

    if run.why is Why.FAILED:
        raise CloudError(f"the sweep failed on its instance: {run.said or 'it told nothing'}")
    return 0 if run.why is Why.DONE else 1
