"""A question's answers, as a command line or a client gave them -> a `Request`."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from advisor.catalog import Catalog
from advisor.catalog.quotas import CLOUD, VcpuQuota, parse_quota
from advisor.domain import (
    HOURS_PER_MONTH,
    IMAGENET,
    DatasetProfile,
    Market,
    Precision,
    Request,
    Task,
)
from advisor.errors import UsageError, unknown_name
from advisor.operations.questions.disks import disk_answers
from advisor.operations.questions.hardware import hardware_answers
from advisor.operations.questions.runs import run_answers

# No GPU holds more samples; what comes near the end of floats overflows on the way.
LARGEST_BATCH = 10**9
DATASETS = {"imagenet": IMAGENET}
DEFAULT_REGION = {"aws": "us-east-1"}


def region_of(cloud: str, region: str | None) -> str | None:
    """The region that is asked for, or the cloud's usual one; None is every region."""
    return region or DEFAULT_REGION.get(cloud)


def request_from(
    known_networks: tuple[str, ...], catalog: Catalog, answers: dict[str, Any]
) -> Request:
    """Options as click gave them -> Request; `UsageError` names what is wrong and the way out."""
    network = str(answers["network"])
    network = network if network in known_networks else network.lower()
    if network not in known_networks:
        raise _unknown_network(str(answers["network"]), known_networks)
    dataset = dataset_profile(answers["dataset"])
    task, max_latency_ms = Task(answers["task"]), answers.get("max_latency_ms")
    if max_latency_ms is not None and task is not Task.INFERENCE:
        raise UsageError("--max-latency-ms goes with --task inference only")
    return Request(
        network=network,
        task=task,
        target_throughput=answers.get("target_throughput"),
        confidence=answers["confidence"],
        batch_size=answers["batch_size"],
        precision=Precision(answers["precision"]),
        dataset=dataset,
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


def _unknown_network(name: str, known_networks: tuple[str, ...]) -> UsageError:
    from models.zoo.networks import NETWORKS

    if name.lower() in NETWORKS:
        return UsageError(
            f"no rates of {name.lower()} are known yet; there are rates of: "
            f"{', '.join(known_networks)}"
        )
    return UsageError(
        f"{unknown_name('network', name, known_networks)}; for a network of your own give an "
        "--anchor FILE that was measured, or --model file.py:build"
    )


def _quota(answers: dict[str, Any]) -> VcpuQuota:
    if not answers.get("quota"):
        return ()
    if answers["cloud"] not in (CLOUD, "any"):
        raise UsageError(f"--quota knows the quotas of {CLOUD}, not of {answers['cloud']}")
    return parse_quota(answers["quota"], Market(answers["market"]))


def dataset_profile(name: str) -> DatasetProfile:
    """A known data set by name, or the profile of a folder of images."""
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    if not Path(name).exists():
        if os.sep in name:
            raise UsageError(f"no folder '{name}'")
        raise unknown_name("dataset", name, DATASETS)
    from sweeps.datasets import profile_folder

    return profile_folder(Path(name))


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
