"""Replays a measured table: which trials the search would have run, and how good their results were."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from advisor.errors import DataError, UsageError, unknown_name

if TYPE_CHECKING:
    from advisor.infra.build.search import Replay, Run

# Column names that tables use for a run's cost, duration and rate; the first one present is used.
_COSTS = ("cost_usd", "cost", "target_cost")
_SECONDS = ("seconds", "time_s", "elapsed_time_s", "runtime_s", "training_time")
_PRICES = ("usd_per_hour", "price_usd_per_hour", "price")
_RATES = ("throughput_samples_per_second", "throughput", "samples_per_second")
_STATUSES = ("status", "completed", "ok")
_WORKLOAD = "workload"
# Names that pandas gives to the column of row numbers.
_ROW_NUMBERS = "Unnamed: "
_GOOD = frozenset({"ok", "true", "1", "1.0", "yes", "completed", "success"})
MAX_CONFIGURATIONS = 5_000


class Columns(Struct, frozen=True, kw_only=True):
    """Which columns hold what; None: found by its usual names. `ignored` columns do not describe the
    configuration."""

    cost: str | None = None
    seconds: str | None = None
    price: str | None = None
    throughput: str | None = None
    status: str | None = None
    ignored: tuple[str, ...] = ()


class Simulation(Struct, frozen=True, kw_only=True):
    """A replay with the names of the configuration columns; `cheapest` is a cost."""

    workload: str
    names: tuple[str, ...]
    configurations: tuple[tuple[str | float | None, ...], ...]
    history: int
    cheapest: float
    replay: Replay


def simulate_search(
    paths: Sequence[Path],
    *,
    columns: Columns,
    workload: str | None,
    target: float | None,
    trials: int,
    seed: int,
    stops: bool = True,
) -> Simulation:
    """Search the first table (for one of its workloads), with the other workloads of all tables as history.

    Raises `DataError` for files without such a table, `UsageError` for unknown names."""
    from advisor.infra.build.search import Table, replay

    tables = [_rows(path) for path in paths]
    layout = _Layout.of(tables[0], columns, paths[0], target)
    runs = [run for path, rows in zip(paths, tables, strict=True) for run in layout.runs(rows, path)]
    own = sorted({layout.workload(row) for row in tables[0]})
    wanted = _workload(own, workload, paths[0])
    table = Table.of(runs)
    if len(table.configurations) > MAX_CONFIGURATIONS:
        raise DataError(
            f"{paths[0]} has {len(table.configurations):,} different configurations, more than "
            f"{MAX_CONFIGURATIONS:,}; name columns that are results with --ignore"
        )
    outcome = table.outcome(wanted)
    costs = [cost for cost in outcome.tolist() if not math.isnan(cost)]
    if not costs:
        raise _nothing(str(wanted or paths[0]), target)
    others = [name for name in table.workloads if name != wanted]
    problem = table.problem(wanted, others)
    return Simulation(
        workload=wanted,
        names=layout.names,
        configurations=table.configurations,
        history=len(others),
        cheapest=math.exp(min(costs)),
        replay=replay(problem, outcome, trials=trials, seed=seed, stops=stops),
    )


class _Layout(Struct, frozen=True):
    """The columns of a table; `names` are those that describe a configuration."""

    names: tuple[str, ...]
    columns: Columns
    target: float | None

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, str]], wanted: Columns, path: Path, target: float | None
    ) -> _Layout:
        present = tuple(rows[0])
        columns = Columns(
            cost=_find(present, wanted.cost, _COSTS, "--cost"),
            seconds=_find(present, wanted.seconds, _SECONDS, "--seconds"),
            price=_find(present, wanted.price, _PRICES, "--price"),
            throughput=_find(present, wanted.throughput, _RATES, "--throughput"),
            status=_find(present, wanted.status, _STATUSES, "--status"),
        )
        _require_cost(columns, path, target)
        for name in wanted.ignored:
            if name not in present:
                raise unknown_name("column", name, present)
        results = {
            columns.cost,
            columns.seconds,
            columns.throughput,
            columns.status,
            _WORKLOAD,
            columns.price,
        }
        names = tuple(
            name
            for name in present
            if name not in results | {*wanted.ignored} and not name.startswith(_ROW_NUMBERS)
        )
        if not names:
            raise DataError(f"{path} has no column that describes a configuration")
        return cls(names, columns, target)

    def workload(self, row: Mapping[str, str]) -> str:
        """The row's workload; '' in tables with one workload."""
        return row.get(_WORKLOAD) or ""

    def runs(self, rows: Sequence[Mapping[str, str]], path: Path) -> Iterable[Run]:
        """Rows as runs; `DataError` names the line of an invalid number."""
        from advisor.infra.build.search import Run

        missing = set(self.names) - set(rows[0])
        if missing:
            raise DataError(f"{path} lacks the columns {', '.join(sorted(missing))}")
        texts = {name for name in self.names if not all(_is_number(row[name]) for row in rows)}
        for line, row in enumerate(rows, 2):
            configuration = tuple(
                (row[name] or None) if name in texts else float(row[name]) for name in self.names
            )
            yield Run(self.workload(row), configuration, self._cost(row, f"{path}, line {line}"))

    def _cost(self, row: Mapping[str, str], where: str) -> float | None:
        columns = self.columns
        if columns.status and row[columns.status].strip().lower() not in _GOOD:
            return None
        price = _number(row, columns.price, where)
        rate = _number(row, columns.throughput, where)
        if self.target is not None:
            return price if rate is not None and rate >= self.target else None
        if columns.cost:
            return _number(row, columns.cost, where)
        seconds = _number(row, columns.seconds, where)
        if seconds is None and rate is not None:
            seconds = 1 / rate
        if seconds is None:
            return None
        return seconds / 3600 * (1.0 if price is None else price)


