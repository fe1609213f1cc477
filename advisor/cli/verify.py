"""`advisor verify`: measures whether an instance reaches a target; `--top N` tries the N best types."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.context import Context, load_context, with_anchors
from advisor.catalog import load_catalog
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import SectionedCommand, output_option, question_options
from advisor.cli.sweep_cloud import ended_on_aws, run_lines, show_plans
from advisor.cli.sweep_view import dataset_progress, trial_name
from advisor.domain import Verdict, Verification
from advisor.errors import MeasuringError, NoOfferError, UsageError, one_line
from advisor.files import require_writable, write_whole
from advisor.infra.aws.asking import Aws
from advisor.messages import format_rate, format_usd
from advisor.models.zoo.networks import can_be_run, network_info
from advisor.questions.fields import error_in
from advisor.questions.listings import Sources
from advisor.questions.network import NetworkQuestion, Verify
from advisor.questions.reading import question_document
from advisor.questions.settled import today
from advisor.render.text import table
from advisor.render.verification import (
    serving_verification_document,
    serving_verification_text,
    verification_document,
    verification_text,
)
from advisor.runs.cloud.plan import CloudOptions, launch_values, plan_cloud
from advisor.runs.cloud.status import run_document
from advisor.runs.endpoint.questions import VERIFY, VerifyGeneration
from advisor.runs.questions import VerificationRun
from advisor.runs.sweep_questions import AWS, dollars
from advisor.sweeps.formats import to_jsonl

if TYPE_CHECKING:
    from advisor.catalog import Catalog
    from advisor.domain.verification import ServingVerification
    from advisor.runs.cloud.plan import CloudPlan
    from advisor.runs.cloud.sweep import CloudRun
    from advisor.runs.endpoint.verifying import ServingTrial
    from advisor.runs.verification.cloud import TopChoice, TriedCandidate

# For booting, installing torch or an engine, fetching data or weights, and some minutes of measuring.
_HOURS = 1.0


@click.command(cls=SectionedCommand)
@question_options(VERIFY)
@question_options(Sources, "sources")
@question_options(VerificationRun, "how")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the measurement to a JSONL file.")
@output_option
def verify(
    question: Verify | VerifyGeneration, sources: Sources, how: VerificationRun, output: str, out: Path | None
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
                   --on aws --budget 3USD --bucket my-results --top 3
    advisor verify --task inference --model googlenet --target-throughput 500 \\
                   --instance g4dn.xlarge --disk gp3:158GiB --batch-size 16
    advisor verify --task generation --model meta-llama/Llama-3.1-8B --users 16 \\
                   --max-tpot-ms 40 --instance g6.xlarge --endpoint http://localhost:8000
    advisor verify --task generation --model meta-llama/Llama-3.1-8B --users 16 \\
                   --on aws --budget 3USD --bucket my-results

    Exit codes: 0 pass (with `--top`: it is settled which one to take), 3 missed, 1 undecided,
    2 wrong usage.
    """
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(f"--out takes a file in a folder that exists, not '{out}'", field="out")
    if isinstance(question, VerifyGeneration):
        _generation(question, sources, how, output, out)
        return
    context = load_context(sources)
    if how.data is not None:
        question = question.replace(dataset_name=str(how.data))
    context, question = with_anchors(context, question)
    request = context.request(question)
    _refuse_unmeasurable(request)
    if how.top is not None:
        _refuse_own_data(request)
        launch = _launch(how, "", request.region or "us-east-1")
        leave(verified_choice(request, how, how.top, launch, context, output))
        return
    if how.on == AWS:
        done = _verified_on_aws(request, how, context, output)
    else:
        done = _verified_here(request, how, context)
    if out is not None:
        write_whole(out, to_jsonl([done.measurement]))
        tell(f"written to {out}")
    print_answer(output, verification_document(done), lambda: verification_text(done), indent=2)
    _leave(done)


def _leave(done: Verification) -> None:
    if done.verdict is Verdict.MISSED:
        raise NoOfferError(f"the target is missed: {done.reason}")
    if done.verdict is Verdict.UNDECIDED:
        raise MeasuringError(f"undecided: {done.reason}")


def _generation(
    question: VerifyGeneration, sources: Sources, how: VerificationRun, output: str, out: Path | None
) -> None:
    from advisor.runs.endpoint.verifying import serving_trial, verify_serving

    _refuse_unservable(question, how)
    catalog = load_catalog(cny_per_usd=sources.cny_per_usd)
    if out is not None:
        require_writable(out)
    trial = serving_trial(catalog, question, how.instance, today())
    if how.on == AWS:
        out = out or Path(f"anchor-{Path(trial.candidate.model).name}.json")
        done = _served_on_aws(trial, how, catalog, output)
    else:
        done = verify_serving(catalog, trial, how.minutes, tell)
    if out is not None:
        write_whole(out, json.dumps(done.anchor, indent=1) + "\n")
        tell(f"written to {out}")
    print_answer(
        output, serving_verification_document(done), lambda: serving_verification_text(done), indent=2
    )
    if done.verdict is Verdict.MISSED:
        raise NoOfferError("the target is missed")
    if done.verdict is Verdict.UNDECIDED:
        raise MeasuringError("undecided", hint="give it more --minutes")


def _refuse_unservable(question: VerifyGeneration, how: VerificationRun) -> None:
    """Refuse options that only apply to networks. Exactly one of an endpoint and `--on aws` is needed."""
    if (how.on == AWS) == bool(question.endpoint):
        raise error_in(
            "endpoint",
            "a language model is verified at the {field} that serves it, or with {on} aws, which starts one",
            hint="give one of them; `advisor recommend --export` writes how its engine is started",
        )
    for name in ("accelerator", "data", "samples", "top"):
        if getattr(how, name) is not None:
            raise error_in(name, "{field} is for trials of networks", hint="leave it out")


