"""Tables of what cloud configurations cost, read from the rows of a directory's cloudconfig/.

Rows that say nothing (no time, no price known) are left out and counted in the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.infra.build.search import Run

# AWS on demand, Linux, us-east-1, US dollars per hour: the catalogue of 2022-02 in the public data
# (catalog/aws_ondemand_prices_allregions_2022-02.csv) says the same.
_USD_PER_HOUR = {
    "c4.large": 0.1,
    "c4.xlarge": 0.199,
    "c4.2xlarge": 0.398,
    "m4.large": 0.1,
    "m4.xlarge": 0.2,
    "m4.2xlarge": 0.4,
    "r4.large": 0.133,
    "r4.xlarge": 0.266,
    "r4.2xlarge": 0.532,
    "t2.small": 0.023,
    "t2.medium": 0.0464,
    "t2.xlarge": 0.1856,
    "t2.2xlarge": 0.3712,
}
# vCPUs and GiB of memory of the same types (AWS).
_SIZES = {
    "c4.large": (2, 3.75),
    "c4.xlarge": (4, 7.5),
    "c4.2xlarge": (8, 15.0),
    "m4.large": (2, 8.0),
    "m4.xlarge": (4, 16.0),
    "m4.2xlarge": (8, 32.0),
    "r4.large": (2, 15.25),
    "r4.xlarge": (4, 30.5),
    "r4.2xlarge": (8, 61.0),
    "t2.small": (1, 2.0),
    "t2.medium": (2, 4.0),
    "t2.xlarge": (4, 16.0),
    "t2.2xlarge": (8, 32.0),
}
# Lynceus ended a training that had not reached its accuracy after ten minutes.
_LYNCEUS_SECONDS = 600.0
_IBM = ("provider", "A_family", "A_vcpu", "B_family", "B_vcpu", "C_family", "C_type", "C_vcpu", "nodes")

Reader = Callable[[pd.DataFrame, str], Iterator[Run]]


def search_tables(folder: Path, notes: list[str]) -> dict[str, list[Run]]:
    """Runs by source; files that are missing or lack columns are named in `notes`."""
    found: dict[str, list[Run]] = {}
    for source, pattern, needed, reader in _SOURCES:
        paths = sorted(_place(folder).glob(pattern))
        if not paths:
            notes.append(f"no {pattern} under {folder}")
        for path in paths:
            table = pd.read_csv(path)
            missing = needed - set(table.columns)
            if missing:
                notes.append(f"{path.name} lacks {', '.join(sorted(missing))}")
                continue
            runs = list(reader(table, path.stem))
            if len(runs) < len(table):
                notes.append(f"{path.name}: {len(table) - len(runs)} rows without time or price")
            found.setdefault(source, []).extend(runs)
    return found


def _place(folder: Path) -> Path:
    inside = folder / "perfmodel" / "cloudconfig"
    return inside if inside.is_dir() else folder / "cloudconfig"


def _scout(table: pd.DataFrame, _name: str) -> Iterator[Run]:
    for row in table.to_dict("records"):
        worked = str(row["completed"]).lower() == "true"
        run = _on_aws(
            row["workload"], row["instance"], row["nodes"], row["elapsed_time_s"] if worked else None
        )
        if run:
            yield run


def _lynceus(table: pd.DataFrame, name: str) -> Iterator[Run]:
    for row in table.to_dict("records"):
        in_time = row["training_time"] < _LYNCEUS_SECONDS
        settings = (row["learning_rate"], row["batch_size"], row["synchronism"])
        run = _on_aws(
            name, row["vm_flavor"], row["n_workers"], row["training_time"] if in_time else None, settings
        )
        if run:
            yield run


def _on_aws(
    workload: str, instance: str, nodes: float, seconds: float | None, settings: tuple[str | float, ...] = ()
) -> Run | None:
    """A run by what a cluster has of everything; None where its price is not known."""
    if instance not in _USD_PER_HOUR or (seconds is not None and not seconds > 0):
        return None
    vcpus, memory = _SIZES[instance]
    has = (nodes, vcpus, memory / vcpus, nodes * vcpus, nodes * memory)
    hours = None if seconds is None else seconds / 3600
    cost = None if hours is None else hours * nodes * _USD_PER_HOUR[instance]
    return Run(workload, (*map(float, has), *settings), cost)


def _ibm(table: pd.DataFrame, _name: str) -> Iterator[Run]:
    codes = table[list(_IBM)].astype(object)
    configurations = codes.where(codes.notna(), None)
    # Codes of families and sizes are names, not amounts; only nodes are counted.
    names = [name for name in _IBM if name != "nodes"]
    for row, configuration in zip(table.to_dict("records"), configurations.to_dict("records"), strict=True):
        worked = row["status"] == "ok" and np.isfinite(row["target_cost"])
        coded = (None if configuration[n] is None else f"{configuration[n]}" for n in names)
        cost = float(row["target_cost"]) if worked else None
        yield Run(str(row["workload"]), (*coded, float(row["nodes"])), cost)


_SOURCES: tuple[tuple[str, str, set[str], Reader], ...] = (
    (
        "scout",
        "scout_multi_node.csv",
        {"workload", "instance", "nodes", "elapsed_time_s", "completed"},
        _scout,
    ),
    ("ibm", "ibm_multi_cloud.csv", {*_IBM, "workload", "target_cost", "status"}, _ibm),
    (
        "lynceus",
        "lynceus_tf_*.csv",
        {"n_workers", "learning_rate", "batch_size", "synchronism", "training_time", "vm_flavor"},
        _lynceus,
    ),
)
