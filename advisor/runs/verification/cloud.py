"""Verifies a target on rented instances: launches one, or several in parallel, measures and ends them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.context import Context
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
from advisor.infra.aws.launch_options import sweep_id_of
from advisor.questions.network import NetworkQuestion, Verify
from advisor.runs.cloud.exchange import rows_sent
from advisor.runs.cloud.plan import (
    CloudOptions,
    CloudPlan,
    accelerator_of,
    plan_fleet,
    share_of,
    sweep_id,
    type_named,
    volume_of,
)
from advisor.runs.cloud.sweep import CloudRun, Say, job_of, nothing_measured, run_fleet
from advisor.runs.questions import AUTO, VerificationRun, command_words
from advisor.runs.verification.verdict import VerifiedMachine, judged
from advisor.runs.verification.verify import recommended_after

# Rank more specs than needed, since several specs of one type (disks, regions) count once.
_RANKED = 64
_ARCHITECTURE = "x86_64"  # of AWS's image (infra/aws/regions.py)


class TriedCandidate(Struct, frozen=True, kw_only=True):
    """A candidate with its verification or error; `usd_per_hour` covers instance and disk."""

    planned: CloudVerification
    usd_per_hour: float
    verification: Verification | None = None
    error: AdvisorError | None = None

    @property
    def name(self) -> str:
        """The candidate's instance type."""
        return self.planned.named.instance.name

    @property
    def verdict(self) -> Verdict:
        """The verdict; undecided if nothing was measured, or not on the candidate itself."""
        result = self.verification
        return result.verdict if result is not None and result.settles else Verdict.UNDECIDED


class TopChoice(Struct, frozen=True, kw_only=True):
    """The measured candidates, cheapest first, and the cost of measuring them."""

    request: NetworkQuestion
    tried: tuple[TriedCandidate, ...]
    spent_usd: float

    @property
    def chosen(self) -> TriedCandidate | None:
        """The cheapest candidate that passed; None if none did."""
        return next((candidate for candidate in self.tried if candidate.verdict is Verdict.PASS), None)

    @property
    def settled(self) -> bool:
        """True if all cheaper candidates missed, so that further measurements cannot change the choice."""
        before = self.tried[: self.tried.index(self.chosen)] if self.chosen else self.tried
        return all(candidate.verdict is Verdict.MISSED for candidate in before)


def best_candidates(
    request: NetworkQuestion, top: int, context: Context, today: date, *, own_image: bool = False
) -> tuple[TriedCandidate, ...]:
    """The `top` cheapest types of the answer that one trial can verify; without a user's image only those on
    which AWS's image starts. `NoOfferError` where nothing is recommended."""
    wide = replace(request, max_results=max(_RANKED, request.max_results))
    candidates: dict[str, TriedCandidate] = {}
    for candidate in _answer(wide, context, today).ranked:
        spec, instance = candidate.spec, candidate.spec.offer.instance
        starts = own_image or instance.cpu.architecture == _ARCHITECTURE
        if instance.name in candidates or spec.count > 1 or not starts:
            continue
        try:
            accelerator_of(instance, context.catalog)
        except UsageError:  # a slice of a card, or a GPU on which trials do not run
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
    """A launch plan for each candidate. The budget is split by price, so that each gets equal minutes."""
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
    """Measure all candidates in parallel, end their instances, and judge each; failures stay separate."""
    runs = run_fleet(plans, aws, say)
    tried = []
    for candidate, ended in zip(candidates, runs, strict=True):
        verification, error = None, ended.error
        if ended.run is not None:
            try:
                verification = verdict_on(candidate.planned, ended.plan, ended.run, aws, context, today)
            except AdvisorError as failed:
                error = failed
        tried.append(replace(candidate, verification=verification, error=error))
    return TopChoice(request=request, tried=tuple(tried), spent_usd=sum(ended.spent_usd for ended in runs))


def _answer(request: NetworkQuestion, context: Context, today: date) -> Recommendation:
    """The recommendation; `NoOfferError` where nothing is recommended."""
    task = NetworkTask(Preparations(context.catalog, context.model))
    answer: Recommendation = decide.recommend(task, request, today=today)
    if answer.chosen is None:
        answer = relaxed(task, answer)
        raise NoOfferError(no_offer(answer))
    return answer


class CloudVerification(Struct, frozen=True, kw_only=True):
    """A question narrowed to one spec, and the prediction for it (`named`)."""

    request: NetworkQuestion
    named: InstancePrediction


def plan_elsewhere(
    request: NetworkQuestion, instance: str, context: Context, today: date
) -> CloudVerification:
    """The verification of a named type, or for `auto` of the recommended spec with its disk and batch size.
    `NoOfferError` if nothing is recommended; `UsageError` for another cloud or several instances."""
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
    """The request narrowed to the candidate's region, disk and workload."""
    spec = candidate.spec
    return replace(request.as_run(candidate.workload), region=spec.offer.region, disk=spec.disk.choice)


def launch_options(
    planned: CloudVerification, cloud: CloudOptions, how: VerificationRun, today: date
) -> CloudOptions:
    """The launch for a verification: only this type and disk, with the day in its id, so that a repeated
    command on that day pays for nothing twice."""
    request, named = planned.request, planned.named
    is_of_network = request.task is not Task.PREPROCESSING
    # They fix every choice, since the instance may lack the user's model.
    options = Verify(
        task=request.task,
        network=request.network,
        target_throughput=request.target_throughput,
        max_latency_ms=request.max_latency_ms,
        batch_size=named.workload.batch_size,
        precision=request.precision if is_of_network else None,
        memory_format=request.memory_format if is_of_network else None,
        disk_text=str(named.disk.choice),
        region=request.region,
        max_gpus=request.max_gpus,
    )
    there = VerificationRun(instance=named.instance.name, minutes=how.minutes, samples=how.samples)
    arguments = (*command_words(options), *command_words(there))
    wanted = replace(cloud, instance=named.instance.name, arguments=arguments, disks=(), command=VERIFY)
    return with_its_disk(wanted, named.disk, today)


def with_its_disk(wanted: CloudOptions, disk: Disk, today: date) -> CloudOptions:
    """The launch with only this type, this disk, and the day in its id."""
    order, local = replace(disk.choice, size_gib=disk.choice.size_gib or disk.size_gib), disk.is_local
    volumes = () if local else (volume_of(order, disk.rate),)
    wanted = replace(wanted, volumes=volumes, local_disk=local, only_this_type=True)
    return replace(wanted, sweep_id=wanted.sweep_id or sweep_id_of(sweep_id(wanted), str(today)))


def verdict_on(
    planned: CloudVerification, plan: CloudPlan, run: CloudRun, aws: Aws, context: Context, today: date
) -> Verification:
    """The verification from an ended run; `CloudError` if it measured nothing."""
    job, named = job_of(plan), planned.named
    rows = rows_sent(ResultBucket(aws, job.region, job.bucket, job.prefix))
    if not rows:
        raise nothing_measured(plan, run)
    # The latest good row, preferably with most runs; without a good one the latest row.
    fresh = max(rows, key=lambda row: (row.status is Status.OK, row.started_at, len(row.repeats)))
    instance = context.catalog.instance(named.instance.name, "aws")
    machine = VerifiedMachine(
        instance=instance,
        is_here=fresh.environment.get("instance_type") == instance.name,  # the firmware names the type
        accelerator=fresh.trial.accelerator,
        vcpus=float(instance.vcpus),
        memory_mib=float(instance.memory_mib),
    )
    after = recommended_after(planned.request, context, fresh, today)
    return judged(planned.request, machine, fresh, named, named.prediction, after)
