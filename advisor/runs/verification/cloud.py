"""Verifies a target on the very instance: launches, measures and ends it; or several side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import (
    Candidate,
    Disk,
    InstancePrediction,
    Recommendation,
    Status,
    Task,
    Verdict,
    Verification,
)
from advisor.engine import Preparations, decide
from advisor.engine.no_offer import no_offer
from advisor.engine.relax import relaxed
from advisor.engine.single import predict_instance
from advisor.engine.tasks.network import NetworkTask
from advisor.errors import AdvisorError, NoOfferError, UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import VERIFY
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.launch_options import Volume, sweep_id_of
from advisor.questions.network import NetworkQuestion
from advisor.runs.cloud.exchange import rows_sent
from advisor.runs.cloud.fleet import plan_fleet, run_fleet, share_of
from advisor.runs.cloud.plan import CloudOptions, CloudPlan, accelerator_of, sweep_id, type_named
from advisor.runs.cloud.sweep import CloudRun, Say, job_of, nothing_measured
from advisor.runs.questions import AUTO, VerificationRun
from advisor.runs.verification.verdict import VerifiedMachine, judged
from advisor.runs.verification.verify import answers_around

# Several specs of one type (disks, regions) count once, so that more are ranked than are taken.
_RANKED = 64
_ARCHITECTURE = "x86_64"  # of AWS's image (infra/aws/regions.py)


class TriedCandidate(Struct, frozen=True, kw_only=True):
    """A candidate and its verdict or error; `usd_per_hour` is of instance and disk."""

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
    """The candidates, cheapest first, and what measuring them cost."""

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
    """The `top` cheapest types of the answer that one trial can verify; without an image of the user's own
    those that AWS's image starts on. `NoOfferError` where nothing is recommended."""
    wide = replace(request, max_results=max(_RANKED, request.max_results))
    candidates: dict[str, TriedCandidate] = {}
    for candidate in _answer(wide, context, today).ranked:
        spec, instance = candidate.spec, candidate.spec.offer.instance
        starts = own_image or instance.cpu.architecture == _ARCHITECTURE
        if instance.name in candidates or spec.count > 1 or not starts:
            continue
        try:
            accelerator_of(instance, context.catalog)
        except UsageError:  # slices of a card, and what trials do not run on
            continue
        planned = plan_elsewhere(_exactly(request, candidate), instance.name, context, today)
        candidates[instance.name] = TriedCandidate(planned=planned, usd_per_hour=spec.total_usd_per_hour)
        if len(candidates) == top:
            break
    if not candidates:
        raise UsageError(
            "no spec of the answer is one instance with whole GPUs, and only those are verified", field="top"
        )
    return tuple(candidates.values())


def plan_top(
    candidates: Sequence[TriedCandidate], launch: CloudOptions, how: VerificationRun, today: date, aws: Aws
) -> tuple[CloudPlan, ...]:
    """A launch of each, with the share of the budget that pays it as many minutes."""
    whole = sum(candidate.usd_per_hour for candidate in candidates)
    shares = []
    for candidate in candidates:
        share = share_of(launch, candidate.name, candidate.usd_per_hour / whole, candidate.name)
        share = replace(share, region=candidate.planned.request.region or launch.region)
        shares.append(launch_options(candidate.planned, share, how, today))
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
    """Measure all of them at once, end everything, and judge each; a failure of one ends no other."""
    runs = run_fleet(plans, aws, say)
    tried, spent_usd = [], 0.0
    for candidate, (plan, run, error, had_instance) in zip(candidates, runs, strict=True):
        if run is None:  # at most the whole share of one whose launch failed after an instance was had
            spent_usd += plan.most_usd if had_instance else 0.0
            tried.append(replace(candidate, error=error))
            continue
        spent_usd += run.provisioned.spent_usd if run.provisioned else 0.0
        try:
            verification = verdict_on(candidate.planned, plan, run, aws, context, today)
            tried.append(replace(candidate, verification=verification))
        except AdvisorError as failed:
            tried.append(replace(candidate, error=failed))
    return TopChoice(request=request, tried=tuple(tried), spent_usd=spent_usd)


# Made for a number of IOPS: without one EC2 refuses them.
_WITH_IOPS = ("io1", "io2")


def _answer(request: NetworkQuestion, context: Context, today: date) -> Recommendation:
    """What is recommended; `NoOfferError` where nothing is."""
    task = NetworkTask(Preparations(context.catalog, context.model))
    answer: Recommendation = decide.recommend(task, request, today=today)
    if answer.chosen is None:
        raise NoOfferError(no_offer(relaxed(task, answer)))
    return answer


class CloudVerification(Struct, frozen=True, kw_only=True):
    """A question about one spec, ready to be measured on it: `named` is what is predicted."""

    request: NetworkQuestion
    named: InstancePrediction


