"""The best candidates of an answer, each measured on an instance of its own, side by side; then the
choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog import Catalog
from advisor.domain import Spec, Verdict, Verification
from advisor.engine import Preparations, recommend
from advisor.engine.no_offer import no_offer
from advisor.errors import AdvisorError, NoOfferError, UsageError
from advisor.infra.aws.asking import Aws
from advisor.questions.network import NetworkQuestion
from advisor.runs.cloud.fleet import InstanceRun, plan_fleet, run_fleet
from advisor.runs.cloud.plan import CloudOptions, CloudPlan, accelerator_of
from advisor.runs.cloud.sweep import Say
from advisor.runs.verification.cloud import CloudVerification, launch_options, plan_elsewhere, verdict_on

# Several specs of one type (disks, regions) count once, so that more are ranked than are taken.
_RANKED = 64
_ARCHITECTURE = "x86_64"  # of AWS's image (infra/aws/regions.py)


class TriedCandidate(Struct, frozen=True, kw_only=True):
    """A candidate and what came of it: a verdict, or the error that ended it. `usd_per_hour` is of
    instance and disk, as it was recommended."""

    planned: CloudVerification
    usd_per_hour: float
    verification: Verification | None = None
    error: AdvisorError | None = None

    @property
    def name(self) -> str:
        """Its instance type."""
        return self.planned.named.instance.name

    @property
    def verdict(self) -> Verdict:
        """Undecided also where nothing was measured, or on something that only stands for it."""
        result = self.verification
        return result.verdict if result is not None and result.settles else Verdict.UNDECIDED


class TopChoice(Struct, frozen=True, kw_only=True):
    """The candidates, cheapest first, and the cheapest one that passed (None: none did). `settled`:
    all that are cheaper missed, or, without a choice, all missed."""

    request: NetworkQuestion
    tried: tuple[TriedCandidate, ...]
    spent_usd: float

    @property
    def chosen(self) -> TriedCandidate | None:
        """The cheapest that reaches the target, measured."""
        return next((candidate for candidate in self.tried if candidate.verdict is Verdict.PASS), None)

    @property
    def settled(self) -> bool:
        """Whether no measurement of these could change the choice."""
        before = self.tried[: self.tried.index(self.chosen)] if self.chosen else self.tried
        return all(candidate.verdict is Verdict.MISSED for candidate in before)


def best_candidates(
    request: NetworkQuestion, top: int, context: Context, today: date, *, own_image: bool = False
) -> tuple[TriedCandidate, ...]:
    """The `top` cheapest types of the answer that one trial can verify, as they are recommended;
    without an image of the user's own those that AWS's one starts on.

    `NoOfferError` where nothing is recommended, `UsageError` where only several instances are.
    """
    wide = replace(request, max_results=max(_RANKED, request.max_results))
    answer = recommend(wide, Preparations(context.catalog, context.model), today=today)
    if answer.chosen is None:
        raise NoOfferError(no_offer(answer))
    candidates: dict[str, TriedCandidate] = {}
    for candidate in answer.ranked:
        spec, name = candidate.spec, candidate.spec.offer.instance.name
        if name in candidates or spec.count > 1 or not _is_verifiable(spec, context.catalog, own_image):
            continue
        exact = replace(
            request, region=spec.offer.region, disk=spec.disk.choice, batch_size=candidate.workload.batch_size
        )
        candidates[name] = TriedCandidate(
            planned=plan_elsewhere(exact, name, context, today), usd_per_hour=spec.total_usd_per_hour
        )
        if len(candidates) == top:
            break
    if not candidates:
        raise UsageError(
            "no spec of the answer is one instance with whole GPUs, and only those are verified", field="top"
        )
    return tuple(candidates.values())


def _is_verifiable(spec: Spec, catalog: Catalog, own_image: bool) -> bool:
    instance = spec.offer.instance
    try:
        accelerator_of(instance, catalog)
    except UsageError:  # slices of a card, and what trials do not run on
        return False
    return own_image or instance.cpu.architecture == _ARCHITECTURE


def plan_top(
    candidates: Sequence[TriedCandidate],
    launch: CloudOptions,
    minutes: float,
    samples: int | None,
    today: date,
    aws: Aws,
) -> tuple[CloudPlan, ...]:
    """A launch of each, with the share of the budget that pays it as many minutes."""
    whole = sum(candidate.usd_per_hour for candidate in candidates)
    shares = []
    for candidate in candidates:
        own_id = launch.sweep_id and f"{launch.sweep_id}-{candidate.name.replace('.', '-')}"
        share = replace(
            launch,
            budget_usd=launch.budget_usd * candidate.usd_per_hour / whole,
            sweep_id=own_id,
            region=candidate.planned.request.region or launch.region,
        )
        shares.append(launch_options(candidate.planned, share, minutes, samples, today))
    return plan_fleet(shares, aws)


def verify_top(
    request: NetworkQuestion,
    candidates: Sequence[TriedCandidate],
    plans: Sequence[CloudPlan],
    aws: Aws,
    say: Say,
    context: Context,
    today: date,
) -> TopChoice:
    """Measure all of them at once, end everything, and choose. What came back is in the store, and
    so an observation of the next `fit`; what goes wrong with one ends no other."""
    runs = run_fleet(plans, aws, say)
    tried = [
        _judged(candidate, each, aws, context, today)
        for candidate, each in zip(candidates, runs, strict=True)
    ]
    return TopChoice(request=request, tried=tuple(tried), spent_usd=sum(map(_spent_usd, runs)))


def _judged(
    candidate: TriedCandidate, each: InstanceRun, aws: Aws, context: Context, today: date
) -> TriedCandidate:
    if each.run is None:
        return replace(candidate, error=each.error)
    try:
        verification = verdict_on(candidate.planned, each.plan, each.run, aws, context, today)
    except AdvisorError as error:
        return replace(candidate, error=error)
    return replace(candidate, verification=verification)


def _spent_usd(each: InstanceRun) -> float:
    """At most: the whole share of one whose launch failed after an instance was had."""
    if each.run is None:
        return each.plan.most_usd if each.had_instance else 0.0
    return each.run.provisioned.spent_usd if each.run.provisioned else 0.0