def _refuse_unmeasurable(request: NetworkQuestion) -> None:
    if not can_be_run(request.network):
        network_info(request.network)  # raises, and names what can be run
    if not request.can_be_measured:
        raise UsageError(
            "a trial runs eager PyTorch as it is by itself, in fp32, amp or bf16, on the network's own input",
            hint="leave out --stack, --memory-format, --tf32 and --input",
        )
    if request.disk_types:
        raise UsageError(
            "--disk names the disk that is verified, as gp3:158GiB or instance_store", field="disk"
        )


def _verified_on_aws(
    request: NetworkQuestion, how: VerificationRun, context: Context, output: str
) -> Verification:
    from advisor.runs.verification.cloud import launch_options, plan_elsewhere, verdict_on

    _refuse_own_data(request)
    day, aws = today(), Aws()
    planned = plan_elsewhere(request, how.instance, context, day)
    launch = _launch(how, planned.named.instance.name, planned.request.region or "us-east-1")
    plan, run = _rented(how, launch_options(planned, launch, how, day), aws, output)
    return verdict_on(planned, plan, run, aws, context, day)


def _refuse_own_data(request: NetworkQuestion) -> None:
    if request.dataset.name != "imagenet":
        raise UsageError("--dataset lies on this machine, not on AWS", field="dataset", hint="leave it out")


def _served_on_aws(
    trial: ServingTrial, how: VerificationRun, catalog: Catalog, output: str
) -> ServingVerification:
    from advisor.runs.endpoint.verifying import serving_launch, verdict_on_served

    offer, aws = trial.candidate.spec.offer, Aws()
    launch = _launch(how, offer.instance.name, offer.region)
    plan, run = _rented(how, serving_launch(trial, launch, how.minutes), aws, output)
    return verdict_on_served(catalog, trial, plan, run, aws)


def _launch(how: VerificationRun, instance: str, region: str) -> CloudOptions:
    return CloudOptions(
        instance=instance, region=region, budget_usd=dollars(how.budget), **launch_values(how, _HOURS)
    )


def _rented(how: VerificationRun, options: CloudOptions, aws: Aws, output: str) -> tuple[CloudPlan, CloudRun]:
    """Launch, measure and end an instance. A dry run prints the plan and exits the command."""
    from advisor.runs.cloud.sweep import run_cloud

    plan = plan_cloud(options, aws)
    if how.dry_run:
        click.get_current_context().exit(show_plans([plan], output))
    tell(f"verifying {options.instance}; costs ${plan.most_usd:.2f} at most")
    with ended_on_aws(f"the verification on {options.instance}"):
        run = run_cloud(plan, aws, tell)
    for line in run_lines(run_document(run))[1:]:  # no first line: the verdict says how it ended
        tell(line)
    return plan, run


def _verified_here(request: NetworkQuestion, how: VerificationRun, context: Context) -> Verification:
    from advisor.runs.verification.verify import plan_verification, verify
    from advisor.store.measurements import open_store

    with closing(open_store()) as store:
        with dataset_progress() as making:
            planned = plan_verification(request, how, context, making)
        if not planned.machine.is_here:
            expected = planned.machine.instance
            name = f"stands in for {expected.name}" if expected else "is no instance type that is known"
            tell(f"this machine {name}: a rented instance may differ")
        tell(f"measuring {trial_name(planned.trial)}, at most {how.minutes:g} min")
        return verify(request, planned, store, context, today())


SCHEMA = "advisor.verified-choice/1"
_COLUMNS = ("type", "per hour", "predicted", "measured", "verdict", "why")


def verified_choice(
    request: NetworkQuestion,
    how: VerificationRun,
    top: int,
    launch: CloudOptions,
    context: Context,
    output: str,
) -> TopChoice:
    """Measure the `top` best candidates on AWS and print the choice. A dry run only prints the plans."""
    from advisor.runs.verification.cloud import best_candidates, plan_top, verify_top

    day, aws = today(), Aws()
    candidates = best_candidates(request, top, context, day, own_image=how.image is not None)
    plans = plan_top(candidates, launch, how, day, aws)
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
    """Set the exit code by raising: `MeasuringError` (1) if undecided, `NoOfferError` (3) if all missed."""
    if not choice.settled:
        raise MeasuringError("undecided", hint="give it more --minutes, or a larger --budget")
    if choice.chosen is None:
        raise NoOfferError(f"each of {len(choice.tried)} missed the target")


def choice_document(choice: TopChoice) -> dict[str, Any]:
    """The JSON document of a choice (render/schemas/verified-choice.schema.json)."""
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
    """The text of a choice: the verdict, then the candidates, cheapest first, and the total cost."""
    first = f"Take {choice.chosen.name}." if choice.chosen else "None of them is known to reach the target."
    return "\n".join(
        [
            first if choice.settled else f"{first} Whether a cheaper one reaches it is undecided.",
            "",
            *table(_COLUMNS, [_cells(candidate) for candidate in choice.tried], right=(1, 2, 3)),
            f"{format_usd(choice.spent_usd)} at most for all of them; what came back is stored.",
        ]
    )


def _cells(candidate: TriedCandidate) -> tuple[str, ...]:
    done = candidate.verification
    return (
        candidate.name,
        format_usd(candidate.usd_per_hour),
        format_rate(candidate.planned.named.prediction.median),
        "-" if done is None or done.rate is None else format_rate(done.rate),
        str(candidate.verdict),
        one_line("; ".join((done.reason, *done.caveats)) if done else str(candidate.error)),
    )