def plan_elsewhere(
    request: NetworkQuestion, instance: str, context: Context, today: date
) -> CloudVerification:
    """The named type, or for `auto` the recommended spec with its disk and batch size. `NoOfferError` where
    there is none; `UsageError` for another cloud, and for several instances."""
    if request.cloud != "aws":
        raise UsageError(
            f"--on aws launches on AWS, not on {request.cloud}", field="on", hint="leave --cloud out"
        )
    catalog, model = context.catalog, context.model
    if instance == AUTO:
        answer = _answer(request, context, today)
        assert answer.chosen is not None
        spec = answer.chosen.spec
        if spec.count > 1:
            raise UsageError(f"one instance is verified, and {spec.name} are recommended", hint="name one")
        request, instance = _exactly(request, answer.chosen), spec.offer.instance.name
    name = type_named(catalog, instance).name
    named = predict_instance(request, catalog, model, name)
    exact = replace(request.as_run(named.workload), disk=named.disk.choice)
    return CloudVerification(request=exact, named=predict_instance(exact, catalog, model, name))


def _exactly(request: NetworkQuestion, candidate: Candidate) -> NetworkQuestion:
    """Asked for where, with which disk and as which workload the candidate is recommended."""
    spec = candidate.spec
    return replace(request.as_run(candidate.workload), region=spec.offer.region, disk=spec.disk.choice)


def launch_options(
    planned: CloudVerification, cloud: CloudOptions, how: VerificationRun, today: date
) -> CloudOptions:
    """The launch that measures it: this type and disk alone, under an id with the day, so that nothing is
    paid twice."""
    request, named = planned.request, planned.named
    networks = request.task is not Task.PREPROCESSING
    # Of `advisor verify` there; nothing is left to be chosen by a model that it may not have.
    arguments = words_of(
        {
            "--instance": named.instance.name,
            "--task": request.task,
            "--model": request.network,
            "--target-throughput": f"{request.target_throughput:.12g}",
            "--max-latency-ms": f"{limit:.12g}" if (limit := request.max_latency_ms) else None,
            "--batch-size": named.workload.batch_size,
            "--precision": request.precision if networks else None,
            "--memory-format": request.memory_format if networks else None,
            "--disk": named.disk.choice,
            "--region": request.region,
            "--minutes": f"{how.minutes:g}",
            "--max-gpus": request.max_gpus,
            "--samples": how.samples,
        }
    )
    wanted = replace(cloud, instance=named.instance.name, arguments=arguments, disks=(), command=VERIFY)
    return with_its_disk(wanted, named.disk, today)


def with_its_disk(wanted: CloudOptions, disk: Disk, today: date) -> CloudOptions:
    """The launch of that type alone, with that disk, under an id that has the day."""
    choice, volumes = disk.choice, tuple[Volume, ...]()
    local = choice.type == LOCAL
    if not local:
        iops = choice.iops or (disk.rate.read_iops if choice.type in _WITH_IOPS else None)
        volume = Volume(
            type=choice.type,
            size_gib=math.ceil(choice.size_gib or disk.size_gib),
            iops=round(iops) if iops else None,
            mib_per_second=round(choice.mib_per_second) if choice.mib_per_second else None,
        )
        volumes = (volume,)
    wanted = replace(wanted, volumes=volumes, local_disk=local, only_this_type=True)
    return replace(wanted, sweep_id=wanted.sweep_id or sweep_id_of(sweep_id(wanted), str(today)))


def verdict_on(
    planned: CloudVerification, plan: CloudPlan, run: CloudRun, aws: Aws, context: Context, today: date
) -> Verification:
    """What a run that has ended says about the target; `CloudError` where nothing came of it."""
    job, named = job_of(plan), planned.named
    rows = rows_sent(ResultBucket(aws, job.region, job.bucket, job.prefix))
    if not rows:
        raise nothing_measured(plan, run)
    # The latest good row, with all its runs; else the last one, whatever came of it.
    fresh = max(rows, key=lambda row: (row.status is Status.OK, row.started_at, len(row.repeats)))
    instance = context.catalog.instance(named.instance.name, "aws")
    machine = VerifiedMachine(
        instance=instance,
        is_here=fresh.environment.get("instance_type") == instance.name,  # the firmware names the type
        accelerator=fresh.trial.accelerator,
        vcpus=float(instance.vcpus),
        memory_mib=float(instance.memory_mib),
    )
    answers = answers_around(planned.request, context, fresh, today)
    return judged(planned.request, machine, fresh, named, named.prediction, answers)


def words_of(given: Mapping[str, object]) -> tuple[str, ...]:
    """Options of a command with their values; None is left out."""
    return tuple(str(word) for pair in given.items() if pair[1] is not None for word in pair)
