"""Fields that every launch on AWS shares, of a sweep or a verification, and their refusals."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from advisor.messages import FieldName
from advisor.questions.fields import Choice, Flag, Kind, wrong
from advisor.questions.question import Question, ask
from advisor.runs.fields import TAG, Amount, Budget

HERE, AWS = "here", "aws"
MARKET = Choice("market", ("any", "spot", "on-demand"))
launch = partial(ask, section="On AWS")
of_launch = partial(ask, section="On AWS", where="cli")

# Fields of a launch, which sweeps and verifications have.
LAUNCH = ("dry_run", "hours", "queue", "owner", "sweep_id", "bucket", "subnet", "image", "instance_profile")
ON: Any = launch(
    "Where to measure: here, or aws: rent an instance within the budget and end it afterwards.",
    Choice("place", (HERE, AWS)),
    default=HERE,
)
DRY_RUN: Any = of_launch("With --on aws: check everything, launch nothing.", Flag(), default=False)
HOURS: Any = launch("Longest life of an instance in hours.", Amount(most=168, metavar="HOURS"), default=None)
QUEUE: Any = launch(
    "Minutes to wait for capacity.", Amount(most=10_080, metavar="MINUTES"), "15", default=None
)
OWNER: Any = of_launch("Owner tag.", TAG, "your user name", default=None)
SWEEP_ID: Any = of_launch("Name of the sweep.", Kind(), "derived from its options", default=None)
BUCKET: Any = of_launch("S3 bucket for jobs and results.", Kind(), "ADVISOR_BUCKET", default=None)
SUBNET: Any = of_launch("Subnet.", Kind(), "the default subnets", default=None)
IMAGE: Any = of_launch("Machine image.", Kind(), "AWS's newest with the GPU driver", default=None)
PROFILE: Any = of_launch("Role of the instance, or none.", Kind(), "advisor-guest", default=None)


def dollars(budget: Budget | None) -> float:
    """The dollars that a launch may spend; `UsageError` for other budgets, and none."""
    if budget is None:
        raise wrong("budget", "{on} aws needs {field}, as 5USD: it is never passed", on=FieldName("on"))
    if budget.usd is None:
        raise wrong(
            "budget",
            "{on} aws takes a {field} of money, as 5USD, not {text}",
            on=FieldName("on"),
            text=budget.text,
        )
    return budget.usd


def refuse(question: Question, names: Iterable[str], only_with: object) -> None:
    """Fields that mean nothing without another one, and would be thought to do something."""
    given = [FieldName(name) for name in names if getattr(question, name)]
    if given:
        raise wrong(
            str(given[0]),
            "{given}: only with {other}",
            given=given,
            other=only_with,
            hint="add it, or leave that out",
        )
