"""A question's answers, as a command line or a client gave them -> a `Request`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.quotas import CLOUD, VcpuQuota, parse_quota
from advisor.domain import (
    HOURS_PER_MONTH,
    Market,
    Precision,
    Request,
    Task,
)
from advisor.domain.references import is_own
from advisor.errors import UsageError
from advisor.questions.datasets import dataset_for
from advisor.questions.disks import disk_answers
from advisor.questions.hardware import hardware_answers
from advisor.questions.runs import run_answers
from advisor.questions.stacks import parsed_input, stack_answers
from models.performance.networks import NetworkFacts, NetworkTable

# No GPU holds more samples; what comes near the end of floats overflows on the way.
LARGEST_BATCH = 10**9
DEFAULT_REGION = {"aws": "us-east-1"}


def region_of(cloud: str, region: str | None) -> str | None:
    """The region that is asked for, or the cloud's usual one; None is every region."""
    return region or DEFAULT_REGION.get(cloud)


def request_from(networks: NetworkTable, catalog: Catalog, answers: dict[str, Any]) -> Request:
    """Options as click gave them -> Request; `UsageError` names what is wrong and the way out."""
    facts, at = network_asked(networks, answers)
    dataset = dataset_for(answers.get("dataset"), facts)
    if answers["task"] == Task.TRAINING and not facts.trains:
        raise UsageError(f"{facts.name} has no training step; ask for --task inference")
    task, max_latency_ms = Task(answers["task"]), answers.get("max_latency_ms")
    if max_latency_ms is not None and task is not Task.INFERENCE:
        raise UsageError("--max-latency-ms goes with --task inference only")
    return Request(
        network=facts.name,
        task=task,
        target_throughput=answers.get("target_throughput"),
        confidence=answers["confidence"],
        batch_size=answers["batch_size"],
        precision=Precision(answers["precision"]),
        dataset=dataset,
        **stack_answers(answers, facts),
        input=at,
        cloud=answers["cloud"],
        region=region_of(answers["cloud"], answers["region"]),
        market=Market(answers["market"]),
        **hardware_answers(answers),
        max_usd_per_hour=answers.get("max_price"),
        max_latency_ms=max_latency_ms,
        **run_answers(answers, dataset),
        vcpu_quota=_quota(answers),
        **disk_answers(catalog, answers["cloud"], answers["disk"], dataset),
        max_gpus=answers.get("max_gpus"),
        max_count=int(answers.get("max_count") or 1),
        horizon_hours=float(answers.get("horizon_hours") or HOURS_PER_MONTH),
        max_results=int(answers.get("max_results") or 10),
        pareto=bool(answers.get("pareto")),
        allow_extrapolation=bool(answers.get("allow_extrapolation")),
        accelerated_only=bool(answers.get("accelerated_only")),
    )


def network_asked(
    networks: NetworkTable, answers: Mapping[str, Any]
) -> tuple[NetworkFacts, str | None]:
    """Facts of the network that is asked about, at the input that is asked for; and that input,
    None where it is the network's own.

    Raises `UsageError` with near names for an unknown one, and for an input it cannot take.
    """
    name, text = str(answers["network"]), answers.get("input")
    try:
        facts = networks.find(name)
    except UsageError as error:
        raise UsageError(
            f"{error}; for a network of your own give an --anchor FILE that was measured, or "
            "--model file.py:build"
        ) from None
    at = parsed_input(text, facts) if text else None
    if at in (None, facts.input):
        return facts, None
    if is_own(name):
        raise UsageError(f"{name} says itself what it takes ({facts.input}); leave out --input")
    return networks.find(name, at), at


def _quota(answers: dict[str, Any]) -> VcpuQuota:
    if not answers.get("quota"):
        return ()
    if answers["cloud"] not in (CLOUD, "any"):
        raise UsageError(f"--quota knows the quotas of {CLOUD}, not of {answers['cloud']}")
    return parse_quota(answers["quota"], Market(answers["market"]))


def today() -> date:
    """The current date in UTC; ADVISOR_TODAY (as 2026-07-20) replays another day."""
    replayed = os.environ.get("ADVISOR_TODAY")
    if not replayed:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(replayed)
    except ValueError:
        raise UsageError(
            f"ADVISOR_TODAY must be a date like 2026-07-20, not '{replayed}'"
        ) from None
