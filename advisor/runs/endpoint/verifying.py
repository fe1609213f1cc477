"""Verifies the answer to a serving question by one load, at an endpoint or on a rented instance."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.language import serving_recommended
from advisor.catalog import Catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain.language import GenerationCandidate, GenerationRecommendation
from advisor.domain.verification import Criterion, ServingVerification
from advisor.domain.words import LlmEngine
from advisor.engine.tasks.serving.task import ServingTask
from advisor.errors import AdvisorError, NoOfferError, UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import MEASURE
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.models.language.serving import bundled_serving_predictor
from advisor.questions.fields import error_in
from advisor.questions.language import ServingQuestion
from advisor.questions.settled import draft_of, instance_named, language_model_of, settled_serving
from advisor.render.export.serving import engine_words, vllm_requirement
from advisor.runs.cloud.exchange import anchors_sent
from advisor.runs.cloud.plan import CloudOptions, CloudPlan
from advisor.runs.cloud.sweep import CloudRun, Say, job_of, nothing_measured
from advisor.runs.endpoint.measuring import measure_served
from advisor.runs.endpoint.questions import ServedModel, VerifyGeneration
from advisor.runs.questions import AUTO, command_words
from advisor.runs.verification.cloud import with_its_disk
from advisor.runs.verification.verdict import spec_to_take
from advisor.sweeps.measure.endpoint.anchors import RUN_SIGMA, TTFT_RUN_SIGMA, USED
from advisor.sweeps.measure.endpoint.records import Load

# Half-width of the two-sided 95 % interval of a normal distribution, in standard deviations.
_SPREAD = 1.96
# The share of requests that may fail.
_MOST_FAILED = 0.01
# Standard deviations of a Poisson count by which the answered rate may fall short of the offered one by
# chance.
_CHANCE = 3.0

Figures = Mapping[str, Any]


def criteria_of(
    request: ServingQuestion, candidate: GenerationCandidate, figures: Figures
) -> tuple[Criterion, ...]:
    """The criteria to check: the target, then each time limit, then the share of failed requests."""
    criteria = []
    if (tokens := request.target_output_tokens_per_second) is not None:
        name = "output_tokens_per_second"
        target = tokens / candidate.spec.count
        criteria.append(_mean_criterion(name, target, figures[name], RUN_SIGMA, is_least=True))
    if request.target_requests_per_second is not None:
        criteria.append(_rate_criterion(figures))
    for limit in request.time_limits:
        name, sigma = f"{limit.reason}_seconds", TTFT_RUN_SIGMA if limit.reason == "ttft" else RUN_SIGMA
        figure = figures[name]
        if figure is not None and limit.percentile is not None:
            # A missing percentile is replaced by p99, which is stricter.
            figure = figure | {"mean": figure.get(f"p{limit.percentile}", figure["p99"])}
        criteria.append(_mean_criterion(name, limit.most / limit.unit, figure, sigma, is_least=False))
    requests = figures["requests"]
    total = requests["failed"] + requests["ok"]
    share = requests["failed"] / total if total else None
    return (*criteria, _criterion("failed_share", _MOST_FAILED, share, 0.0, is_least=False))


def _criterion(
    name: str, limit: float, measured: float | None, half_width: float | None, *, is_least: bool
) -> Criterion:
    """A criterion; without a half-width (the load was too short) its interval is unknown."""
    low = high = None
    if measured is not None and half_width is not None:
        low, high = max(0.0, measured - half_width), measured + half_width
    return Criterion(name=name, limit=limit, is_least=is_least, measured=measured, lower=low, upper=high)


def _mean_criterion(
    name: str, limit: float, figure: Figures | None, run_sigma: float, *, is_least: bool
) -> Criterion:
    """A criterion on a mean; its interval combines the run's standard error and the spread of runs."""
    if figure is None:
        return _criterion(name, limit, None, None, is_least=is_least)
    mean, error = figure["mean"], figure["standard_error"]
    half = None if error is None else _SPREAD * math.hypot(error, run_sigma * mean)
    return _criterion(name, limit, mean, half, is_least=is_least)