def _require_cost(columns: Columns, path: Path, target: float | None) -> None:
    if target is not None and not (columns.price and columns.throughput):
        raise UsageError(
            f"--target-throughput needs a price and a throughput in {path}; name their columns "
            "with --price and --throughput"
        )
    if not (columns.cost or columns.seconds or columns.throughput):
        raise UsageError(
            f"{path} says neither what a run cost nor how long it took; name a column with --cost, "
            "or --seconds and --price"
        )


def _workload(own: Sequence[str], workload: str | None, path: Path) -> str:
    if workload is not None and own == [""]:
        raise UsageError(f"{path} has no column '{_WORKLOAD}'; leave --workload out")
    if workload is not None:
        if workload not in own:
            raise unknown_name("workload", workload, own)
        return workload
    if len(own) > 1:
        raise UsageError(
            f"{path} has {len(own)} workloads; name one with --workload, as {own[0]}; the others "
            "are what the search knows beforehand"
        )
    return own[0]


def _nothing(where: str, target: float | None) -> DataError | UsageError:
    if target is None:
        return DataError(f"no configuration of {where} worked; there is nothing to find")
    return UsageError(f"no configuration of {where} reaches {target:g}; lower --target-throughput")


def _find(present: Sequence[str], wanted: str | None, usual: Sequence[str], flag: str) -> str | None:
    if wanted is None:
        return next((name for name in usual if name in present), None)
    if wanted not in present:
        raise unknown_name(f"column ({flag})", wanted, present)
    return wanted


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'; name a CSV file with one run a line")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV ({error})") from error
    if not rows:
        raise DataError(f"{path} has no rows; write one configuration a line below the names")
    names = list(reader.fieldnames or ())
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of the same name; give each its own")
    if any(None in row for row in rows):
        raise DataError(f"{path} has lines with more values than there are columns")
    return rows


def _number(row: Mapping[str, str], column: str | None, where: str) -> float | None:
    """A positive number; None if the column is missing or the field is empty."""
    text = row[column].strip() if column else ""
    if text.lower() in ("", "nan"):
        return None
    if not _is_number(text) or not 0 < float(text) < math.inf:
        raise DataError(f"{where}: '{text}' in the column {column} is no positive number")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
