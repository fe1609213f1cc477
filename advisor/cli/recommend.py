"""`advisor recommend`: the cheapest spec that meets a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from advisor.answers.ground import ground_in_use
from advisor.answers.recommending import Recommended, decided, recommended
from advisor.answers.reports import TEXTS
from advisor.catalog import Catalog
from advisor.cli.anchors import anchor_option
from advisor.cli.explaining import explain_option
from advisor.cli.hardware import hardware_options
from advisor.cli.parameters import Name, Positive, Text
from advisor.cli.requests import question_options
from advisor.cli.run_options import run_limit_options, run_options
from advisor.cli.sources import model_option
from advisor.domain import HOURS_PER_MONTH, Recommendation, Request
from advisor.engine import MOST_INSTANCES, PerformanceModel, no_offer
from advisor.errors import NoOfferError, UsageError
from advisor.questions.requests import today
from advisor.render.exporting import FORMATS, export
from advisor.render.recommendation import recommendation_text

OUTPUTS = ("table", "json", "yaml", "csv", "md")
EXPLAINED_IN = ("table", "json", "yaml")


@click.command()
@question_options
@anchor_option
@model_option
@click.option(
    "--target-throughput",
    type=Positive("--target-throughput"),
    help="Samples per second to reach. Without it: ranked by cost, per run or million samples.",
)
@click.option(
    "--max-latency-ms", type=Positive("--max-latency-ms"),
    help="What 99 in 100 batches must surely stay within, decoding and copying included; "
         "inference only.",
)  # fmt: skip
@run_options
@run_limit_options
@hardware_options
@click.option(
    "--accelerated-only", is_flag=True,
    help="Only instances with a GPU, as --gpu says too.",
)  # fmt: skip
@click.option("--max-price", type=Positive("--max-price"), help="USD per hour, disk included.")
@click.option(
    "--quota", type=Text("--quota"), metavar="FAMILY=VCPUS,..",
    help="vCPUs that AWS still lets you start, as G=8,P=0 or L-DB2E81BA=8.",
)  # fmt: skip
@click.option(
    "--max-count", type=Positive("--max-count", whole=True, most=MOST_INSTANCES), default=1,
    show_default=True,
    help="Up to so many identical instances side by side, each with its own disk.",
)  # fmt: skip
@click.option(
    "--max-results", type=Positive("--max-results", whole=True), default=10, show_default=True,
    help="How many specs to name.",
)  # fmt: skip
@explain_option
@click.option(
    "--horizon-hours", type=Positive("--horizon-hours"), default=HOURS_PER_MONTH, show_default=True,
    help="How long it will be paid for; decides whether a verifying trial pays.",
)  # fmt: skip
@click.option("--pareto", is_flag=True, help="Show the Pareto front of price and rate.")
@click.option("--cny-per-usd", type=Positive("--cny-per-usd"), help="Yuan for a dollar.")
@click.option(
    "--explain-rejected",
    is_flag=True,
    help="Name every rejected type and why, not the nearest ten alone.",
)
@click.option(
    "--live", is_flag=True,
    help="Hold price, offer and quota of the best three to what AWS says now, in half a minute.",
)  # fmt: skip
@click.option(
    "--strict", is_flag=True, help="Refuse an instance price older than 90 days (exit 5)."
)
@click.option(
    "--allow-extrapolation", is_flag=True, help="Accept rates with no calibrated interval."
)
@click.option(
    "-o", "--output", type=Name("output format", OUTPUTS), default="table", show_default=True,
)  # fmt: skip
@click.option(
    "--export", "export_to", type=Name("export", FORMATS),
    help="Print what starts the recommended spec, and nothing else.",
)  # fmt: skip
def recommend(
    model_file: Path | None,
    output: str,
    live: bool,
    cny_per_usd: float | None,
    export_to: str | None,
    **asked: Any,
) -> None:
    """The cheapest instance and disk that will really reach a throughput.

    \b
    advisor recommend --task inference --model googlenet --target-throughput 500
    advisor recommend --task training --model resnet50 --precision amp --gpu T4,L4,A10G
    advisor recommend --task training --model resnet50 --epochs 90 --max-hours 72
    advisor recommend --task training --model my_net --anchor anchor-net.json
    advisor recommend --task training --model resnet50 --export terraform > main.tf
    """
    if asked["explain"] and output not in EXPLAINED_IN:
        raise UsageError("--explain goes with -o table, json or yaml")
    if asked["explain_rejected"] and (export_to is not None or output not in EXPLAINED_IN):
        raise UsageError(
            "--explain-rejected goes with -o table, json or yaml", field="explain_rejected"
        )
    ground = ground_in_use(model_file, cny_per_usd=cny_per_usd)
    found = recommended(ground, asked, decided_live if live else decided)
    chosen = found.answer.chosen
    if export_to is None:
        shown = _Shown(found.every_rejected, _asked_results(found.answer.request))
        click.echo(_written(found, output, shown), nl=False)
    elif chosen is not None:
        click.echo(export(chosen, export_to), nl=False)
    if chosen is None:
        raise NoOfferError(no_offer(found.answer))


def decided_live(
    request: Request, _catalog: Catalog, model: PerformanceModel
) -> tuple[Recommendation, Catalog]:
    """The verified answer, and the catalogue with what was told; boto3 is imported only here."""
    from advisor.answers.live.checking import recommend_live

    return recommend_live(
        request, model, today=today(), say=lambda line: click.echo(line, err=True)
    )


class _Shown(NamedTuple):
    """What is shown however long it is."""

    all_rejected: bool
    specs: int | None


def _asked_results(request: Request) -> int | None:
    """How many specs were asked for; None where nobody said, and a screen is enough."""
    source = click.get_current_context().get_parameter_source("max_results")
    return None if source is click.core.ParameterSource.DEFAULT else request.max_results


def _written(found: Recommended, output: str, shown: _Shown) -> str:
    """The whole answer in one format."""
    if output == "table":
        text = recommendation_text(found.answer, found.sources, **shown._asdict())
        return text + found.explained.text() + "\n"
    return TEXTS[output](found)
