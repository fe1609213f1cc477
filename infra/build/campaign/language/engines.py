"""How a cell is measured: by vLLM's server under a closed loop, or by plain transformers."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from advisor.errors import MeasuringError
from advisor.infra.build.campaign.language.cells import VLLM, Cell, Grid, Server
from advisor.infra.build.campaign.language.shapes import write_model_folder
from advisor.infra.build.campaign.records import Row
from advisor.sweeps.measure.endpoint.address import address_of
from advisor.sweeps.measure.endpoint.engines import (
    EngineSettings,
    EngineStart,
    StartedEngine,
    engine_command,
    engine_version,
    free_ports,
    running_engines,
)
from advisor.sweeps.measure.endpoint.records import Lengths, Load, standard_error
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, started_worker

_WORKER = (sys.executable, "-P", "-m", "advisor.infra.build.campaign.language.worker")
# Loading and making weights; a cell that takes so much longer than usual hangs.
_PATIENCE_SECONDS = 300.0

Report = Callable[[str], None]


class Measures(Protocol):
    """What is loaded, and answers cells."""

    facts: Row

    def row(self, cell: Cell, seconds: float) -> Row:
        """The cell's figures and status; `MeasuringError` where it cannot go on."""


@contextmanager
def started(server: Server, grid: Grid, device: str, report: Report) -> Iterator[Measures]:
    """The server, loaded with random weights; gone on leaving."""
    opened = _vllm if server.engine == VLLM else _transformers
    with opened(server, grid, device, report) as measures:
        yield measures


class _Endpoint:
    """vLLM's server, under a closed loop for each cell."""

    def __init__(self, url: str, model: str, facts: Row) -> None:
        self._address = address_of(url)
        self._model = model
        self.facts = facts

    def row(self, cell: Cell, seconds: float) -> Row:
        """Means and standard errors, with all of the load's figures."""
        # Needs the extra `endpoint`, and plain transformers does not.
        from advisor.sweeps.measure.endpoint.session import Wanted, measured

        wanted = Wanted(
            model=self._model,
            lengths=Lengths(cell.input_tokens, cell.output_tokens),
            loads=[Load(cell.concurrency)],
            seconds=seconds,
            patience_seconds=_PATIENCE_SECONDS,
            seed=cell.concurrency,
        )
        session = measured(self._address, None, wanted, lambda _line: None)
        if session.ended is not None:
            raise session.ended
        (figures,) = session.figures
        return {"kind": "closed", "status": figures["status"], **_means(figures), "load": figures}


def _means(figures: Row) -> Row:
    names = ("ttft_seconds", "tpot_seconds", "output_tokens_per_second")
    found: Row = {}
    for name in names:
        figure = figures[name] or {"mean": None, "standard_error": None}
        found[name] = figure["mean"]
        found[f"{name}_error"] = figure["standard_error"]
    return found


@contextmanager
def _vllm(server: Server, grid: Grid, device: str, report: Report) -> Iterator[Measures]:
    del device  # vLLM knows its own
    longest = max(sum(pair) for pair in grid.lengths)
    with tempfile.TemporaryDirectory(prefix="advisor-shape-") as folder:
        model = write_model_folder(grid.shapes[server.model], Path(folder) / "model")
        port = free_ports(1)[0]
        eager = () if server.graphs else ("--enforce-eager",)
        settings = EngineSettings(
            model=str(model),
            port=port,
            sequences=max(grid.concurrency),
            context_tokens=longest,
            precision=server.precision,
            arguments=(
                "--load-format",
                "dummy",
                "--max-num-seqs",
                str(max(grid.concurrency)),
                "--max-model-len",
                str(round(1.2 * longest)),
                *eager,
            ),
        )
        command = engine_command(StartedEngine.VLLM, settings)
        starts, patience = [EngineStart(command, port)], _PATIENCE_SECONDS
        with running_engines(starts, patience_seconds=patience, report=report) as (running,):
            facts = {
                "engine_version": engine_version(StartedEngine.VLLM),
                "ready_seconds": running.ready_seconds,
            }
            yield _Endpoint(running.url, str(model), facts)


class _Batches:
    """The worker of plain transformers."""

    def __init__(self, receive: Callable[[float], Any], send: Callable[[Any], None]) -> None:
        self._receive = receive
        self._send = send
        self.facts: Row = {}

    def load(self, job: Row) -> None:
        """Make the weights."""
        begun = time.monotonic()
        self._send(job)
        answer = self._receive(_PATIENCE_SECONDS)
        self.facts = {**answer["ready"], "ready_seconds": time.monotonic() - begun}

    def row(self, cell: Cell, seconds: float) -> Row:
        """Means and standard errors, with the raw seconds."""
        self._send({**cell.row(), "seconds": seconds})
        answer: Row = self._receive(seconds + _PATIENCE_SECONDS)
        if answer["status"] != "ok":
            return {"kind": "static", **answer}
        prompts, steps = answer["prompt_seconds"], answer["step_seconds"]
        ttft, tpot = statistics.fmean(prompts), statistics.fmean(steps)
        whole = ttft + tpot * (cell.output_tokens - 1)
        return {
            "kind": "static",
            "ttft_seconds": ttft,
            "ttft_seconds_error": standard_error(prompts),
            "tpot_seconds": tpot,
            "tpot_seconds_error": standard_error(steps),
            "output_tokens_per_second": cell.concurrency * cell.output_tokens / whole,
            **answer,
        }


@contextmanager
def _transformers(server: Server, grid: Grid, device: str, report: Report) -> Iterator[Measures]:
    with started_worker(_WORKER) as worker:

        def receive(patience_seconds: float) -> Any:
            try:
                return worker.receive(time.monotonic() + patience_seconds)
            except WorkerLate as error:
                raise MeasuringError(f"no answer within {patience_seconds:g} s") from error
            except WorkerEnded as error:
                raise MeasuringError(worker.last_output()) from error

        batches = _Batches(receive, worker.send)
        report(f"making {server.model} of random weights")
        config = dict(grid.shapes[server.model])
        batches.load({"config": config, "device": device, "graphs": server.graphs})
        yield batches
