"""One run of the campaign: the servers in order, each with its cells that the file has not."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field

from advisor.errors import MeasuringError, one_line
from advisor.infra.build.campaign.language.cells import Cell, Grid, Server, cells, missing
from advisor.infra.build.campaign.language.engines import Measures, started
from advisor.infra.build.campaign.records import Records, Row
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.gpu import GpuSampler, gpus

SCHEMA = "advisor.language_row/1"
_VERSIONS = ("torch", "transformers", "vllm", "numpy")
# A server that fails on so many cells one after the other is left.
_MOST_FAULTS = 2
_SHOWN = 300


class LanguageCampaign(Struct, kw_only=True):
    """What all cells are measured with. Nothing begins that would not end before `ends_at`, a
    time.monotonic() moment."""

    grid: Grid
    device: str
    rows: Records[Row]
    ends_at: float
    report: Callable[[str], None]
    measured: int = 0
    environment: Row = field(default_factory=dict)

    def run(self, servers: list[Server]) -> bool:
        """Measure the missing cells of each; whether all are done."""
        self.environment = _environment()
        done = [self._server_is_done(server) for server in servers]  # each, whatever others do
        return all(done)

    def _server_is_done(self, server: Server) -> bool:
        """A fault costs a cell and a start; after two without a row between them the rest of the
        server's cells stays for another run."""
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
        """One that came before any cell could be tried costs the first of them."""
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
    """The rows of a file, by their cell's key."""
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
