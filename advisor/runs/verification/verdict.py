"""Turns a measurement into a verdict, its scope, and the spec to take after it."""

from __future__ import annotations

from typing import NamedTuple

from advisor.domain import (
    CacheState,
    InstancePrediction,
    LimitedBy,
    Measurement,
    Prediction,
    Recommendation,
    Status,
    Task,
    Verdict,
    Verification,
)
from advisor.errors import MeasuringError
from advisor.questions.network import NetworkQuestion
from advisor.runs.verification.machine import VerifiedMachine
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.quality.issues import quality_issues
from advisor.sweeps.quality.rates import RateInterval, rate_interval
from advisor.units import format_mib, format_rate, format_target, format_usd

# Part of the verdict itself.
_IN_VERDICT = frozenset({"not_limited", "few_steps", "wide_interval", "contaminated"})

TOO_FEW = "too few steps were measured; give it more --samples or --minutes, or a smaller --batch-size"


class Answers(NamedTuple):
    """What is recommended without a measurement, and what once it is known."""

    before: Recommendation
    after: Recommendation


def judged(
    request: NetworkQuestion,
    machine: VerifiedMachine,
    measurement: Measurement,
    named: InstancePrediction | None,
    predicted: Prediction | None,
    answers: Answers,
) -> Verification:
    """What a measurement says about a target, and what is recommended around it. Raises `MeasuringError` for
    a trial that failed or ran out of time."""
    if measurement.status in (Status.FAILED, Status.TIMED_OUT):
        raise MeasuringError("the trial failed: {reason}", reason=measurement.reason)
    rate = rate_interval(measurement)
    pessimistic = request.task is Task.TRAINING and measurement.trial.cache is CacheState.COLD
    verdict, reason = verdict_of(request, measurement, rate, pessimistic)
    settles = machine.is_here and machine.emulated_gpu is None
    return Verification(
        request=request,
        instance=machine.instance,
        measurement=measurement,
        prediction=predicted,
        lower=rate.lower if rate else None,
        rate=measurement.throughput_samples_per_second,
        upper=rate.upper if rate else None,
        verdict=verdict,
        settles=settles,
        reason=reason,
        caveats=_caveats(request, machine, measurement, pessimistic),
        answer_now=_answer_now(answers, named, verdict if settles else Verdict.UNDECIDED),
    )


def verdict_of(
    request: NetworkQuestion, measurement: Measurement, rate: RateInterval | None, pessimistic: bool
) -> tuple[Verdict, str]:
    """The verdict and the one fact that decided it. What could only have made it faster (a limit not held)
    does not spoil a miss, and what could only have made it slower (neighbours, reading more from the disk)
    does not spoil a pass."""
    target = request.target_throughput or 0.0
    if measurement.status is Status.OUT_OF_MEMORY:
        return Verdict.MISSED, f"it does not fit: {measurement.reason}"
    if rate is None:
        return Verdict.UNDECIDED, TOO_FEW
    wanted, reached = format_target(target), format_rate(rate.rate)
    if rate.lower >= target:
        if measurement.limited_by is LimitedBy.NONE:
            return Verdict.UNDECIDED, "its limits could not be held here; run it as root"
        return Verdict.PASS, f"it reaches {reached}/s, {wanted} are asked for"
    if rate.upper >= target:
        low, high = format_rate(rate.lower), format_rate(rate.upper)
        return Verdict.UNDECIDED, (
            f"{wanted}/s lies within the interval of what was measured ({low} to {high}); give it "
            "more --minutes and --samples"
        )
    if measurement.status is Status.CONTAMINATED:
        return Verdict.UNDECIDED, f"it was too slow, but {measurement.reason}"
    if pessimistic:
        return Verdict.UNDECIDED, (
            f"it reaches {reached}/s reading all from the disk, and the page cache will hold a "
            "part; name the real data with --data"
        )
    return Verdict.MISSED, f"it reaches {reached}/s, not {wanted}"


def _caveats(
    request: NetworkQuestion, machine: VerifiedMachine, measurement: Measurement, pessimistic: bool
) -> tuple[str, ...]:
    environment, instance, gpu = measurement.environment, machine.instance, machine.emulated_gpu
    caveats = []
    if gpu is not None:
        caveats.append(
            f"the {gpu} was emulated at its known pace: the host and disk side was measured, and "
            "no GPU was verified"
        )
    if gpu is not None and measurement.trial.processes > 1:
        caveats.append(
            f"{measurement.trial.processes} of them exchanged no gradients: what they lose by each "
            "other is in that pace, as published"
        )
    if instance is not None and not machine.is_here:
        resources = measurement.trial.resources
        caveats.append(
            f"this machine ({environment.get('cpu_model', 'unknown CPU')}, "
            f"{resources.physical_cores:g} cores) was held to the {instance.vcpus} vCPUs, "
            f"{format_mib(resources.memory_mib)} and disk of {instance.name}, whose CPU is another "
            f"({instance.cpu.model}, {instance.physical_cores} cores)"
        )
    if instance is None and measurement.trial.resources.disk == UNLIMITED:
        caveats.append("the data lay on this machine's own disk, which the prediction leaves out")
    if pessimistic:
        caveats.append("all was read from the disk, where a later epoch finds a part in memory")
    if measurement.status is Status.CONTAMINATED:
        caveats.append(f"slower than it could be: {measurement.reason}")
    data = measurement.trial.workload.dataset
    if data.name != request.dataset.name and data.storage_format != "synthetic":
        caveats.append(
            f"{data.samples:,} {data.name} of {data.bytes_per_sample / 1000:.0f} kB stood for "
            f"{request.dataset.name}"
        )
    weak = [issue for issue in quality_issues(measurement) if issue.code not in _IN_VERDICT]
    return (*caveats, *(f"{issue.code.replace('_', ' ')}: {issue.detail}" for issue in weak))


def _answer_now(answers: Answers, named: InstancePrediction | None, verdict: Verdict) -> str:
    """What to take, by price, once this instance passed or missed, and its GPU's step is known."""
    before, chosen = answers.before, answers.after.chosen
    if named is not None and named.price is not None and verdict is Verdict.PASS:
        usd = named.price.usd_per_hour + named.disk.usd_per_hour
        if chosen is None or usd < chosen.spec.total_usd_per_hour:
            return f"take {named.instance.name} at {format_usd(usd)}/h{_instead(before, usd, named)}"
    ranked = list(answers.after.ranked)
    if named is not None and verdict is Verdict.MISSED:
        missed = named.instance.name
        ranked = [candidate for candidate in ranked if candidate.spec.offer.instance.name != missed]
    if not ranked:
        return "no offer meets the target; `advisor recommend` tells what to relax"
    spec = ranked[0].spec
    same = before.chosen is not None and before.chosen.spec == spec
    kept = "still recommended" if same else "recommended instead"
    return f"{spec.offer.instance.name} at {format_usd(spec.total_usd_per_hour)}/h is {kept}"


def _instead(before: Recommendation, usd: float, named: InstancePrediction) -> str:
    if before.chosen is None:
        return ", where no offer was recommended before"
    spec = before.chosen.spec
    if spec.offer.instance.name == named.instance.name:
        return ", as recommended before"
    saved = format_usd(spec.total_usd_per_hour - usd)
    return f": {saved}/h less than {spec.offer.instance.name}, which is recommended without this"
