"""One run of the campaign: each server in order, with those of its cells that have no row in the file yet."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from advisor.errors import MeasuringError, one_line
from advisor.infra.build.campaign.language.cells import (
    SHAPES,
    TINY_SHAPES,
    TRANSFORMERS,
    VLLM,
    Cell,
    Grid,
    Server,
    cells,
    full_grid,
    missing,
    quick_grid,
    servers,
    write_model_folder,
)
from advisor.infra.build.campaign.records import Records, Row
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.gpu import NO_NVML, GpuSampler, gpus
from advisor.sweeps.measure.endpoint.engines import (
    EngineSettings,
    EngineStart,
    StartedEngine,
    engine_command,
    free_ports,
    running_engines,
)
from advisor.sweeps.measure.endpoint.protocol import address_of
from advisor.sweeps.measure.endpoint.records import Lengths, Load, standard_error
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, started_worker

_WORKER = (sys.executable, "-P", "-m", "advisor.infra.build.campaign.language.worker")
# Time for loading the model and making weights; a cell that exceeds its usual time by this much hangs.
_PATIENCE_SECONDS = 300.0

Report = Callable[[str], None]


class Measures(Protocol):
    """A loaded server that can measure cells."""

    facts: Row

    def row(self, cell: Cell, seconds: float) -> Row:
        """The cell's figures and status; `MeasuringError` if the server cannot go on."""


@contextmanager
def started(server: Server, grid: Grid, device: str, report: Report) -> Iterator[Measures]:
    """Context manager: start the server with random weights, and stop it on exit."""
    opened = _vllm if server.engine == VLLM else _transformers
    with opened(server, grid, device, report) as measures:
        yield measures


class _Endpoint:
    """vLLM's server, measured under a closed loop for each cell."""

    def __init__(self, url: str, model: str, facts: Row) -> None:
        self._address = address_of(url)
        self._model = model
        self.facts = facts

    def row(self, cell: Cell, seconds: float) -> Row:
        """Means and standard errors of a cell, with all figures of the load generator."""
        # Imported here: only vLLM needs the extra `endpoint`.
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
    del device  # vLLM chooses its device
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
            facts = {"engine_version": StartedEngine.VLLM.version, "ready_seconds": running.ready_seconds}
            yield _Endpoint(running.url, str(model), facts)


class _Batches:
    """The worker process of plain transformers."""

    def __init__(self, receive: Callable[[float], Any], send: Callable[[Any], None]) -> None:
        self._receive = receive
        self._send = send
        self.facts: Row = {}

    def load(self, job: Row) -> None:
        """Build the model with random weights."""
        begun = time.monotonic()
        self._send(job)
        answer = self._receive(_PATIENCE_SECONDS)
        self.facts = {**answer["ready"], "ready_seconds": time.monotonic() - begun}

    def row(self, cell: Cell, seconds: float) -> Row:
        """Means and standard errors of a cell, with the raw seconds."""
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


SCHEMA = "advisor.language_row/1"
_VERSIONS = ("torch", "transformers", "vllm", "numpy")
# After this many faults without a row between them, a server's other cells wait for another run.
_MOST_FAULTS = 2
_SHOWN = 300


class LanguageCampaign(Struct, kw_only=True):
    """The settings shared by all cells. Nothing is started that would not end before `ends_at`, a
    time.monotonic() value."""

    grid: Grid
    device: str
    rows: Records[Row]
    ends_at: float
    report: Callable[[str], None]
    measured: int = 0
    environment: Row = field(default_factory=dict)

    def run(self, servers: list[Server]) -> bool:
        """Measure the missing cells of each server; returns whether all are done."""
        self.environment = _environment()
        done = [self._server_is_done(server) for server in servers]  # a list, so that all of them run
        return all(done)

    def _server_is_done(self, server: Server) -> bool:
        """Measure one server's missing cells; returns whether all are done. A fault loses a cell and restarts
        the server; after two faults without a row between them, the remaining cells wait for another run."""
        faults = 0
        while left := self._missing(server):
            if self._seconds_left < self.grid.start_seconds + self.grid.cell_seconds:
                return False
            before = self.measured
            try:
                with started(server, self.grid, self.device, self.report) as measures:
                    self._all_cells(measures, server)
            except MeasuringError as error:
                faults = faults + 1 if self.measured == before else 1
                self._note_fault(left[0] if self.measured == before else None, server, error)
                if faults >= _MOST_FAULTS:
                    return False
            else:
                return not self._missing(server)
        return True

    def _all_cells(self, measures: Measures, server: Server) -> None:
        while (left := self._missing(server)) and self._seconds_left > 2 * self.grid.cell_seconds:
            cell = left[0]
            uuid = next((one["uuid"] for one in self.environment["gpus"]), None)
            with GpuSampler(uuid) as sampler:
                try:
                    row = measures.row(cell, self.grid.cell_seconds)
                except MeasuringError as error:
                    self._keep(cell, {"status": "failed", "reason": _reason(error)}, {}, {})
                    raise
            self._keep(cell, row, measures.facts, sampler.environment)

    def _note_fault(self, cell: Cell | None, server: Server, error: MeasuringError) -> None:
        """Record a fault; one that occurs before any cell was tried is recorded for the first cell."""
        self.report(f"{server.model} {server.precision}: {_reason(error)}")
        if cell is not None and cell.key not in self.rows.done:
            self._keep(cell, {"status": "failed", "reason": _reason(error)}, {}, {})

    def _keep(self, cell: Cell, row: Row, facts: Row, sampled: Row) -> None:
        whole = {
            "schema": SCHEMA,
            "cell": cell.key,
            "measured_at": datetime.now(UTC).isoformat(),
            **cell.row(),
            **facts,
            "reason": "",
            **row,
            "environment": {**self.environment, **sampled},
        }
        self.rows.append(whole)
        self.measured += 1
        self.report(f"{cell.key}: {_line(whole)}")

    def _missing(self, server: Server) -> list[Cell]:
        return missing(cells(server, self.grid), self.rows.done)

    @property
    def _seconds_left(self) -> float:
        return self.ends_at - time.monotonic()


