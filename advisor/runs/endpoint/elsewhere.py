"""A question about serving, verified on the very instance: launched, its engine started and loaded
there, ended; then judged here."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.answers.language import LanguageContext
from advisor.domain.verification import ServingVerification
from advisor.domain.words import LlmEngine
from advisor.errors import UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import MEASURE
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.messages import FieldName, Message
from advisor.render.export.serving import engine_words, vllm_requirement
from advisor.runs.cloud.exchange import anchors_sent
from advisor.runs.cloud.plan import CloudOptions, CloudPlan
from advisor.runs.cloud.sweep import CloudRun, Say, job_of, nothing_measured, run_cloud
from advisor.runs.endpoint.verifying import ServingTrial, judged_serving
from advisor.runs.verification.cloud import with_its_disk, words_of
from advisor.sweeps.measure.endpoint.anchors import USED


def serving_launch(trial: ServingTrial, cloud: CloudOptions, minutes: float) -> CloudOptions:
    """The launch of the trial's instance type with its disk and the answer's engine. Its id has the day: what
    was verified today is not paid for twice. `UsageError` for an offer of another cloud, and an engine that
    is not started there."""
    candidate = trial.candidate
    offer, disk = candidate.spec.offer, candidate.spec.disk
    if offer.instance.cloud != "aws":
        raise UsageError(
            "--on aws launches on AWS, not on {cloud}",
            cloud=offer.instance.cloud,
            field="on",
            hint=Message(
                "leave {cloud} out, or name an {instance} of AWS",
                cloud=FieldName("cloud"),
                instance=FieldName("instance"),
            ),
        )
    if candidate.engine is not LlmEngine.VLLM:
        raise UsageError(
            "--on aws starts vLLM, not {engine}",
            engine=candidate.engine,
            field="engine",
            hint=Message("start it on the instance, and name its {endpoint}", endpoint=FieldName("endpoint")),
        )
    wanted = replace(
        cloud,
        instance=offer.instance.name,
        region=offer.region,
        arguments=_arguments(trial, minutes),
        command=MEASURE,
        engine=vllm_requirement(candidate),
    )
    return with_its_disk(wanted, disk, trial.today)


def verify_serving_elsewhere(
    context: LanguageContext, trial: ServingTrial, plan: CloudPlan, aws: Aws, say: Say
) -> tuple[ServingVerification, CloudRun]:
    """Launch, measure, end everything, and hold target and limits to what was measured;
    `CloudError` where nothing was."""
    run, job = run_cloud(plan, aws, say), job_of(plan)
    anchors = anchors_sent(ResultBucket(aws, job.region, job.bucket, job.prefix))
    loaded = [anchor for anchor in anchors if anchor["loads"][0]["status"] in USED]
    if not loaded:
        raise nothing_measured(plan, run)
    return judged_serving(context, trial, loaded[-1]), run


def _arguments(trial: ServingTrial, minutes: float) -> tuple[str, ...]:
    """Arguments of `advisor measure` there; the words after `--` are those that the answer's exports
    start the engine with."""
    candidate, load, lengths = trial.candidate, trial.load, trial.lengths
    placement = candidate.placement
    given: dict[str, object] = {
        "--engine": candidate.engine,
        "--model": candidate.model,
        "--served-model": trial.question.served_model,
        "--precision": candidate.precision,
        "--kv-precision": candidate.kv_precision,
        "--input-tokens": lengths.input_tokens,
        "--output-tokens": lengths.output_tokens,
        "--concurrency": load.concurrency,
        "--rate": load.requests_per_second,
        "--gpu": candidate.spec.offer.instance.gpu_name,
        "--gpus": placement.gpus_used,
        "--tensor-parallel": placement.tensor_parallel,
        "--link": placement.link if placement.tensor_parallel > 1 else None,
        "--minutes": f"{minutes:g}",
    }
    return (*words_of(given), "--", *engine_words(candidate, trial.request))