def _rate_criterion(figures: Figures) -> Criterion:
    """The criterion of a Poisson load: requests are answered as fast as they arrive, except by chance."""
    wanted, seconds = figures["requests_per_second_wanted"], figures["window_seconds"]
    rate, name = figures["requests_per_second"], "requests_per_second"
    if rate is None or seconds <= 0:
        return _criterion(name, wanted, None, None, is_least=True)
    count = wanted * seconds
    limit = max(0.0, count - _CHANCE * math.sqrt(count)) / seconds
    measured = 0.0 if figures["generator"]["is_capped"] else rate["mean"]
    return _criterion(name, limit, measured, 0.0, is_least=True)


class ServingTrial(NamedTuple):
    """The candidate to verify, its question, and the answer without the measurement (`before`)."""

    question: VerifyGeneration
    request: ServingQuestion
    candidate: GenerationCandidate
    before: GenerationRecommendation
    today: date

    @property
    def load(self) -> Load:
        """The load for one of the candidate's instances."""
        request, count = self.request, self.candidate.spec.count
        if request.users is not None:
            return Load(concurrency=math.ceil(request.users / count))
        if request.target_requests_per_second is not None:
            return Load(requests_per_second=request.target_requests_per_second / count)
        return Load(concurrency=max(1, round(self.candidate.rates.concurrency / count)))

    def served(self, **way: Any) -> ServedModel:
        """The question that measures one instance; `way` are fields that say how to reach or start it."""
        candidate, request, load = self.candidate, self.request, self.load
        parts = candidate.placement.tensor_parallel
        return ServedModel(
            served_model=self.question.served_model,
            input_tokens=max(1, round(request.prompt_tokens)),
            output_tokens=max(1, round(request.output_tokens)),
            concurrency=(load.concurrency,) if load.concurrency else (),
            rate=(load.requests_per_second,) if load.requests_per_second else (),
            gpus=candidate.placement.gpus_used,
            tensor_parallel=parts,
            link=str(candidate.placement.link) if parts > 1 else None,
            kv_precision=candidate.kv_precision,
            **way,
        )


def serving_trial(catalog: Catalog, question: VerifyGeneration, instance: str, today: date) -> ServingTrial:
    """The trial for a named type, or for `auto` the recommended spec; `NoOfferError` if there is none."""
    recommendation, model = question.recommendation, language_model_of(question)
    before = serving_recommended(catalog, recommendation, today=today)
    request = settled_serving(recommendation, model, catalog)
    candidate = before.chosen
    if instance != AUTO:
        name = instance_named(instance, question, catalog)
        task = ServingTask(catalog, model, bundled_serving_predictor(), draft_of(recommendation))
        candidate = task.prediction_on(request, name, today=today).candidate
    if candidate is None:
        raise NoOfferError(
            "nothing is recommended that could be verified",
            hint="name the type that the endpoint runs on by --instance",
        )
    if candidate.placement.nodes > 1 or candidate.placement.ranks > 1:
        raise error_in(
            "instance",
            "no trial measures yet what is split over several instances, or data parallel",
            hint="start it with an export, and load it by `advisor measure --endpoint`",
        )
    return ServingTrial(question, request, candidate, before, today)


def verify_serving(
    catalog: Catalog, trial: ServingTrial, minutes: float, on_progress: Say
) -> ServingVerification:
    """Load the question's endpoint, and judge the result; `MeasuringError` if nothing was measured."""
    candidate, question = trial.candidate, trial.question
    anchor, ended = measure_served(
        trial.served(endpoint=question.endpoint, api_key_file=question.api_key_file),
        model=candidate.model,
        precision=str(candidate.precision),
        minutes=minutes,
        on_progress=on_progress,
    )
    if ended is not None:
        raise ended
    # Assume that the endpoint is one instance of the spec, unless the driver or the server says otherwise.
    anchor["deployment"]["gpu"] = anchor["deployment"]["gpu"] or candidate.spec.offer.instance.gpu_name
    anchor["engine"]["name"] = anchor["engine"]["name"] or str(candidate.engine)
    return judged_serving(catalog, trial, anchor)


