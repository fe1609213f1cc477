"""`advisor measure --endpoint URL`, and `--engine NAME`: a language model under a load."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from advisor.domain.generation import LlmPrecision
from advisor.domain.verification import p99_of
from advisor.errors import AdvisorError, UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.render.text import WIDTH, table
from advisor.runs.endpoint.questions import ServedModel

Document = dict[str, Any]


def served_document(
    question: ServedModel,
    *,
    model: str | None,
    precision: str | None,
    minutes: float,
    arguments: Sequence[str],
    requests_file: Path,
    on_progress: Callable[[str], None],
) -> tuple[Document, AdvisorError | None]:
    """The anchor, and what ended it early. `precision` is what the user names, None where it is
    left out."""
    from advisor.runs.endpoint.measuring import measure_served

    if not model:
        raise UsageError(
            "a language model is measured by its name",
            field="model",
            hint=Message("name it, as {field} meta-llama/Llama-3.1-8B", field=FieldName("model")),
        )
    if precision is not None and precision not in list(LlmPrecision):
        raise unknown_name("precision", precision, LlmPrecision, field="precision")
    if arguments and question.endpoint:
        raise UsageError(
            "arguments after -- go to an engine that is started",
            field="endpoint",
            hint=Message("leave them out, or name the {engine} alone", engine=FieldName("engine")),
        )
    return measure_served(
        question,
        model=model,
        precision=precision,
        minutes=minutes,
        arguments=arguments,
        requests_file=requests_file,
        on_progress=on_progress,
    )


def served_lines(document: Document) -> list[str]:
    """The anchor on a screen."""
    engine, placed = document["engine"], document["deployment"]
    name = " ".join(filter(None, (engine["name"], engine["version"]))) or "an unknown engine"
    where = f"{placed['gpus']}x {placed['gpu']}" if placed["gpu"] else "an unknown GPU"
    lines = [f"{document['model']} by {name} on {where}"]
    if engine["ready_seconds"] is not None:
        lines.append(f"ready after {engine['ready_seconds']:.1f} s")
    header = ("load", "answers", "in", "out", "tokens/s", "requests/s", "TTFT ms", "p99", "TPOT ms", "p99")
    rows = [_cells(load) for load in document["loads"]]
    lines += ["", *table(header, rows, right=tuple(range(1, len(header))))]
    lines += ["TPOT is without the first token."]
    for text in document["warnings"]:
        lines += textwrap.wrap(f"Warning: {text}", WIDTH, subsequent_indent="  ")
    return lines


def _cells(load: Document) -> tuple[str, ...]:
    rate = load["requests_per_second_wanted"]
    name = f"{load['concurrency']} in flight" if rate is None else f"{rate:g}/s (Poisson)"
    return (
        name,
        str(load["requests"]["completed"]),
        _figure(load["input_tokens"]),
        _figure(load["output_tokens"]),
        _figure(load["output_tokens_per_second"]),
        _figure(load["requests_per_second"]),
        _figure(load["ttft_seconds"], 1000),
        _p99_ms(load["ttft_seconds"]),
        _figure(load["tpot_seconds"], 1000),
        _p99_ms(load["tpot_seconds"]),
    )


def _figure(figure: Document | None, factor: float = 1.0) -> str:
    return "-" if figure is None else f"{factor * figure['mean']:.4g}"


def _p99_ms(figure: Document | None) -> str:
    seconds = p99_of(figure)
    return "-" if seconds is None else f"{1000 * seconds:.4g}"
