"""`advisor sweep run --on aws`: what it shows before, while and after."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.sweep_cloud import cloud_options_from
from advisor.cli.sweep_cloud_view import plan_lines, run_lines
from advisor.cli.sweep_options import options_from
from advisor.errors import CloudError

if TYPE_CHECKING:
    from advisor.operations.cloud_plan import CloudOptions
    from advisor.operations.cloud_running import CloudRun


def run_on_aws(output: str, answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> int:
    """Plan, and unless it is a dry run launch, measure and end; returns the exit code."""
    from advisor.cli.leaving import leaving_cleanly
    from advisor.operations.cloud_documents import plan_document, run_document
    from advisor.operations.cloud_plan import plan_cloud
    from advisor.operations.cloud_running import run_cloud
    from infra.aws.asking import Aws

    options, aws = _asked(answers, cloud), Aws()
    plan = plan_cloud(options, aws)
    if cloud["dry_run"]:
        document = plan_document(plan)
        _show(document, plan_lines(document), output)
        return 0 if document["can_launch"] else 1
    with leaving_cleanly(
        lambda: f"sweep {plan.sweep.id} was ended on AWS; what came back is kept",
        abandoned="its instance ends itself when its time is over; `advisor cloud status` tells",
    ):
        run = run_cloud(plan, aws, lambda line: click.echo(line, err=True))
    document = run_document(run)
    _show(document, run_lines(document), output)
    return _exit_code(run)


def owner_and_budget(answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> tuple[str, float]:
    """Whose such a sweep is, and the dollars that it may spend; `UsageError` for what the command
    would refuse, as far as AWS need not be asked."""
    from advisor.operations.cloud_plan import refuse_unknown

    options = _asked(answers, cloud)
    refuse_unknown(options)
    return options.owner, options.budget_usd


def _asked(answers: Mapping[str, Any], cloud: Mapping[str, Any]) -> CloudOptions:
    from advisor.operations.sweep_checking import plan_anywhere

    gpu = None if answers["preset"] else "cuda"
    grid = options_from({**answers, "accelerator": answers["accelerator"] or gpu})
    options = cloud_options_from(answers, cloud, grid)
    plan_anywhere(grid)  # what the guest would refuse is not paid for
    return options


def _show(document: Mapping[str, Any], lines: Sequence[str], output: str) -> None:
    click.echo(json.dumps(document, indent=1) if output == "json" else "\n".join(lines))


def _exit_code(run: CloudRun) -> int:
    from infra.aws.watching import Why

    if run.why is Why.FAILED:
        raise CloudError(f"the sweep failed on its instance: {run.said or 'it told nothing'}")
    return 0 if run.why is Why.DONE else 1
