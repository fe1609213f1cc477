"""`advisor fit`: updates the predictor with stored measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer
from advisor.cli.questions import output_option
from advisor.cli.sweep_view import stored_measurements
from advisor.files import own_model_path
from advisor.messages import format_counted
from advisor.models.performance import load_model, save_model
from advisor.runs.fitting import fit_user_model, measurements_from

if TYPE_CHECKING:
    from advisor.models.performance.fit import Errors, FitResult

_MOST_NAMED = 5
_ERRORS = ("median", "mean", "p90")
_PREDICTORS = {
    "shipped": "the model that ships",
    "boosting": "boosted trees, your trials alone",
    "linear": "linear regression, your trials alone",
    "fitted": "what ships, updated by your trials",
}


@click.command()
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="JSONL file of `advisor measurements export`.  [default: the store]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the model.  [default: your own]")
@click.option("--reset", is_flag=True, help="Remove your own model: answers come from the one that ships.")
@output_option
def fit(source: Path | None, out: Path | None, reset: bool, output: str) -> None:
    """Update the predictor by your measurements, and report its error on held-out trials.

    Your trials change the bundled predictor as far as they are evidence, most of all for the CPU they ran
    on. The error is that of a five-fold cross-validation over configurations. Steps of real GPUs, and
    layers timed by `advisor probe`, update the predictions for those GPUs and networks. Emulated GPUs keep
    their published step times.

    \b
    advisor fit
    advisor fit --from measurements.jsonl --out model.json -o json
    advisor fit --reset"""
    if reset:
        path = out or own_model_path()
        path.unlink(missing_ok=True)
        document = {"schema": "advisor.fit/1", "model": {"id": load_model().id, "path": None}}
        line = f"{path} is gone: answers come from the model that ships ({load_model().id})"
        print_answer(output, document, lambda: [line], indent=2)
        return
    from advisor.runs.probing import kept_fingerprints

    with nullcontext(measurements_from(source)) if source else stored_measurements() as rows:
        # A file may come from another machine, so this machine's probes do not apply to it.
        result = fit_user_model(rows, () if source else kept_fingerprints())
        path = out or own_model_path()
        save_model(result.model, path)
        document = fit_document(result, path)
        print_answer(output, document, lambda: _fit_lines(document), indent=2)


def fit_document(result: FitResult, path: Path) -> dict[str, Any]:
    """The result of a fit as JSON (`advisor.fit/1`); errors are null if no pipeline was fitted."""
    errors, gpu = result.errors, result.gpu

    def figures(each: Errors | None) -> dict[str, float | None]:
        return {name: each and getattr(each, name) for name in _ERRORS}

    return {
        "schema": "advisor.fit/1",
        "model": {"id": result.model.id, "path": str(path), "trained_on": result.model.trained_on},
        "fitted": result.fitted,
        "pipeline_kept": result.kept_pipeline or None,
        "left_out": _counted(result.left_out),
        "held_out_error_percent": figures(errors["fitted"]),
        "compared": [
            {"predictor": name, **figures(each)} for name, each in errors.items() if errors["fitted"]
        ],
        "machines": [
            {"cpu": machine.cpu, "speed": round(machine.factor, 3), "is_odd": machine.is_odd}
            for machine in result.machines
        ],
        "gpu_steps": {
            "taken": len(gpu.observations.steps),
            "trials": gpu.trials,
            "gpus": sorted({step.gpu.name for step in gpu.observations.steps}),
            "error_before_percent": gpu.errors and gpu.errors.median,
            "contradicting": [
                {
                    "model": step.workload.network,
                    "task": step.workload.task,
                    "precision": step.workload.precision,
                    "batch_size": step.workload.batch_size,
                    "gpu": step.gpu.name,
                    "origin": step.origin,
                }
                for step in gpu.contradicting
            ],
            "left_out": _counted(gpu.left_out),
        },
        "gpu_layers": {
            "taken": len(gpu.observations.layers),
            "gpus": sorted({layer.gpu.name for layer in gpu.observations.layers}),
        },
        "remainder_kept": False,  # readers of the schema expect the key
    }


def _counted(reasons: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "count": count} for reason, count in reasons]


def _fit_lines(document: Mapping[str, Any]) -> Iterator[str]:
    model, errors = document["model"], document["held_out_error_percent"]
    if kept := document["pipeline_kept"]:
        yield f"Model {model['id']} kept in {model['path']}"
        yield f"Host, storage and join stay those that ship: {kept}"
    else:
        yield f"Fitted on {document['fitted']} measurements; model {model['id']} kept in {model['path']}"
        yield (
            f"Held-out error (5-fold over configurations): median {errors['median']:.1f} %, "
            f"mean {errors['mean']:.1f} %, 90 % of trials below {errors['p90']:.1f} %"
        )
    yield from _comparison(document)
    for item in document["left_out"]:
        yield f"Left out {item['count']}: {item['reason']}"
    steps, layers = document["gpu_steps"], document["gpu_layers"]
    if steps["taken"]:
        yield (
            f"Took {format_counted(steps['taken'], 'GPU step')} of "
            f"{format_counted(steps['trials'], 'trial')} on {', '.join(steps['gpus'])}; "
            f"{steps['error_before_percent']:.1f} % (median) off what was predicted before"
        )
    if layers["taken"]:
        yield (
            f"Took {format_counted(layers['taken'], 'layer')} that `advisor probe` timed on "
            f"{', '.join(layers['gpus'])}"
        )
    for step in steps["contradicting"][:_MOST_NAMED]:
        yield (
            f"{step['origin']} ({step['model']} {step['task']} in {step['precision']}, batch "
            f"{step['batch_size']} on {step['gpu']}) contradicts the other steps, or the model; "
            "was the GPU shared, throttled, or waiting for its host?"
        )
    if (more := len(steps["contradicting"]) - _MOST_NAMED) > 0:
        yield f"and {more} more that contradict"
    for item in steps["left_out"]:
        yield f"Left out of the GPU steps {item['count']}: {item['reason']}"


def _comparison(document: Mapping[str, Any]) -> Iterator[str]:
    """One line for each predictor with its errors on the same trials, then one for each CPU."""
    for row in document["compared"]:
        errors = "  ".join(f"{name} {row[name]:6.1f} %" for name in _ERRORS)
        yield f"  {_PREDICTORS[row['predictor']]:38} {errors}"
    for machine in document["machines"]:
        odd = (
            ": was it busy, throttled, or another CPU? Answers for it follow your trials; "
            "`advisor fit --reset` goes back to what ships"
        )
        speed = f"Your {machine['cpu']} is {machine['speed']:.2f} of what its name promises"
        yield speed + (odd if machine["is_odd"] else "")
