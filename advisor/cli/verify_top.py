"""`advisor verify --on aws --top N`: the best types side by side, and the choice among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer, tell
from advisor.cli.sweep_cloud import ended_on_aws, show_plans
from advisor.domain import Verdict
from advisor.errors import MeasuringError, NoOfferError, one_line
from advisor.infra.aws.asking import Aws
from advisor.questions.documents import question_document
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import today
from advisor.render.text import table
from advisor.render.verification import verification_document
from advisor.units import format_rate, format_usd

if TYPE_CHECKING:
    from advisor.answers.context import Context
    from advisor.runs.cloud.plan import CloudOptions
    from advisor.runs.questions import VerificationRun
    from advisor.runs.verification.cloud import TopChoice, TriedCandidate

SCHEMA = "advisor.verified-choice/1"
_COLUMNS = ("type", "per hour", "predicted", "measured", "verdict")


def verified_choice(
    request: NetworkQuestion,
    how: VerificationRun,
    top: int,
    launch: CloudOptions,
    context: Context,
    output: str,
) -> TopChoice:
    """Plan, launch, measure, end and print; a dry run is the end of the command."""
    from advisor.runs.verification.cloud import best_candidates, plan_top, verify_top

    day, aws = today(), Aws()
    own_image = how.image is not None
    candidates = best_candidates(request, top, context, day, own_image=own_image)
    plans = plan_top(candidates, launch, how.minutes, how.samples, day, aws)
    if how.dry_run:
        click.get_current_context().exit(show_plans(plans, output))
    most = sum(plan.most_usd for plan in plans)
    names = ", ".join(candidate.name for candidate in candidates)
    tell(f"verifying {names}; costs {format_usd(most)} at most")
    with ended_on_aws(f"each of {len(plans)} verifications"):
        choice = verify_top(request, candidates, plans, aws, tell, context, day)
    print_answer(output, choice_document(choice), lambda: choice_lines(choice), indent=2)
    return choice


def leave(choice: TopChoice) -> None:
    """By the exit code: 0 it is settled what to take, 3 that none reaches the target, 1 neither."""
    if not choice.settled:
        raise MeasuringError("undecided", hint="give it more --minutes, or a larger --budget")
    if choice.chosen is None:
        raise NoOfferError("each of {count} missed the target", count=len(choice.tried))


def choice_document(choice: TopChoice) -> dict[str, Any]:
    """The JSON document of a choice: render/schemas/verified-choice.schema.json."""
    return {
        "schema": SCHEMA,
        "request": question_document(choice.request),
        "chosen": choice.chosen.name if choice.chosen else None,
        "settled": choice.settled,
        "spent_usd": round(choice.spent_usd, 4),
        "candidates": [
            {
                "instance_type": tried.name,
                "usd_per_hour": tried.usd_per_hour,
                "verdict": str(tried.verdict),
                "error": str(tried.error) if tried.error else None,
                "verification": verification_document(tried.verification) if tried.verification else None,
            }
            for tried in choice.tried
        ],
    }


def choice_lines(choice: TopChoice) -> str:
    """The choice first, then each candidate, cheapest first."""
    return "\n".join(
        [
            _first_line(choice),
            "",
            *table(_COLUMNS, [_cells(candidate) for candidate in choice.tried], right=(1, 2, 3)),
            *(f"{candidate.name}: {one_line(_why(candidate))}" for candidate in choice.tried),
            f"{format_usd(choice.spent_usd)} at most for all of them; what came back is stored.",
        ]
    )


def _first_line(choice: TopChoice) -> str:
    if choice.chosen is None:
        return "None of them reaches the target." if choice.settled else "Undecided."
    taken = f"Take {choice.chosen.name} at {format_usd(choice.chosen.usd_per_hour)}/h"
    if choice.settled:
        return f"{taken}: the cheapest of them that reaches the target."
    return f"{taken}, which reaches the target; whether a cheaper one does is undecided."


def _cells(candidate: TriedCandidate) -> tuple[str, ...]:
    verification = candidate.verification
    rate = verification.rate if verification is not None else None
    return (
        candidate.name,
        format_usd(candidate.usd_per_hour),
        format_rate(candidate.planned.named.prediction.median),
        "-" if rate is None else format_rate(rate),
        str(candidate.verdict),
    )


def _why(candidate: TriedCandidate) -> str:
    if candidate.verification is None:
        return str(candidate.error)
    verification = candidate.verification
    if verification.verdict is not Verdict.UNDECIDED and not verification.settles:
        return f"{verification.reason}, but not on that type itself: {'; '.join(verification.caveats)}"
    return verification.reason
