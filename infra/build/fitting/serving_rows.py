"""From committed rows of measurements to the values that a fit reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from advisor.errors import UsageError
from advisor.models.language.configs import LanguageModels
from advisor.models.language.deployments import Deployment, GpuFacts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving.effects import Setting, minor_version
from advisor.models.language.serving.rates import sequences_held
from advisor.models.language.serving.values import MeasuredValue

_SHORTEST_OUTPUT = 8
# Requests a second beyond which runs of a few hundred requests are a start and an end.
_MOST_OFFERED = 8.0


def rows_of(
    records: Iterable[Any], models: LanguageModels, gpus: Mapping[str, GpuFacts]
) -> list[MeasuredValue]:
    """The values of records (rows with the columns of `infra/build/language_sources/SOURCES.md`) that the
    form covers: NVIDIA's GPUs, models that are known, one
    replica by tensor parallelism alone, sequences that memory holds at once."""
    values: list[MeasuredValue] = []
    for record in records:
        gpu = gpus.get(record.gpu)
        if gpu and gpu.compute_capability and record.gpus == record.tensor_parallel:
            with suppress(UsageError):
                values += _values(record, models.find(record.model), gpu)
    return values


def version_of(record: Any) -> str:
    """The minor version of a record's engine, or the year of a run that does not name one."""
    return minor_version(record.engine_version) or f"of {record.date[:4]}"


def _values(record: Any, model: LanguageModel, gpu: GpuFacts) -> Iterator[MeasuredValue]:
    deployment = Deployment(
        model,
        record.precision,
        record.kv_precision,
        record.engine,
        gpu,
        record.tensor_parallel,
        record.link,
        version_of(record),
    )
    waves = "equal-lengths" in record.flags.split()
    load = record.kind if record.kind != "closed" else "waves" if waves else ""
    length = record.input_tokens + record.output_tokens
    setting = Setting(deployment, record.source, "eager" in record.flags.split(), load)
    # A static batch ends together, when every sequence has its whole length.
    kept = (length, 0.0) if load == "static" else (record.input_tokens, record.output_tokens)
    held = float(sequences_held([deployment], *np.array(kept)[:, None])[0])

    def row(quantity: str, sequences: float, seconds: float) -> MeasuredValue:
        arrivals = record.requests_per_second if quantity == "arriving" else 0.0
        return MeasuredValue(
            setting, quantity, sequences, record.input_tokens, record.output_tokens, seconds, arrivals
        )

    if record.kind == "maximum":
        if held >= 1:
            most = record.concurrency if record.concurrency > 0 else held
            yield row("saturated", min(held, most), 1 / record.output_tokens_per_second)
    elif record.kind == "open":
        yield from _at_a_rate(record, held, row)
    elif record.concurrency <= held:
        yield from _timed(record, row)


def _timed(record: Any, value: Callable[[str, float, float], MeasuredValue]) -> Iterator[MeasuredValue]:
    """The values of a closed loop or of a static batch."""
    batch, output = record.concurrency, record.output_tokens
    each, first, rate = (record.tpot_seconds, record.ttft_seconds, record.output_tokens_per_second)
    if record.kind == "closed":
        streamed = not math.isnan(first) and "not-streamed" not in record.flags
        if not math.isnan(each):
            yield value("each_token", batch, each)
        if streamed:
            yield value("first_token", batch, first)
        if streamed and not math.isnan(each):
            yield value("rate", batch, (first + (output - 1) * each) / (batch * output))
    elif record.kind == "static" and output >= _SHORTEST_OUTPUT and not math.isnan(rate):
        yield value("batch", batch, batch * output / rate)


def _at_a_rate(
    record: Any, held: float, value: Callable[[str, float, float], MeasuredValue]
) -> Iterator[MeasuredValue]:
    """The times of a token and of the first one at the sequences that were in their steps by
    Little's law, where few requests came: runs are too short to settle where many do."""
    each, rate = record.tpot_seconds, record.requests_per_second
    if record.requests_per_second_offered <= _MOST_OFFERED and not math.isnan(each * rate):
        sequences = 1 + rate * record.output_tokens * each
        if sequences <= held:
            yield value("each_token", sequences, each)
            if record.ttft_seconds > 0:
                yield value("arriving", sequences, record.ttft_seconds)
