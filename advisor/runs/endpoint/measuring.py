"""Measures a served language model, and first starts its engine if the question names one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, MeasuringError
from advisor.runs.endpoint.questions import USUAL_CONCURRENCY, ServedModel
from advisor.sweeps.machine.gpu import driver_gpus
from advisor.sweeps.measure.endpoint.engines import (
    EngineSettings,
    EngineStart,
    StartedEngine,
    engine_command,
    free_ports,
    running_engines,
)
from advisor.sweeps.measure.endpoint.protocol import Address, address_of, api_key
from advisor.sweeps.measure.endpoint.records import Lengths, Load
from advisor.sweeps.measure.endpoint.session import Wanted, anchor_document, measured

# Includes the time to download weights and capture CUDA graphs.
_SECONDS_TO_BE_READY = 3600.0
# Lengths are drawn around their mean, so some are longer; a chat template adds tokens.
_CONTEXT_MARGIN, _TEMPLATE_TOKENS = 1.2, 64
_SEED = 1

Progress = Callable[[str], None]
Document = dict[str, Any]


def measure_served(
    question: ServedModel,
    *,
    model: str,
    precision: str | None,
    minutes: float,
    on_progress: Progress,
    arguments: Sequence[str] = (),
    requests_file: Path | None = None,
) -> tuple[Document, AdvisorError | None]:
    """The anchor of a model at an endpoint or in a started engine, and the error that ended the load early,
    if any (raised if nothing was measured). `requests_file` gets a line for each request as it ends."""
    key = api_key(question.api_key_file, os.environ)
    with _served(question, model, precision, arguments, on_progress) as (addresses, engine):
        address, *replicas = addresses
        wanted = Wanted(
            model=model,
            served_model=question.served_model or (engine.get("model") or ""),
            lengths=Lengths(question.input_tokens, question.output_tokens),
            loads=loads_of(question),
            seconds=60 * minutes,
            seed=_SEED,
            requests_file=requests_file,
            replicas=replicas,
        )
        session = measured(address, key, wanted, on_progress)
        if isinstance(session.ended, MeasuringError) and engine.get("last_words"):
            on_progress(f"the engine's last words: {engine['last_words']()}")
    session.require_measured(model)
    in_clear = key is not None and not (address.is_encrypted or address.is_loopback)
    warnings = ["the key went over a connection that is not encrypted: take https"] if in_clear else []
    deployment = _deployment(question, precision, driver_gpus() if address.is_loopback else [])
    document = anchor_document(
        wanted, session, address, deployment=deployment, engine=engine, warnings=warnings
    )
    return document, session.ended


def _deployment(question: ServedModel, precision: str | None, here: Sequence[Document]) -> Document:
    """The hardware that serves the model; on this machine the driver's facts complete the user's."""
    names = sorted({str(facts["name"]) for facts in here})
    name = question.gpu or (names[0] if len(names) == 1 else None)
    count = question.gpus or (question.tensor_parallel if question.gpu else None) or (1 if name else 0)
    return {
        "gpu": name,
        "gpus": count,
        "tensor_parallel": question.tensor_parallel or max(1, count),
        "link": question.link,
        "precision": precision,
        "kv_precision": question.kv_precision and str(question.kv_precision),
        "gpu_facts": list(here),
    }


def loads_of(question: ServedModel) -> list[Load]:
    """The loads: closed loops first, then Poisson rates, each from the lightest to the heaviest."""
    usual = () if question.rate else USUAL_CONCURRENCY
    return [
        *(Load(concurrency=int(count)) for count in sorted(question.concurrency or usual)),
        *(Load(requests_per_second=rate) for rate in sorted(question.rate)),
    ]


@contextmanager
def _served(
    question: ServedModel, model: str, precision: str | None, arguments: Sequence[str], on_progress: Progress
) -> Iterator[tuple[list[Address], Document]]:
    if question.endpoint:
        yield [address_of(question.endpoint)], {"name": question.engine}
        return
    engine = StartedEngine(question.engine or "")
    starts = _starts(engine, question, model, precision, arguments)
    with running_engines(starts, patience_seconds=_SECONDS_TO_BE_READY, report=on_progress) as running:
        yield (
            [address_of(server.url) for server in running],
            {
                "name": engine.value,
                "version": engine.version,
                "model": question.served_model or model,
                "command": list(running[0].command),
                "listening_seconds": max(server.listening_seconds for server in running),
                "ready_seconds": max(server.ready_seconds for server in running),
                "last_words": lambda: " | ".join(server.last_words() for server in running),
            },
        )


def _starts(
    engine: StartedEngine, question: ServedModel, model: str, precision: str | None, arguments: Sequence[str]
) -> list[EngineStart]:
    degree = question.tensor_parallel or question.gpus or 1
    replicas = (question.gpus or degree) // degree
    context = _CONTEXT_MARGIN * (question.input_tokens + question.output_tokens) + _TEMPLATE_TOKENS
    most = max((load.concurrency or 64) for load in loads_of(question))
    starts = []
    for replica, port in enumerate(free_ports(replicas)):
        settings = EngineSettings(
            model=question.served_model or model,
            port=port,
            sequences=math.ceil(most / replicas),
            context_tokens=round(context),
            precision=precision,
            kv_precision=question.kv_precision,
            tensor_parallel=degree,
            arguments=arguments,
        )
        gpus = ",".join(str(replica * degree + index) for index in range(degree))
        starts.append(EngineStart(engine_command(engine, settings), port, gpus if replicas > 1 else ""))
    return starts
