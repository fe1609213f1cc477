"""The PROFET rows of a directory: step seconds by instance, and profiles of operations.

Repeats of a workload (exp01 ..) are one row, their median: the noise of a repeat is 1 to 2 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.figures import NothingToScore
from models.performance.transfer.across_gpus import TrainingPair
from models.performance.transfer.cells import Cells, Profiles
from models.performance.transfer.operation_ratios import SheetPair
from models.performance.transfer.operations import CLASSES, class_columns

FOLDER = Path("perfmodel/profet")
LATENCIES, PROFILES = "profet_training_latency.csv", "profet_anchor_ops_*.csv"
KEY = ["model", "image_px", "batch_size"]
# A profile adds up the microseconds of two steps; columns are named by device and operation.
_MICROSECONDS = 2e6
_DEVICE, _IDLE = "Device_", "Device_IDLE"


@dataclass(frozen=True, slots=True)
class Rows:
    """`seconds` has a column an instance, `profiles` a table an instance; both by `KEY`."""

    seconds: pd.DataFrame
    profiles: Mapping[str, pd.DataFrame]
    notes: tuple[str, ...] = ()

    @property
    def instances(self) -> list[str]:
        """All instances with step times, by name."""
        return sorted(str(name) for name in self.seconds.columns)

    @property
    def networks(self) -> list[str]:
        """All networks, by name."""
        return sorted(self.seconds.index.get_level_values("model").unique())

    def without_networks(self, names: Iterable[str]) -> Rows:
        """Less all rows of these networks."""
        kept = self.seconds[~self.seconds.index.get_level_values("model").isin(list(names))]
        return replace(self, seconds=kept)

    def without_instance(self, name: str) -> Rows:
        """Less all that was measured on one instance."""
        profiles = {k: v for k, v in self.profiles.items() if k != name}
        return replace(self, seconds=self.seconds.drop(columns=name), profiles=profiles)

    def of_network(self, name: str) -> Rows:
        """The rows of one network."""
        level = self.seconds.index.get_level_values("model")
        return replace(self, seconds=self.seconds[level == name])

    def pair(self, anchor: str, target: str, sheets: SheetPair = None) -> TrainingPair:
        """The workloads measured on both."""
        both = self.seconds[[anchor, target]].dropna()
        return TrainingPair(
            anchor=self._cells(both, anchor),
            seconds=both[target].to_numpy(float),
            profiles=self._profiles(both.index, target),
            sheets=sheets,
        )

    def _cells(self, table: pd.DataFrame, instance: str) -> Cells:
        level = table.index.get_level_values
        return Cells(
            network=np.asarray(level("model"), dtype=str),
            image_px=np.asarray(level("image_px"), dtype=float),
            batch=np.asarray(level("batch_size"), dtype=float),
            seconds=table[instance].to_numpy(float),
            profiles=self._profiles(table.index, instance),
        )

    def _profiles(self, index: pd.MultiIndex, instance: str) -> Profiles | None:
        table = self.profiles.get(instance)
        if table is None:
            return None
        found = table.reindex(index).to_numpy(float)
        return Profiles(operations=found[:, :-1], idle=found[:, -1])


def read_rows(folder: Path) -> Rows:
    """All usable rows; `NothingToScore` names what is missing."""
    path = folder / FOLDER / LATENCIES
    if not path.is_file():
        raise NothingToScore(f"no {FOLDER / LATENCIES} under {folder}")
    table = pd.read_csv(path)
    wrong = {*KEY, "instance_name", "batch_latency_s"} - set(table.columns)
    if wrong:
        raise NothingToScore(f"{FOLDER / LATENCIES} has no column {', '.join(sorted(wrong))}")
    usable, notes = _usable(table, "batch_latency_s", LATENCIES)
    seconds = usable.pivot_table(
        index=KEY, columns="instance_name", values="batch_latency_s", aggfunc="median"
    )
    profiles: dict[str, pd.DataFrame] = {}
    for file in sorted((folder / FOLDER).glob(PROFILES)):
        profiles.update(_read_profiles(file))
    return Rows(seconds, profiles, notes)


def _usable(table: pd.DataFrame, column: str, file: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Rows with positive finite numbers, and a note on the others."""
    table = table.assign(
        **{
            name: pd.to_numeric(table[name], errors="coerce").astype(float)
            for name in (*KEY[1:], column)
        }
    )
    numbers = table[[*KEY[1:], column]].to_numpy(float)
    good = (np.isfinite(numbers) & (numbers > 0)).all(axis=1) & table["model"].notna().to_numpy()
    dropped = int((~good).sum())
    notes = (f"{dropped} rows of {file} without a positive number",) if dropped else ()
    return table[good], notes


def _read_profiles(path: Path) -> dict[str, pd.DataFrame]:
    """Device seconds by class, and idle seconds last, by instance; medians over repeats.

    Columns named like instances hold latencies there: labels, which are never read.
    """
    table = pd.read_csv(path).rename(columns={"batchsize": "batch_size"})
    if not {*KEY, "instance_name", _IDLE} <= set(table.columns):
        return {}
    names = [name for name in table.columns if name.startswith(_DEVICE) and name != _IDLE]
    values = table[names].apply(pd.to_numeric, errors="coerce").to_numpy(float)
    values = np.where(np.isfinite(values), values, 0.0)
    times = np.zeros((len(table), len(CLASSES) + 1))
    columns = class_columns(name.removeprefix(_DEVICE) for name in names)
    np.add.at(times.T, columns, np.maximum(values, 0.0).T)
    idle = pd.to_numeric(table[_IDLE], errors="coerce").to_numpy(float)
    times[:, -1] = np.where(np.isfinite(idle), np.maximum(idle, 0.0), np.nan)
    frame = pd.DataFrame(times / _MICROSECONDS)
    sizes = [pd.to_numeric(table[name], errors="coerce").to_numpy(float) for name in KEY[1:]]
    keys = [table["instance_name"].to_numpy(), table["model"].to_numpy(), *sizes]
    medians = frame.groupby(keys).median()
    medians.index.names = ["instance_name", *KEY]
    return {str(name): part.droplevel(0) for name, part in medians.groupby(level=0)}
