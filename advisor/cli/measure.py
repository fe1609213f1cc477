"""`advisor measure`: two minutes of a network, an own script or a served language model."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from advisor.cli.measure_served import served_document, served_lines
from advisor.cli.questions import Name, Positive, SectionedCommand, output_option, question_options
from advisor.domain import MEASURABLE_PRECISIONS, Precision, Task
from advisor.domain.generation import LlmPrecision
from advisor.errors import AdvisorError, DataError, UsageError, unknown_name
from advisor.files import require_writable, write_whole
from advisor.questions.ranks import Ranks
from advisor.render.text import WIDTH, table
from advisor.runs.endpoint.questions import ServedModel
from advisor.units import format_mib, format_rate

_TASKS = (Task.INFERENCE, Task.TRAINING)
_PRECISIONS = tuple(dict.fromkeys([*map(str, MEASURABLE_PRECISIONS), *map(str, LlmPrecision)]))
_MOST_MINUTES = 60.0
_MOST_RUNS = 9


@click.command(cls=SectionedCommand)
@click.option(
    "--model",
    "reference",
    help="A network of `advisor networks`, or file.py:build; of a language model its name.",
)
@click.option("--task", type=Name("task", _TASKS), help="[default: inference and training]")
@click.option(
    "--precision",
    type=Name("precision", _PRECISIONS),
    help="Of a network fp32, amp or bf16  [default: fp32]; of a language model its weights'.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder of JPEG files; adds a run with the loader."
)
@click.option("--minutes", type=Positive("--minutes", most=_MOST_MINUTES), default="2", show_default=True)
@click.option(
    "--runs",
    type=Positive("--runs", whole=True, most=_MOST_RUNS),
    help="Fresh processes: of a network's best batch (default: 3, if the minutes allow), or of the "
    "whole script (default: 1).",
)
@click.option(
    "--profile/--no-profile",
    default=True,
    show_default=True,
    help="The table of operations, from torch's profiler after the counted steps.",
)
@click.option("--out", type=click.Path(path_type=Path), help="[default: anchor-NAME.json]")
@output_option
@question_options(Ranks, "together")
@question_options(ServedModel, "served")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def measure(out: Path | None, output: str, **options: Any) -> None:
    """Measure a network or your own training script on this machine, or a language model that is
    served.

    Writes one small file for `recommend --anchor` (docs/how-to/measuring.md). In a script, wrap the
    loader: `from advisor.sweeps.hook import steps`, then `for batch in steps(loader):`. The script
    is
    ended once it is measured. A language model is put under a load: at its --endpoint, or by an
    --engine that is started for that.

    \b
    advisor measure --model resnet50
    advisor measure --model net.py:build --task training --data photos/ --minutes 1
    advisor measure -- python train.py --epochs 1
    advisor measure --model resnet50 --precision amp --ranks 8
    advisor measure --endpoint http://localhost:8000 --model meta-llama/Llama-3.1-8B --gpu L4
    advisor measure --engine vllm --model meta-llama/Llama-3.1-8B -- --max-num-seqs 64
    """
    asked = _Asked(**options)
    if not asked.served.is_served and bool(asked.reference) == bool(asked.command):
        raise UsageError(
            "either a network or a script is measured",
            field="model",
            hint="name --model, or a script's command after --",
        )
    name = Path((asked.reference or "script").partition(".py")[0]).name
    file = out or Path(f"anchor-{name}.json")
    require_writable(file)  # before two minutes are spent on what could not be written
    show = served_lines if asked.served.is_served else _screen
    document, ended = _measured(asked, _requests_file(file))
    click.echo(json.dumps(document) if output == "json" else "\n".join(show(document)))
    _write(file, document, is_shown=output == "json")
    if ended is not None:
        raise ended


class _Asked(NamedTuple):
    """What is measured, as the options say; `reference` is a network's or a language model's."""

    reference: str | None
    task: str | None
    precision: str | None
    data: Path | None
    minutes: float
    runs: int | None
    profile: bool
    together: Ranks
    served: ServedModel
    command: tuple[str, ...]


def _measured(asked: _Asked, requests: Path) -> tuple[dict[str, Any], AdvisorError | None]:
    """The document, and what ended a language model's measurement early."""
    if asked.served.is_served:
        _refuse_options_of_networks(asked.task, asked.data, None)
        return served_document(
            asked.served,
            model=asked.reference,
            precision=asked.precision,
            minutes=asked.minutes,
            arguments=asked.command,
            requests_file=requests,
            on_progress=_progress,
        )
    if asked.together.ranks is not None:
        return _scaling(asked), None
    if asked.reference:
        return _network(asked, asked.reference), None
    _refuse_options_of_networks(asked.task, asked.data, asked.precision)
    return _script(asked), None


def _write(file: Path, document: dict[str, Any], *, is_shown: bool) -> None:
    """The document into its file; onto the screen where that cannot be written any more."""
    try:
        write_whole(file, json.dumps(document, indent=1) + "\n")
    except DataError as error:
        if not is_shown:
            click.echo(json.dumps(document))
        hint = "what was measured is the JSON on stdout: save that as the file"
        raise DataError(error.message, hint=hint) from error
    click.echo(f"written to {file}", err=True)