def language_records(path: Path) -> Records[Row]:
    """Read the rows of a file, by cell key."""
    return Records(path, lambda row: str(row["cell"]), lambda row: {**row, "status": row["status"]})


def _environment() -> Row:
    try:
        found = gpus()
    except MeasuringError:
        found = []
    return {"gpus": found, "machine": describe_machine(), "versions": describe_versions(*_VERSIONS)}


def _reason(error: MeasuringError) -> str:
    return one_line(str(error))[:_SHOWN]


def _line(row: Row) -> str:
    if not row.get("tpot_seconds"):
        return f"{row['status']} {row['reason']}".rstrip()
    ttft, tpot = 1000 * row["ttft_seconds"], 1000 * row["tpot_seconds"]
    rate = row["output_tokens_per_second"]
    return f"{rate:.4g} tokens/s, TTFT {ttft:.4g} ms, TPOT {tpot:.4g} ms"


# GPUs compute in fp8 natively from Ada on.
_FP8_CAPABILITY = 8.9


def add_options(parser: argparse.ArgumentParser, minutes: Callable[[str], float]) -> None:
    """Add this campaign's command-line options."""
    parser.add_argument(
        "--out", type=Path, default=Path("campaign-language.jsonl"), help="a JSONL file that is gone on with"
    )
    parser.add_argument("--minutes", type=minutes, default=9.0, help="nothing begins later (9)")
    parser.add_argument("--engine", choices=(VLLM, TRANSFORMERS), help="default: vllm where it is installed")
    parser.add_argument("--models", help=f"of {', '.join(SHAPES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="shapes of a few layers on any device: a trial")


def run_language(options: argparse.Namespace, report: Callable[[str], None]) -> bool:
    """Measure what is missing until the minutes are used up; returns whether all is done. `MeasuringError` if
    there is no GPU (except for a quick trial)."""
    begun = time.monotonic()
    capability = _capability(options.quick)
    engine = options.engine or (VLLM if StartedEngine.VLLM.version else TRANSFORMERS)
    shapes = TINY_SHAPES if options.quick else SHAPES
    if options.models:
        chosen = [name.strip() for name in options.models.split(",")]
        shapes = {name: shape for name, shape in shapes.items() if name in chosen}
    grid = (quick_grid if options.quick else full_grid)(shapes)
    campaign = LanguageCampaign(
        grid=grid,
        device="cuda" if capability else "cpu",
        rows=language_records(options.out),
        ends_at=begun + 60 * options.minutes,
        report=report,
    )
    report(f"campaign: {engine}; {len(campaign.rows.done)} cells are in {options.out} already")
    every = servers(grid, engine, has_fp8=capability >= _FP8_CAPABILITY, has_cuda=capability > 0)
    finished = campaign.run(every)
    report(f"campaign: {campaign.measured} cells measured in this run")
    return finished


def _capability(is_trial: bool) -> float:
    """Compute capability of the first GPU; 0 if there is none, which only a trial accepts."""
    from advisor.errors import MeasuringError

    try:
        found = gpus()
    except MeasuringError as error:
        if is_trial and error.code == NO_NVML:
            return 0.0
        raise
    return float(found[0]["compute_capability"] or 0.0) if found else 0.0