def judged_serving(catalog: Catalog, trial: ServingTrial, anchor: Mapping[str, Any]) -> ServingVerification:
    """The verdict of the anchor's first load, and the spec to take now."""
    settles, caveats = _scope_of(catalog, trial.candidate, anchor)
    done = ServingVerification(
        request=trial.request,
        predicted=trial.candidate,
        load=str(trial.load),
        criteria=criteria_of(trial.request, trial.candidate, anchor["loads"][0]),
        anchor=anchor,
        settles=settles,
        caveats=(*caveats, *anchor["warnings"]),
        answer_now="",
    )
    after = None  # stays None if the predictor cannot use the trial
    with TemporaryDirectory(prefix="advisor-verify-") as folder, suppress(AdvisorError):
        path = Path(folder) / "anchor.json"
        path.write_text(json.dumps(anchor))
        informed = trial.question.recommendation.replace(anchor=(*trial.question.anchor, path))
        after = serving_recommended(catalog, informed, today=trial.today)
    spec = trial.candidate.spec
    ranked = [candidate.spec for candidate in (after or trial.before).ranked]
    name, usd = spec.offer.instance.name, spec.total_usd_per_hour
    return replace(done, answer_now=spec_to_take(name, usd, done.verdict, ranked))


def _scope_of(
    catalog: Catalog, candidate: GenerationCandidate, anchor: Mapping[str, Any]
) -> tuple[bool, tuple[str, ...]]:
    """A flag that the trial ran on the spec's GPU and engine, and how it differed from the spec."""
    wanted = candidate.spec.offer.instance.gpu_name
    gpus = anchor["deployment"]["gpu_facts"]
    caveats = []
    settles = False
    if not gpus:
        who = "no driver there" if anchor["engine"]["command"] else "nobody but you"
        caveats.append(f"{who} says that the endpoint runs on {wanted}")
    else:
        try:
            here = sheet_of(gpus[0]["name"], sheets=catalog.gpus).name
        except UsageError:
            here = str(gpus[0]["name"])
        settles = here == wanted
        if not settles:
            caveats.append(f"it was measured on {here}, and {wanted} is what the spec has")
    if (engine := anchor["engine"]["name"]) != candidate.engine:
        caveats.append(f"it was measured on {engine}, and {candidate.engine} was predicted")
        settles = False
    if candidate.spec.count > 1:
        caveats.append(f"one instance was measured, the spec has {candidate.spec.count}")
    return settles, tuple(caveats)


def serving_launch(trial: ServingTrial, cloud: CloudOptions, minutes: float) -> CloudOptions:
    """The launch of the instance with its disk and engine; its id has the day, so that a repeated command on
    that day pays for nothing twice. `UsageError` for other clouds than AWS and other engines than vLLM."""
    candidate = trial.candidate
    offer, disk = candidate.spec.offer, candidate.spec.disk
    if offer.instance.cloud != "aws":
        raise error_in(
            "on",
            "--on aws launches on AWS, not on {cloud}",
            cloud=offer.instance.cloud,
            hint="leave {cloud} out, or name an {instance} of AWS",
        )
    if candidate.engine is not LlmEngine.VLLM:
        raise error_in(
            "engine",
            "--on aws starts vLLM, not {engine}",
            engine=candidate.engine,
            hint="start it on the instance, and name its {endpoint}",
        )
    served = trial.served(engine=str(candidate.engine), gpu=offer.instance.gpu_name)
    what = (f"--model={candidate.model}", f"--precision={candidate.precision}", f"--minutes={minutes:g}")
    wanted = replace(
        cloud,
        instance=offer.instance.name,
        region=offer.region,
        # After `--`, the options with which the answer's exports start the engine.
        arguments=(*what, *command_words(served), "--", *engine_words(candidate, trial.request)),
        command=MEASURE,
        engine=vllm_requirement(candidate),
    )
    return with_its_disk(wanted, disk, trial.today)


def verdict_on_served(
    catalog: Catalog, trial: ServingTrial, plan: CloudPlan, run: CloudRun, aws: Aws
) -> ServingVerification:
    """The verification from an ended run; `CloudError` if it measured nothing."""
    job = job_of(plan)
    anchors = anchors_sent(ResultBucket(aws, job.region, job.bucket, job.prefix))
    loaded = [anchor for anchor in anchors if anchor["loads"][0]["status"] in USED]
    if not loaded:
        raise nothing_measured(plan, run)
    return judged_serving(catalog, trial, loaded[-1])
