"""`advisor fit`: fit the performance model on what was measured."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.parameters import Name
from advisor.cli.stored import stored_measurements

if TYPE_CHECKING:
    from models.performance.fit import FitResult


@click.command()
@click.option(
    "--from", "source", type=click.Path(path_type=Path),
    help="A JSONL file of `advisor measurements export`; by default the store.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to keep the model; by default your own."
)
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip
def fit(source: Path | None, out: Path | None, output: str) -> None:
    """Fit host, storage and join on measured trials, and say how well that predicts others.

    The error is of trials that were held out, five-fold; GPU rates stay the published ones.

    \b
    advisor fit
    advisor fit --from measurements.jsonl --out model.json -o json
    """
    from advisor.operations.fitting import fit_user_model, measurements_from
    from advisor.operations.places import own_model_path
    from models.performance import save_model

    with nullcontext(measurements_from(source)) if source else stored_measurements() as rows:
        result = fit_user_model(rows)
        path = out or own_model_path()
        save_model(result.model, path)
        if output == "json":
            click.echo(json.dumps(fit_document(result, path), indent=2))
        else:
            click.echo(fit_text(result, path))


def fit_document(result: FitResult, path: Path) -> dict[str, Any]:
    """The outcome as JSON (`advisor.fit/1`)."""
    from models.performance.evaluation import mean_percent, median_percent, p90_percent

    residuals = result.held_out_residuals
    return {
        "schema": "advisor.fit/1",
        "model": {"id": result.model.id, "path": str(path), "trained_on": result.model.trained_on},
        "fitted": result.fitted,
        "left_out": [{"reason": reason, "count": count} for reason, count in result.left_out],
        "held_out_error_percent": {
            "median": round(median_percent(residuals), 2),
            "mean": round(mean_percent(residuals), 2),
            "p90": round(p90_percent(residuals), 2),
        },
        "remainder_kept": False,  # readers of the schema expect the key
    }


def fit_text(result: FitResult, path: Path) -> str:
    """The outcome in a few lines."""
    document = fit_document(result, path)
    errors = document["held_out_error_percent"]
    lines = [
        f"Fitted on {result.fitted} measurements; model {result.model.id} kept in {path}",
        f"Held-out error (5-fold over trials): median {errors['median']:.1f} %, "
        f"mean {errors['mean']:.1f} %, 90 % of trials below {errors['p90']:.1f} %",
    ]
    lines += [f"Left out {item['count']}: {item['reason']}" for item in document["left_out"]]
    return "\n".join(lines)
