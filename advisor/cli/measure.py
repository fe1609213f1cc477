"""`advisor measure`: measures a network, a user's script or a served language model for two minutes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from advisor.cli.printing import tell
from advisor.cli.questions import SectionedCommand, output_option, question_options
from advisor.domain import MEASURABLE_PRECISIONS, Precision, Task
from advisor.domain.verification import p99_of
from advisor.domain.words import LlmPrecision
from advisor.errors import AdvisorError, DataError, UsageError, unknown_name
from advisor.files import require_writable, write_whole
from advisor.messages import FieldName, Message, format_mib, format_rate, format_usd
from advisor.questions.fields import Choice, Flag, Kind, Number, Place
from advisor.questions.question import Question, ask
from advisor.questions.ranks import Ranks
from advisor.render.text import folded, table
from advisor.runs.endpoint.questions import ServedModel
from advisor.runs.measuring_script import measure_script

_hanging = partial(folded, indent=2)
_TASKS = (Task.INFERENCE, Task.TRAINING)
_PRECISIONS = tuple(dict.fromkeys([*map(str, MEASURABLE_PRECISIONS), *map(str, LlmPrecision)]))


class Measuring(Question):
    """The question of `advisor measure`; of a network or script unless a language model is served."""

    model: str | None = ask(
        "A network of `advisor networks`, or file.py:build; of a language model its name.", Kind()
    )
    task: str | None = ask("", Choice("task", _TASKS), "inference and training")
    precision: str | None = ask(
        "Of a network fp32, amp or bf16  [default: fp32]; of a language model its weights'.",
        Choice("precision", _PRECISIONS),
    )
    data: str | None = ask("Folder of JPEG files; adds a run with the loader.", Place())
    minutes: float = ask("", Number(most=60.0), default=2.0)
    runs: int | None = ask(
        "Fresh processes: of a network's best batch (default: 3, if the minutes allow), or of the "
        "whole script (default: 1).",
        Number(whole=True, most=9),
    )
    profile: bool | None = ask(
        "The table of operations, from torch's profiler after the counted steps.", Flag(), "profile"
    )


@click.command(cls=SectionedCommand)
@question_options(Measuring)
@click.option("--out", type=click.Path(path_type=Path), help="[default: anchor-NAME.json]")
@output_option
@question_options(Ranks, "together")
@question_options(ServedModel, "served")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def measure(
    question: Measuring,
    together: Ranks,
    served: ServedModel,
    command: tuple[str, ...],
    out: Path | None,
    output: str,
) -> None:
    """Measure a network or your own training script on this machine, or a language model that is
    served.

    Writes one small file for `recommend --anchor` (docs/how-to/measuring.md). In a script, wrap the
    loader: `from advisor.sweeps.hook import steps`, then `for batch in steps(loader):`; without that
    its processes are sampled: what binds, and which instance it needs. The script is ended once it is
    measured. A language model is put under a load: at its --endpoint, or by an --engine that is
    started for that.

    \b
    advisor measure --model resnet50
    advisor measure --model net.py:build --task training --data photos/ --minutes 1
    advisor measure -- python train.py --epochs 1
    advisor measure --model resnet50 --precision amp --ranks 8
    advisor measure --endpoint http://localhost:8000 --model meta-llama/Llama-3.1-8B --gpu L4
    advisor measure --engine vllm --model meta-llama/Llama-3.1-8B -- --max-num-seqs 64
    """
    if not served.is_served and bool(question.model) == bool(command):
        raise UsageError(
            "either a network or a script is measured",
            field="model",
            hint="name --model, or a script's command after --",
        )
    name = Path((question.model or "script").partition(".py")[0]).name
    file = out or Path(f"anchor-{name}.json")
    require_writable(file)  # before spending two minutes on measuring
    show, ended = _screen, None
    if served.is_served:
        _refuse_options_of_networks(question.task, question.data, None)
        # Requests are saved next to the anchor, or in the current folder if the anchor is no regular file.
        requests = file.with_name(f"{file.stem}.requests.jsonl")
        requests = requests if file.is_file() or not file.exists() else Path(requests.name)
        document, ended = _served(served, question, command, requests)
        show = _served_screen
    else:
        document = _timed(question, together, command)
    click.echo(json.dumps(document) if output == "json" else "\n".join(show(document)))
    _write(file, document, is_shown=output == "json")
    if ended is not None:
        raise ended


def _timed(question: Measuring, together: Ranks, command: Sequence[str]) -> dict[str, Any]:
    if together.ranks is not None:
        return _scaling(question, together)
    if question.model:
        return _network(question, question.model)
    _refuse_options_of_networks(question.task, question.data, question.precision)
    return measure_script(
        command,
        minutes=question.minutes,
        runs=question.runs or 1,
        profile=question.profile is not False,
        on_progress=tell,
    )


def _write(file: Path, document: dict[str, Any], *, is_shown: bool) -> None:
    """Write the document to its file; if that fails, print it to stdout and raise `DataError`."""
    try:
        write_whole(file, json.dumps(document, indent=1) + "\n")
    except DataError as error:
        if not is_shown:
            click.echo(json.dumps(document))
        hint = "what was measured is the JSON on stdout: save that as the file"
        raise DataError(error.message, hint=hint) from error
    tell(f"written to {file}")


def _refuse_options_of_networks(task: str | None, data: str | None, precision: str | None) -> None:
    if task or data or precision:
        raise UsageError(
            "--task, --precision and --data go with a network",
            field="task",
            hint="leave them out: a script brings its own",
        )


def _served(
    served: ServedModel, question: Measuring, arguments: Sequence[str], requests: Path
) -> tuple[dict[str, Any], AdvisorError | None]:
    from advisor.runs.endpoint.measuring import measure_served

    model, precision = question.model, question.precision
    if not model:
        raise UsageError(
            "a language model is measured by its name",
            field="model",
            hint=Message("name it, as {field} meta-llama/Llama-3.1-8B", field=FieldName("model")),
        )
    if precision is not None and precision not in list(LlmPrecision):
        raise unknown_name("precision", precision, LlmPrecision, field="precision")
    if arguments and served.endpoint:
        raise UsageError(
            "arguments after -- go to an engine that is started",
            field="endpoint",
            hint="leave them out, or name the --engine alone",
        )
    return measure_served(
        served,
        model=model,
        precision=precision,
        minutes=question.minutes,
        arguments=arguments,
        requests_file=requests,
        on_progress=tell,
    )


def _network(question: Measuring, model: str) -> dict[str, Any]:
    from advisor.answers.measuring import measure_reference

    data = question.data
    if data is not None and not Path(data).is_dir():
        raise UsageError(f"no folder '{data}'", field="data", hint="name a folder of JPEG files")
    return measure_reference(
        model,
        minutes=question.minutes,
        tasks=(Task(question.task),) if question.task else _TASKS,
        precision=_precision(question),
        data=None if data is None else Path(data),
        runs=question.runs,
        profile=question.profile is not False,
        on_progress=tell,
    )


def _precision(question: Measuring) -> Precision:
    precision = question.precision or "fp32"
    if precision not in list(MEASURABLE_PRECISIONS):
        raise unknown_name("precision", precision, MEASURABLE_PRECISIONS, field="precision")
    return Precision(precision)


def _scaling(question: Measuring, together: Ranks) -> dict[str, Any]:
    from advisor.answers.measuring import measure_ranks

    if not question.model or question.task not in (None, Task.TRAINING) or question.data:
        raise UsageError(
            "--ranks measures the training of a network",
            field="ranks",
            hint="name it with --model, and leave out --data; of a script, start it by torchrun",
        )
    precision, minutes = _precision(question), question.minutes
    return measure_ranks(question.model, together, precision=precision, minutes=minutes, on_progress=tell)


def _screen(document: dict[str, Any]) -> list[str]:
    device, what = document["device"], document["what"]
    name = what.get("name") or " ".join(what["command"])
    where = device["gpu"] or f"CPU, {document['machine']['cpu_model']}"
    header = ("task", "precision", "input", "batch", f"{what['unit']}s/s", "GPU memory", "status")
    repeats: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in document["runs"]:
        key = (run["task"], run["precision"] or "-", run["input"], str(run["batch_size"]))
        repeats.setdefault((*key, run["status"].replace("_", " ")), []).append(run)
    rows = []
    for (*of, status), runs in repeats.items():
        memory = [run["gpu_peak_reserved_mib"] for run in runs if run["gpu_peak_reserved_mib"] is not None]
        rows.append((*of, _rates_text(runs), format_mib(max(memory)) if memory else "-", status))
    lines = [f"{name} on {where}", ""]
    lines += table(header, rows, right=(3, 4, 5)) if rows else []
    for row in document.get("scaling", ()):
        reduced = statistics.median(row["all_reduce_seconds"])
        lines += _hanging(
            f"{row['ranks']} ranks on {row['nodes']} nodes ({row['backend']}, {row['accelerator']}), "
            f"batch {row['batch_size']} each: {row['efficiency']:.1%} of {row['ranks']} times the rate "
            f"of one; an all-reduce of {row['gradient_bytes'] / 1e6:.1f} MB takes {reduced:.3g} s"
        )
    lines += _usage_lines(document["usage"]) if "usage" in document else []
    for task, operators in document.get("operators", {}).items():
        shares = ", ".join(f"{entry['name']} {entry['share']:.0%}" for entry in operators[:4])
        lines += _hanging(f"{task} spends its time in {shares or '-'}")
    return lines + _warnings(document)


def _rates_text(runs: Sequence[dict[str, Any]]) -> str:
    """'0.294 (3 runs: 0.11 to 0.391)': the median rate of runs with the same settings, and its spread."""
    rates = sorted(run["samples_per_second"] for run in runs if run["samples_per_second"] is not None)
    if len(rates) < 2:
        return format_rate(rates[0]) if rates else "-"
    low, middle, high = map(format_rate, (rates[0], statistics.median(rates), rates[-1]))
    return f"{middle} ({len(rates)} runs: {low} to {high})"


_BUSY_CORES = 0.1
_BOUND = {
    "gpu": "its GPU binds: a faster one makes it faster",
    "cpu": "the CPUs bind: more of them make it faster",
    "memory": "the memory of this machine is full",
    "disk": "it waits for the disk: a faster one, or RAM for the data set, makes it faster",
    "one_process": "one process computes all the time: faster cores help, more of them do not",
    "nothing_sampled": "neither CPU, GPU, memory nor disk binds: it sleeps, or waits for a network or a lock",
}


def _usage_lines(usage: dict[str, Any]) -> list[str]:
    """Lines on what the script used in its steady part, its bottleneck, and instances that suffice."""
    needs, rate = usage["needs"], usage["samples_per_second"]
    rows = [
        ("CPUs", f"{usage['cores']:.2f}", f"{usage['cores_here']:g}"),
        ("CPUs, by others", f"{usage['other_cores']:.2f}", "-"),
        ("memory", format_mib(usage["memory_mib"]), format_mib(usage["memory_mib_here"])),
        ("disk, read", f"{usage['disk_read_mib_per_second']:.3g} MiB/s", "-"),
        ("read in all", f"{usage['read_mib_per_second']:.3g} MiB/s", "-"),
        *(
            (f"GPU {gpu['uuid'][:12]}", f"{gpu['utilization_percent']:.0f} %", "100 %")
            for gpu in usage["gpus"]
        ),
    ]
    steady = "steady" if usage["is_steady"] else "not steady yet, the last half"
    lines = [f"{usage['seconds']:.0f} s, {steady}:", *table(("", "used", "here"), rows, right=(1, 2))]
    lines += _hanging(_BOUND[usage["bound_by"]])
    if min(usage["waited_cores"], usage["other_cores"]) > _BUSY_CORES:
        lines += _hanging(
            "Warning: others had CPUs that it waited for; measure again when the machine is quiet"
        )
    gpus = f", {needs['gpus']} GPU with {format_mib(needs['gpu_memory_mib'])}" if needs["gpus"] else ""
    same = "the same rate" if rate is None else f"{format_rate(rate)} samples/s"
    lines += _hanging(
        f"{same} needs {needs['vcpus']} vCPUs like these, {format_mib(needs['memory_mib'])} beside the page "
        f"cache, {needs['disk_mib_per_second']:.3g} MiB/s of disk{gpus}"
    )
    names = [f"{each['instance']} ({format_usd(each['usd_per_hour'])}/h)" for each in usage["instances"]]
    return lines + _hanging(f"on AWS: {', '.join(names) or 'no instance has that'}")


def _warnings(document: dict[str, Any]) -> list[str]:
    return [part for text in document["warnings"] for part in _hanging(f"Warning: {text}")]


def _served_screen(document: dict[str, Any]) -> list[str]:
    engine, placed = document["engine"], document["deployment"]
    name = " ".join(filter(None, (engine["name"], engine["version"]))) or "an unknown engine"
    where = f"{placed['gpus']}x {placed['gpu']}" if placed["gpu"] else "an unknown GPU"
    lines = [f"{document['model']} by {name} on {where}"]
    if engine["ready_seconds"] is not None:
        lines.append(f"ready after {engine['ready_seconds']:.1f} s")
    header = ("load", "answers", "in", "out", "tokens/s", "requests/s", "TTFT ms", "p99", "TPOT ms", "p99")
    rows = [_load_cells(load) for load in document["loads"]]
    lines += ["", *table(header, rows, right=tuple(range(1, len(header))))]
    lines += ["TPOT is without the first token."]
    return lines + _warnings(document)


def _load_cells(load: dict[str, Any]) -> tuple[str, ...]:
    rate = load["requests_per_second_wanted"]
    name = f"{load['concurrency']} in flight" if rate is None else f"{rate:g}/s (Poisson)"
    counts = ("input_tokens", "output_tokens", "output_tokens_per_second", "requests_per_second")
    times = [load[key] for key in ("ttft_seconds", "tpot_seconds")]
    in_ms = [cell for figure in times for cell in (_figure(figure, 1000), _p99_ms(figure))]
    return name, str(load["requests"]["completed"]), *(_figure(load[key]) for key in counts), *in_ms


def _figure(figure: dict[str, Any] | None, factor: float = 1.0) -> str:
    return "-" if figure is None else f"{factor * figure['mean']:.4g}"


def _p99_ms(figure: dict[str, Any] | None) -> str:
    seconds = p99_of(figure)
    return "-" if seconds is None else f"{1000 * seconds:.4g}"
