"""Drives all loads on one endpoint, one after the other; an early end keeps the results so far."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.errors import AdvisorError, MeasuringError, Stopped, Terminated
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.measure.endpoint import records
from advisor.sweeps.measure.endpoint.anchors import SCHEMA
from advisor.sweeps.measure.endpoint.client import opened
from advisor.sweeps.measure.endpoint.driving import Driver, Opening, Prompts, opening_of
from advisor.sweeps.measure.endpoint.protocol import Address, ApiKey

_VERSIONS = ("aiohttp", "uvloop", "numpy", "vllm", "transformers", "torch", "llama-cpp-python")

Document = dict[str, Any]


def anchor_document(
    wanted: Wanted,
    session: EndpointSession,
    address: Address,
    *,
    deployment: Document,
    engine: Document,
    warnings: Sequence[str] = (),
) -> Document:
    """The anchor's document. `deployment` has the GPUs and formats of the served model, `engine` the facts
    that the user or the start of the engine gives. The server's report fills gaps, and its version wins,
    since the package installed here may be another one."""
    opening = session.opening
    assert opening is not None  # a session without one has failed before
    ended = [str(session.ended)] if session.ended else []
    return {
        "schema": SCHEMA,
        "measured_at": datetime.now(UTC).isoformat(),
        "seconds": session.seconds,
        "model": wanted.model,
        "endpoint": {
            "url": address.base,
            "route": opening.dialect.route,
            "served_model": opening.served_model,
            "forces_length": opening.dialect.forces_length,
            "counts_tokens": opening.counts_tokens,
        },
        "engine": {
            "name": engine.get("name") or opening.engine,
            "version": opening.engine_version or engine.get("version", ""),
            "command": engine.get("command", []),
            "listening_seconds": engine.get("listening_seconds"),
            "ready_seconds": engine.get("ready_seconds"),
        },
        "deployment": deployment,
        "machine": {**describe_machine(), "versions": describe_versions(*_VERSIONS)},
        "traffic": {
            "input_tokens": wanted.lengths.input_tokens,
            "output_tokens": wanted.lengths.output_tokens,
            "seed": wanted.seed,
        },
        "loads": session.figures,
        "warnings": [*warnings_of(session), *warnings, *ended],
    }


# The share of a core above which tokens wait for the generator, not for the server.
_BUSY_SHARE = 0.7
# The largest delay in recording a token, as a share of TPOT.
_LATE_SHARE = 1.0
_CACHED_SHARE = 0.05
_SHORT_SHARE = 0.9
_SEVERAL_TOKENS = 1.05
# Every load lasts at least this long.
_LEAST_SECONDS = 1.0

Progress = Callable[[str], None]


class Wanted(Struct, frozen=True, kw_only=True):
    """The settings of a session. `served_model` is the model's name on the server ("": the server's list has
    it); `patience_seconds` the longest silence; `seconds` the total time of all loads; `requests_file` gets a
    line for each request; `replicas` are further servers, over which requests are spread."""

    model: str
    served_model: str = ""
    lengths: records.Lengths
    loads: Sequence[records.Load]
    seconds: float
    patience_seconds: float = 60.0
    seed: int = 0
    requests_file: Path | None = None
    replicas: Sequence[Address] = ()


class EndpointSession(Struct):
    """The results so far. `ended` is the reason of an early end: a fault, or `Stopped`."""

    opening: Opening | None = None
    loads: list[records.DrivenLoad] = field(default_factory=list)
    seconds: float = 0.0
    ended: AdvisorError | None = None

    @property
    def figures(self) -> list[records.Figures]:
        """The figures of each load that has begun."""
        return [records.load_figures(driven) for driven in self.loads]

    def require_measured(self, model: str) -> None:
        """Raise the error that ended the session, if nothing was measured before."""
        if not any(figure["tpot_seconds"] or figure["ttft_seconds"] for figure in self.figures):
            raise self.ended or MeasuringError(
                f"no request to {model} was answered within its time",
                hint="give it more --minutes, or fewer --output-tokens",
            )


def measured(address: Address, key: ApiKey | None, wanted: Wanted, report: Progress) -> EndpointSession:
    """Drive every load; after Ctrl-C or a fault the session has the results so far."""
    session, factory, begun = EndpointSession(), None, time.monotonic()
    with suppress(ImportError):  # uvloop halves the cost of events
        import uvloop

        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_drive_all(address, key, wanted, report, session))
    except MeasuringError as error:
        session.ended = error
    except KeyboardInterrupt as error:
        code = 143 if isinstance(error, Terminated) else 130
        session.ended = Stopped("interrupted: what was measured is kept", exit_code=code)
    session.seconds = time.monotonic() - begun
    return session


async def _drive_all(
    address: Address, key: ApiKey | None, wanted: Wanted, report: Progress, session: EndpointSession
) -> None:
    prompts = Prompts(wanted.seed)
    async with opened(address, key, wanted.patience_seconds, wanted.replicas) as client:
        opening = session.opening = await opening_of(client, wanted.model, wanted.served_model, prompts)
        route = "chat completions" if opening.dialect.is_chat else "completions"
        engine = " ".join(filter(None, (opening.engine, opening.engine_version))) or "unknown engine"
        report(f"{address.base}: {opening.served_model} by {engine}, {route}")
        with (wanted.requests_file or Path(os.devnull)).open("w", encoding="utf-8", buffering=1) as lines:

            def keep(record: records.RequestRecord) -> None:
                if wanted.requests_file:
                    lines.write(json.dumps(record.row()) + "\n")

            driver = Driver(client, opening, prompts, wanted.lengths, keep)
            ends_at = client.now_seconds + wanted.seconds
            for number, load in enumerate(wanted.loads):
                left = (ends_at - client.now_seconds) / (len(wanted.loads) - number)
                driven = records.DrivenLoad(load, number, client.now_seconds)
                session.loads.append(driven)
                await driver.drive(driven, max(_LEAST_SECONDS, left))
                figures = records.load_figures(driven)
                report(f"{load}: {figures['requests']['completed']} answers, {figures['status']}")
                if driven.failed is not None:
                    session.ended = driven.failed.measuring_error(address.base)
                    return


def warnings_of(session: EndpointSession) -> list[str]:
    """Warnings about the figures of a session."""
    warnings: list[str] = []
    if session.opening and not session.opening.counts_tokens:
        warnings.append(
            "the server does not count tokens: lengths are words of prompts and pieces of answers"
        )
    for driven, figures in zip(session.loads, session.figures, strict=True):
        both = (*_generator_warnings(figures), *_answer_warnings(figures))
        warnings += [f"{driven.load}: {warning}" for warning in both]
    return warnings


def _generator_warnings(figures: records.Figures) -> Iterator[str]:
    generator, counts = figures["generator"], figures["requests"]
    if generator["busy_share"] > _BUSY_SHARE:
        share = generator["busy_share"]
        yield (
            f"this generator itself was busy for {share:.0%} of the "
            "time, so the server may be faster than measured"
        )
    late, tpot = generator["late_p99_seconds"] or 0.0, figures["tpot_seconds"]
    if tpot and late > _LATE_SHARE * tpot["mean"]:
        yield (
            f"other processes held this generator up, by {1000 * late:.0f} ms at the 99th "
            "percentile: single times are less exact than means"
        )
    if generator["is_capped"]:
        yield "requests were left out, the server falls behind at this rate"
    if counts["failed"]:
        all_requests = counts["failed"] + counts["ok"] + counts["cut"]
        faults = ", ".join(f"{count} {fault}" for fault, count in counts["faults"].items())
        yield f"{counts['failed']} of {all_requests} requests failed ({faults})"


def _answer_warnings(figures: records.Figures) -> Iterator[str]:
    given, wanted = figures["output_tokens"], figures["asked_tokens"]
    if given and given["mean"] < _SHORT_SHARE * wanted["mean"]:
        yield (
            f"answers had {given['mean']:.0f} tokens, {wanted['mean']:.0f} were asked for: "
            "the server cannot be told to go on"
        )
    if (share := figures["cached_share"] or 0.0) > _CACHED_SHARE:
        yield f"the server's cache answered {share:.0%} of the prompts' tokens; switch prefix caching off"
    if (pieces := figures["tokens_per_piece"] or 1.0) > _SEVERAL_TOKENS:
        yield f"a piece of an answer had {pieces:.2g} tokens: ITL is the time between pieces"
    if figures["status"] in ("few", "none"):
        yield f"{figures['requests']['completed']} answers are too few; give it more time"
