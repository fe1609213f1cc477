"""`advisor verify --on aws`: the recommended spec is launched, measured for minutes, and ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from advisor.catalog import Catalog
from advisor.cli.sweep_cloud_run import ended_on_aws, show_plans, tell
from advisor.cli.sweep_cloud_view import run_lines
from advisor.domain import Request, Verification
from advisor.errors import UsageError
from advisor.questions.requests import today
from advisor.runs.cloud.asking import dollars, launch_values
from models.performance import PerformanceModel

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudOptions
    from advisor.runs.verification.verifying_cloud import Elsewhere

# Boot, torch with CUDA, a data set, some minutes of measuring.
_HOURS = 1.0
# Of `verify`, and meaningless on another machine.
_NOT_THERE = {
    "data": "lies on this machine; data of that size are made there",
    "accelerator": "is the GPU of the instance",
}


def verify_on_aws(
    request: Request, answers: Mapping[str, Any], cloud: Mapping[str, Any],
    catalog: Catalog, model: PerformanceModel, output: str,
) -> Verification:  # fmt: skip
    """Plan, launch, measure, end, judge; a dry run is the end of the command."""
    from advisor.runs.cloud.documents import run_document
    from advisor.runs.cloud.plan import plan_cloud
    from advisor.runs.verification.verifying_cloud import (
        launch_options,
        plan_elsewhere,
        verify_elsewhere,
    )
    from infra.aws.asking import Aws

    _refuse(answers, request)
    asked = plan_elsewhere(request, answers["instance"], catalog, model, today())
    options = launch_options(
        asked, _cloud_options(asked, answers, cloud), answers["minutes"], answers["samples"],
        today(),
    )  # fmt: skip
    aws = Aws()
    plan = plan_cloud(options, aws)
    if cloud["dry_run"]:
        click.get_current_context().exit(show_plans([plan], output))
    tell(f"verifying {options.instance}; costs ${plan.most_usd:.2f} at most")
    with ended_on_aws(f"the verification on {options.instance}"):
        done, run = verify_elsewhere(asked, plan, aws, tell, catalog, model, today())
    for line in run_lines(run_document(run))[1:]:  # the verdict tells how it went
        tell(line)
    return done


def _refuse(answers: Mapping[str, Any], request: Request) -> None:
    for name, why in _NOT_THERE.items():
        if answers[name]:
            raise UsageError(f"--on aws: --{name} {why}; leave it out")
    if request.dataset.name != "imagenet":
        raise UsageError("--on aws: --dataset lies on this machine; leave it out")


def _cloud_options(
    asked: Elsewhere, answers: Mapping[str, Any], cloud: Mapping[str, Any]
) -> CloudOptions:
    """Whose and how; what is launched comes with the question."""
    from advisor.runs.cloud.plan import CloudOptions

    return CloudOptions(
        instance=asked.named.instance.name,
        budget_usd=dollars(answers["budget"]),
        arguments=(),
        disks=(),
        needs_vcpus=0.0,
        needs_mib=0.0,
        region=asked.request.region or "us-east-1",
        **launch_values(cloud, _HOURS),
    )
