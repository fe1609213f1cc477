"""Borderline candidates as JSON: what may be cheaper, or may miss, and the trial that settles it."""

from __future__ import annotations

import shlex
from typing import Any

from advisor.domain import HOURS_PER_MONTH, IMAGENET, Candidate, CloseCall, Recommendation, Task
from advisor.questions.network import NetworkQuestion

# What `advisor verify` takes for granted, by option.
_USUAL = {
    "--precision": "fp32",
    "--stack": "eager",
    "--memory-format": "contiguous",
    "--tf32": "convolutions",
    "--dataset": IMAGENET.name,
    "--confidence": "0.9",
    "--cloud": "aws",
    "--market": "on-demand",
}


def borderline_blocks(answer: Recommendation) -> list[dict[str, Any]]:
    """The document's `close_calls`: borderline candidates, and the trial that settles each."""
    request = answer.request
    return [
        borderline_block(
            call,
            request.horizon_hours,
            verify_command(request, call.candidate),
            batch_size=call.candidate.workload.batch_size,
        )
        for call in answer.close_calls
    ]


def borderline_block(call: CloseCall, horizon_hours: float, command: str, **runs: Any) -> dict[str, Any]:
    """A borderline candidate, what `runs` there, and the `command` of the trial that settles it."""
    spec, instead = call.candidate.spec, call.instead
    per_hour = call.saves_usd_per_hour
    return {
        "kind": str(call.kind),
        "cloud": spec.offer.instance.cloud,
        "instance_type": spec.offer.instance.name,
        "count": spec.count,
        "disk": str(spec.disk.choice),
        **runs,
        "usd_per_hour": spec.total_usd_per_hour,
        "probability": call.probability,
        "instead_of": instead.spec.offer.instance.name if instead else None,
        "saves_usd_per_hour": per_hour,
        "saves_usd_per_run": call.saves_usd_per_run,
        "saves_usd_per_month": None if per_hour is None else per_hour * HOURS_PER_MONTH,
        "trial": {
            "instance_type": spec.offer.instance.name,
            "command": command,
            "minutes": call.trial_minutes,
            "usd": call.trial_usd,
        },
        "horizon_hours": horizon_hours,
        "expected_usd": call.worth_usd,
    }


def verify_command(request: NetworkQuestion, candidate: Candidate) -> str:
    """The command to type on an instance of the candidate's type: the question, made definite."""
    spec, dataset = candidate.spec, request.dataset.name
    instance = spec.offer.instance
    options = {
        "--task": request.task,
        "--model": request.network,
        "--target-throughput": f"{(request.target_throughput or 0.0) / spec.count:g}",
        "--instance": instance.name,
        "--disk": spec.disk.choice,
        "--batch-size": candidate.workload.batch_size,
        "--precision": request.precision,
        "--input": request.input,
        "--stack": request.stack,
        "--memory-format": request.memory_format,
        "--tf32": request.tf32,
        # Images of one's own lie in a folder; what has a name alone is a known data set.
        "--data" if "/" in dataset else "--dataset": dataset if request.dataset.is_read else None,
        "--confidence": f"{request.confidence:g}",
        "--cloud": instance.cloud,
        "--region": None if spec.offer.region == "us-east-1" else spec.offer.region,
        "--market": spec.offer.market,
    }
    if instance.gpu_count > 1 and request.task is not Task.PREPROCESSING:
        options["--max-gpus"] = 1
    given = {
        name: str(value)
        for name, value in options.items()
        if value is not None and str(value) != _USUAL.get(name)
    }
    return " ".join(["advisor verify", *(f"{name} {shlex.quote(text)}" for name, text in given.items())])
