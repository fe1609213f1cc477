"""Close calls: as the document's `close_calls`, and as lines under the answer."""

from __future__ import annotations

import shlex
import textwrap
from typing import Any

from advisor.domain import (
    HOURS_PER_MONTH,
    IMAGENET,
    Candidate,
    CloseCall,
    CloseCallKind,
    Precision,
    Recommendation,
    Request,
    Task,
)
from advisor.units import format_rate, format_usd

_INDENT = " " * 14


def close_call_documents(answer: Recommendation) -> list[dict[str, Any]]:
    """The document's `close_calls`: what might answer too, and the trial that settles it."""
    return [_document(answer.request, one) for one in answer.close_calls]


def close_call_lines(answer: Recommendation, width: int) -> list[str]:
    """The close call that matters most and the command of its trial; none where none is close."""
    if not answer.close_calls:
        return []
    first = answer.close_calls[0]
    said = f"{_sentence(answer.request, first)}; one trial settles that, {_cost(first)}:"
    lines = textwrap.wrap(said, width - len(_INDENT))
    command = _folded(verify_command(answer.request, first.candidate), width - len(_INDENT))
    first_line, *others = [*lines, *command]
    return [f"  close call  {first_line}", *(f"{_INDENT}{line}" for line in others)]


def verify_command(request: Request, one: Candidate) -> str:
    """What to type on an instance of the candidate's type: the question, made definite."""
    options = {
        "--task": str(request.task),
        "--model": request.network,
        "--target-throughput": f"{(request.target_throughput or 0.0) / one.spec.count:g}",
        "--instance": one.spec.offer.instance.name,
        "--disk": str(one.spec.disk.choice),
        "--batch-size": str(one.workload.batch_size),
    }
    if request.precision is not Precision.FP32:
        options["--precision"] = str(request.precision)
    if one.spec.offer.instance.gpu_count > 1 and request.task is not Task.PREPROCESSING:
        options["--max-gpus"] = "1"
    if request.dataset != IMAGENET:
        options["--data"] = request.dataset.name
    return " ".join(["advisor verify", *(f"{k} {shlex.quote(v)}" for k, v in options.items())])


def _document(request: Request, one: CloseCall) -> dict[str, Any]:
    spec, instead = one.candidate.spec, one.instead
    per_hour = one.saves_usd_per_hour
    return {
        "kind": str(one.kind),
        "instance_type": spec.offer.instance.name,
        "count": spec.count,
        "disk": str(spec.disk.choice),
        "batch_size": one.candidate.workload.batch_size,
        "usd_per_hour": spec.total_usd_per_hour,
        "probability": one.probability,
        "instead_of": instead.spec.offer.instance.name if instead else None,
        "saves_usd_per_hour": per_hour,
        "saves_usd_per_month": None if per_hour is None else per_hour * HOURS_PER_MONTH,
        "trial": {
            "instance_type": spec.offer.instance.name,
            "command": verify_command(request, one.candidate),
            "minutes": one.trial_minutes,
            "usd": one.trial_usd,
        },
        "horizon_hours": request.horizon_hours,
        "expected_usd": one.worth_usd,
    }


def _sentence(request: Request, one: CloseCall) -> str:
    spec, target = one.candidate.spec, format_rate(request.target_throughput or 0.0)
    named = f"{spec.name} at {format_usd(spec.total_usd_per_hour)}/h"
    if one.kind is CloseCallKind.NEAREST_MAY_REACH:
        return f"{named} may reach {target}/s ({_percent(one.probability)})"
    assert one.saves_usd_per_hour is not None
    saved = f"{format_usd(one.saves_usd_per_hour)}/h"
    over = one.saves_usd_per_hour * request.horizon_hours
    money = f"{saved} ({format_usd(over)} in {request.horizon_hours:,g} h)"
    if one.kind is CloseCallKind.CHEAPER_MAY_REACH:
        return f"{named} may reach {target}/s too ({_percent(one.probability)}), saving {money}"
    assert one.instead is not None
    safer = one.instead.spec.name
    return (
        f"it may miss {target}/s ({_percent(1 - one.probability)}); {safer} is much safer and "
        f"costs {money} more"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cost(one: CloseCall) -> str:
    return f"for about {format_usd(one.trial_usd)} ({one.trial_minutes:g} min)"


def _folded(command: str, width: int) -> list[str]:
    """A command over several lines that can be pasted as they are."""
    pieces = command.replace(" --", "\n--").split("\n")
    lines, room = [pieces[0]], width - len(" \\")
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= room:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"  {piece}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