def _requests_file(file: Path) -> Path:
    """Beside the anchor; one that is no regular file has nothing beside it."""
    named = file.with_name(f"{file.stem}.requests.jsonl")
    return named if file.is_file() or not file.exists() else Path(named.name)


def _refuse_options_of_networks(task: str | None, data: Path | None, precision: str | None) -> None:
    if task or data or precision:
        raise UsageError(
            "--task, --precision and --data go with a network",
            field="task",
            hint="leave them out: a script brings its own",
        )


def _network(asked: _Asked, reference: str) -> dict[str, Any]:
    from advisor.answers.measuring import measure_reference

    if asked.data is not None and not asked.data.is_dir():
        raise UsageError(
            "no folder '{data}'", data=asked.data, field="data", hint="name a folder of JPEG files"
        )
    return measure_reference(
        reference,
        minutes=asked.minutes,
        tasks=(Task(asked.task),) if asked.task else _TASKS,
        precision=_precision(asked),
        data=asked.data,
        runs=asked.runs,
        profile=asked.profile,
        on_progress=_progress,
    )


def _precision(asked: _Asked) -> Precision:
    precision = asked.precision or "fp32"
    if precision not in list(MEASURABLE_PRECISIONS):
        raise unknown_name("precision", precision, MEASURABLE_PRECISIONS, field="precision")
    return Precision(precision)


def _scaling(asked: _Asked) -> dict[str, Any]:
    from advisor.answers.measuring import measure_ranks

    if not asked.reference or asked.task not in (None, Task.TRAINING) or asked.data:
        raise UsageError(
            "--ranks measures the training of a network",
            field="ranks",
            hint="name it with --model, and leave out --data; of a script, start it by torchrun",
        )
    return measure_ranks(
        asked.reference,
        asked.together,
        precision=_precision(asked),
        minutes=asked.minutes,
        on_progress=_progress,
    )


def _script(asked: _Asked) -> dict[str, Any]:
    from advisor.runs.measuring_script import measure_script

    return measure_script(
        asked.command,
        minutes=asked.minutes,
        runs=asked.runs or 1,
        profile=asked.profile,
        on_progress=_progress,
    )


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _screen(document: dict[str, Any]) -> list[str]:
    device, what = document["device"], document["what"]
    name = what.get("name") or " ".join(what["command"])
    where = device["gpu"] or f"CPU, {document['machine']['cpu_model']}"
    header = ("task", "precision", "input", "batch", f"{what['unit']}s/s", "GPU memory", "status")
    rows = [_cells(run) for run in document["runs"]]
    lines = [f"{name} on {where}", ""]
    lines += table(header, rows, right=(3, 4, 5)) if rows else []
    lines += [part for row in document.get("scaling", ()) for part in _wrapped(_of_ranks(row))]
    lines += _spreads(document["runs"])
    lines += [text for run in document["runs"] for text in _epochs(run)]
    for task, operators in document.get("operators", {}).items():
        shares = ", ".join(f"{entry['name']} {entry['share']:.0%}" for entry in operators[:4])
        lines += _wrapped(f"{task} spends its time in {shares or '-'}")
    return lines + [part for text in document["warnings"] for part in _wrapped(f"Warning: {text}")]


def _spreads(runs: Sequence[dict[str, Any]]) -> list[str]:
    """How far the processes that measured one batch are apart."""
    rates: dict[tuple[Any, ...], list[float]] = {}
    for run in runs:
        if run["samples_per_second"] is not None:
            key = (run["task"], run["input"], run["batch_size"])
            rates.setdefault(key, []).append(run["samples_per_second"])
    return [
        f"{task} batch {size}: {len(found)} processes, {max(found) / min(found) - 1:.1%} apart"
        for (task, _, size), found in rates.items()
        if len(found) > 1
    ]


def _of_ranks(row: dict[str, Any]) -> str:
    """What several ranks keep of their rate."""
    reduced = statistics.median(row["all_reduce_seconds"])
    return (
        f"{row['ranks']} ranks on {row['nodes']} nodes ({row['backend']}, {row['accelerator']}), "
        f"batch {row['batch_size']} each: {row['efficiency']:.1%} of {row['ranks']} times the rate "
        f"of one; an all-reduce of {row['gradient_bytes'] / 1e6:.1f} MB takes {reduced:.3g} s"
    )


def _epochs(run: dict[str, Any]) -> list[str]:
    """What a script's epochs cost beside their steps."""
    gaps, starts = run.get("gaps_seconds"), run.get("loader_start_seconds")
    if not gaps or not starts:
        return []
    return _wrapped(
        f"{len(starts)} epochs: the loader's start took {sum(starts):.1f} s, part of the rate; "
        f"{sum(gaps):.1f} s between epochs are not"
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _cells(run: dict[str, Any]) -> tuple[Any, ...]:
    rate, memory = run["samples_per_second"], run["gpu_peak_reserved_mib"]
    return (
        run["task"],
        run["precision"] or "-",
        run["input"],
        str(run["batch_size"]),
        "-" if rate is None else format_rate(rate),
        "-" if memory is None else format_mib(memory),
        run["status"].replace("_", " "),
    )
