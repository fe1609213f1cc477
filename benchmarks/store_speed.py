"""How fast the store takes rows and leases, and finds what is done; for each database.

Rows are as large as real ones (600 steps). SQLite lies in --folder (its disk counts: a commit is
an fsync); PostgreSQL is what --postgresql names, in a schema that may be written.
    python benchmarks/store_speed.py --json
    python benchmarks/store_speed.py --json --postgresql postgresql://user:password@host/database
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from advisor.domain import (
    ON_CPU,
    DatasetProfile,
    DiskRate,
    LimitedBy,
    Measurement,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import current_rows
from advisor.sweeps.planning.repeating import merged
from advisor.sweeps.trial.ownership import this_process

STEPS, ALONE = 600, 300
PROFILE = DatasetProfile(
    name="photographs",
    samples=10_000,
    bytes_per_sample=105_000.0,
    storage_format="jpeg-files",
    width=500,
    height=375,
)


def measurement(number: int) -> Measurement:
    """A row as a sweep writes it; another trial for each number."""
    resources = Resources(
        vcpus=2.0, physical_cores=1.0, memory_mib=1024.0 + number, disk=DiskRate(type="unlimited")
    )
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=32, dataset=PROFILE)
    trial = Trial(
        workload=workload,
        resources=resources,
        accelerator=ON_CPU,
        plan={"benchmark": os.getpid(), "repeats": 1},
    )
    steps = tuple(0.1 + 1e-6 * (step * 7919 % 1000) for step in range(STEPS))
    return Measurement(
        trial=trial,
        status=Status.OK,
        limited_by=LimitedBy.CGROUP_V2,
        step_seconds=steps,
        started_at="2026-11-21T12:00:00+00:00",
    )


def milliseconds(work: Callable[[Any], object], items: Sequence[Any]) -> list[float]:
    """Of each call."""
    taken = []
    for item in items:
        begun = time.perf_counter()
        work(item)
        taken.append(1000 * (time.perf_counter() - begun))
    return taken


def speed(url: str, rows: int) -> dict[str, float]:
    """Medians of single calls, in milliseconds; lookups over all rows, in seconds."""
    measured = [measurement(number) for number in range(rows)]
    trials = [one.trial for one in measured]
    alone, leased, rest = measured[:ALONE], measured[ALONE : 2 * ALONE], measured[2 * ALONE :]
    owner = this_process()

    def under_a_lease(one: Measurement) -> None:
        store.leases.take({one.trial.trial_id: ""}, owner)
        store.join(one, merged, owner=owner)

    with closing(SqlStore(url)) as store:
        appended = milliseconds(store.append, alone)
        joined = milliseconds(under_a_lease, leased)
        (imported,) = milliseconds(store.append_all, [rest])
        (done,) = milliseconds(lambda _: store.done_ids(), [None])
        (read,) = milliseconds(lambda _: store.all(), [None])
        (resumed,) = milliseconds(lambda _: current_rows(trials, store), [None])
    (opened,) = milliseconds(lambda _: SqlStore(url).close(), [None])
    return {
        "append_ms": statistics.median(appended),
        "lease_and_join_ms": statistics.median(joined),
        "append_all_rows_per_second": 1000 * len(rest) / imported,
        "done_ids_seconds": done / 1000,
        "resume_seconds": resumed / 1000,
        "read_all_seconds": read / 1000,
        "open_seconds": opened / 1000,
    }


def fsync_milliseconds(folder: Path) -> float:
    """What the disk takes at least for something durable: the median of 100."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:

        def write(_number: int) -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

        return statistics.median(milliseconds(write, range(100)))


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--postgresql", help="the URL of a database; its rows stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        places = {"sqlite": f"sqlite:///{folder}/m.sqlite"}
        if arguments.postgresql:
            places["postgresql"] = arguments.postgresql
        document = {
            "benchmark": "store_speed",
            "rows": arguments.rows,
            "fsync_ms": fsync_milliseconds(Path(folder)),
            **{name: speed(url, arguments.rows) for name, url in places.items()},
        }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
