"""`advisor verify`: one trial of whether this machine, or a rented one, reaches a target."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.context import load_context
from advisor.catalog import Catalog
from advisor.cli.cloud import launch_options
from advisor.cli.questions import Name, Positive, Text, question_options
from advisor.cli.sweep_cloud import ended_on_aws, run_lines, show_plans, tell
from advisor.domain import Request, Verdict, Verification
from advisor.errors import MeasuringError, NoOfferError, UsageError
from advisor.messages import Message
from advisor.questions.models import Sources, Verify
from advisor.questions.requests import today
from advisor.render.verification import verification_document, verification_text
from advisor.runs.cloud.request import dollars, launch_values, refuse_without_aws, split
from models.performance import PerformanceModel
from models.zoo.networks import NETWORKS, can_be_run

if TYPE_CHECKING:
    from advisor.runs.cloud.plan import CloudOptions
    from advisor.runs.verification.cloud import CloudVerification


# Boot, torch with CUDA, a data set, some minutes of measuring.
_HOURS = 1.0
# Of `verify`, and meaningless on another machine.
_NOT_THERE = {
    "data": "lies on this machine; data of that size are made there",
    "accelerator": "is the GPU of the instance",
}


def verify_on_aws(
    request: Request, answers: Mapping[str, Any], cloud: Mapping[str, Any],
    catalog: Catalog, model: PerformanceModel, output: str,
) -> Verification:  # fmt: skip
    """Plan, launch, measure, end, judge; a dry run is the end of the command."""
    from advisor.runs.cloud.plan import plan_cloud
    from advisor.runs.cloud.status import run_document
    from advisor.runs.verification.cloud import (
        launch_options,
        plan_elsewhere,
        verify_elsewhere,
    )
    from infra.aws.asking import Aws

    _refuse(answers, request)
    asked = plan_elsewhere(request, answers["instance"], catalog, model, today())
    options = launch_options(
        asked, _cloud_options(asked, answers, cloud), answers["minutes"], answers["samples"],
        today(),
    )  # fmt: skip
    aws = Aws()
    plan = plan_cloud(options, aws)
    if cloud["dry_run"]:
        click.get_current_context().exit(show_plans([plan], output))
    tell(f"verifying {options.instance}; costs ${plan.most_usd:.2f} at most")
    with ended_on_aws(f"the verification on {options.instance}"):
        done, run = verify_elsewhere(asked, plan, aws, tell, catalog, model, today())
    for line in run_lines(run_document(run))[1:]:  # the verdict tells how it went
        tell(line)
    return done


def _refuse(answers: Mapping[str, Any], request: Request) -> None:
    for name, why in _NOT_THERE.items():
        if answers[name]:
            raise UsageError(
                "--on aws: --{name} {why}", name=name, why=why, field="on", hint="leave it out"
            )
    if request.dataset.name != "imagenet":
        raise UsageError(
            "--on aws: --dataset lies on this machine", field="on", hint="leave it out"
        )


def _cloud_options(
    asked: CloudVerification, answers: Mapping[str, Any], cloud: Mapping[str, Any]
) -> CloudOptions:
    """Whose and how; what is launched comes with the question."""
    from advisor.runs.cloud.plan import CloudOptions

    return CloudOptions(
        instance=asked.named.instance.name,
        budget_usd=dollars(answers["budget"]),
        arguments=(),
        disks=(),
        needs_vcpus=0.0,
        needs_mib=0.0,
        region=asked.request.region or "us-east-1",
        **launch_values(cloud, _HOURS),
    )


_MOST_MINUTES = 60.0
_LEAST_SAMPLES = 100
_TELL_EVERY_SECONDS = 10.0


@click.command()
@question_options(Verify)
@question_options(Sources, "sources")
@click.option(
    "--instance", type=Text("--instance"), default="auto", show_default=True,
    help="Instance type to verify, as g4dn.xlarge; auto: this machine, with --on aws the "
         "recommended type.",
)  # fmt: skip
@click.option("--accelerator", help="cuda, cpu or emulated:<GPU>.  [default: the GPU that is here]")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Your own images.  [default: generated]"
)
@click.option(
    "--samples",
    type=Positive("--samples", whole=True),
    help="Number of images to generate.  [default: enough]",
)
@click.option(
    "--minutes", type=Positive("--minutes"), default="2", show_default=True,
    help="Longest measurement in minutes.",
)  # fmt: skip
@click.option("--budget", metavar="PRICE", help="Limit of --on aws: 1USD.")
@launch_options
@click.option(
    "--out", type=click.Path(path_type=Path), help="Also write the measurement to a JSONL file."
)
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
def verify(
    question: Verify, sources: Sources, output: str, out: Path | None, **answers: Any
) -> None:
    """Measure one trial and say whether the instance reaches the target.

    Run it on the instance in question, or use `--on aws` to rent that instance for a few minutes.
    On another machine the trial is held to the instance's vCPUs, RAM and disk; `--accelerator
    emulated:T4` measures host and disk without a GPU.

    \b
    advisor verify --task inference --model googlenet --target-throughput 500
    advisor verify --task inference --model googlenet --target-throughput 500 \\
                   --on aws --budget 1USD --bucket my-results
    advisor verify --task inference --model googlenet --target-throughput 500 \\
                   --instance g4dn.xlarge --disk gp3:158GiB --batch-size 16

    Exit codes: 0 pass, 3 missed, 1 undecided, 2 wrong usage.
    """
    answers, cloud = split(answers)
    _check(answers, out)
    done = _verified(question, sources, answers, cloud, output)
    if out is not None:
        _write(out, done)
    text = json.dumps(verification_document(done), indent=2, allow_nan=False)
    click.echo(text if output == "json" else verification_text(done))
    _leave(done)


def _check(answers: dict[str, Any], out: Path | None) -> None:
    """Before minutes are spent on what could not be asked, or written."""
    if answers["minutes"] > _MOST_MINUTES:
        raise UsageError(
            "--minutes takes up to {most_minutes:g}, not {minutes:g}",
            most_minutes=_MOST_MINUTES,
            minutes=answers["minutes"],
            field="minutes",
        )
    data, samples = answers["data"], answers["samples"]
    if data is not None and not data.exists():
        raise UsageError(
            "there is nothing at '{data}'", data=data, hint="--data takes your own images"
        )
    if data is not None and samples is not None:
        raise UsageError(
            "--samples is for images that are made",
            field="samples",
            hint="leave it out with --data",
        )
    if samples is not None and samples < _LEAST_SAMPLES:
        raise UsageError(
            "--samples takes {least_samples} or more, not {samples}",
            least_samples=_LEAST_SAMPLES,
            samples=samples,
            field="samples",
        )
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(
            "--out takes a file in a folder that exists, not '{out}'", out=out, field="out"
        )


def _verified(
    question: Verify,
    sources: Sources,
    answers: dict[str, Any],
    cloud: dict[str, Any],
    output: str,
) -> Verification:
    context = load_context(sources)
    catalog, model = context.catalog, context.model
    if answers["data"] is not None:
        question = question.replace(dataset=str(answers["data"]))
    request = context.request(question)
    if not can_be_run(request.network):
        raise UsageError(
            "trials run {networks}",
            networks=", ".join(NETWORKS),
            hint=Message(
                "write {network} into a file, and verify --model file.py:build",
                network=request.network,
            ),
        )
    if not request.can_be_measured:
        raise UsageError(
            "a trial runs eager PyTorch as it is by itself, in fp32, amp or bf16, on the network's "
            "own input: leave out --stack, --memory-format, --tf32 and --input"
        )
    if request.disk_types:
        raise UsageError("--disk names the disk that is verified, as gp3:158GiB or instance_store")
    if cloud["on"] == "aws":
        return verify_on_aws(request, answers, cloud, catalog, model, output)
    refuse_without_aws({**cloud, "budget": answers["budget"]})
    return _verified_here(request, answers, catalog, model)


def _verified_here(
    request: Request, answers: dict[str, Any], catalog: Catalog, model: PerformanceModel
) -> Verification:
    from advisor.cli.sweep_view import dataset_progress, trial_name
    from advisor.runs.verification.verify import VerifyOptions, plan_verification, verify
    from sweeps.store import open_store

    options = VerifyOptions(
        instance=answers["instance"].lower(),
        accelerator=answers["accelerator"],
        data=answers["data"],
        minutes=answers["minutes"],
        samples=answers["samples"],
    )
    with closing(open_store()) as store:
        with dataset_progress() as making:
            trying = plan_verification(request, options, catalog, model, making)
        with _told(f"{trial_name(trying.trial)}, at most {options.minutes:g} min"):
            return verify(request, trying, store, catalog, model, today())


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Says on stderr what runs, and from time to time for how long."""
    over = threading.Event()

    def tell() -> None:
        seconds = 0.0
        while not over.wait(_TELL_EVERY_SECONDS):
            seconds += _TELL_EVERY_SECONDS
            click.echo(f"measuring for {seconds:.0f} s", err=True)

    click.echo(f"measuring {what}", err=True)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _write(out: Path, done: Verification) -> None:
    from advisor.files import write_whole
    from sweeps.formats.exporting import to_jsonl

    write_whole(out, to_jsonl([done.measurement]))
    click.echo(f"written to {out}", err=True)


def _leave(done: Verification) -> None:
    if done.verdict is Verdict.MISSED:
        raise NoOfferError("the target is missed: {reason}", reason=done.reason)
    if done.verdict is Verdict.UNDECIDED:
        raise MeasuringError("undecided: {reason}", reason=done.reason)
