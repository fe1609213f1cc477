"""Kill -9 at random instants over worker, driver and database; what must hold, checked.

    python -m benchmarks.kills --json --kills 100 --seed 1

The trials are the bundled measurements, each answered after --seconds by the replay (all but the measuring is
real: processes, limits, leases, store). Sweeps follow each other, each in an empty place of one PostgreSQL
server, until so many kills were done; after each, its rows, its model's recommendation and what is left on
the machine are held against an undisturbed sweep's. Exit code 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from advisor.domain import Measurement
from advisor.store.measurements import open_store
from advisor.sweeps.formats import to_jsonl
from advisor.sweeps.trial.ownership import find_orphans
from benchmarks.kills.replaying import unmarked
from benchmarks.kills.targets import Driver, kill_database, kill_worker
from tests.postgresql import PostgreSQL

QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "200")
ROWS = Path("advisor/data/performance/measurements.jsonl")
_LONGEST_GAP_SECONDS = 2.0
_LONGEST_SWEEP_SECONDS = 600.0
_KINDS = ("driver", "worker", "database")


class Series:
    """Sweeps over the same trials, and the kills that they go through."""

    def __init__(self, server: Any, file: Path, options: Any) -> None:
        self._server, self._file, self._seconds = server, file, options.seconds
        self._random = random.Random(options.seed)
        self._gap_seconds = options.gap
        self.kills: list[dict[str, Any]] = []
        self.resumed: list[float] = []
        self._begun = time.monotonic()

    def _swept(self, kills: int) -> tuple[list[Any], list[dict[str, Any]]]:
        """A whole sweep with at most so many kills: its rows, and what its drivers told."""
        url = self._server.new_database()
        driver = Driver([url, str(self._file), str(self._seconds)])
        driver.start()
        try:
            self._disturb(driver, kills)
        except BaseException:
            driver.process.kill()
            raise
        self.resumed += driver.resumed
        return stored(url), driver.events

    def _disturb(self, driver: Driver, kills: int) -> None:
        """Kill until it has ended by itself; `RuntimeError` where it failed or does not end."""
        deadline = time.monotonic() + _LONGEST_SWEEP_SECONDS
        while driver.process.poll() is None and time.monotonic() < deadline:
            time.sleep(self._random.uniform(0.0, self._gap_seconds))
            if len(self.kills) < kills and driver.process.poll() is None:
                self._kill(driver)
        if driver.process.poll() is None:
            raise RuntimeError(f"a sweep did not end: {driver.last_words}")
        if code := driver.finish():
            raise RuntimeError(f"the driver ended with {code}: {driver.last_words}")

    def _kill(self, driver: Driver) -> None:
        kind = self._random.choice(_KINDS)
        seconds = time.monotonic() - self._begun
        driver.is_disturbed = driver.is_disturbed or kind == "database"
        if kind == "driver":
            what: str | None = driver.kill()
        else:
            what = kill_worker(self._file) if kind == "worker" else kill_database(self._server)
        if what:
            self.kills.append({"seconds": round(seconds, 3), "killed": kind, "what": what})

    def run(self, kills: int) -> dict[str, Any]:
        """Sweeps until so many kills were done."""
        whole, _ = self._swept(0)  # nobody kills this one
        answer = recommendation(whole)
        broken: list[str] = []
        left: list[str] = left_here()
        sweeps = equal = 0
        while len(self.kills) < kills:
            rows, events = self._swept(kills)
            sweeps += 1
            broken += faults(rows, whole, events)
            equal += recommendation(rows) == answer
            left += left_here()
        by_kind = {kind: sum(one["killed"] == kind for one in self.kills) for kind in _KINDS}
        return {
            "kills": len(self.kills),
            "killed": by_kind,
            "sweeps": sweeps,
            "trials_a_sweep": len(whole),
            "faults": broken,
            "left_behind": left,
            "recommendations_equal": equal,
            # From the executor being there to the first trial of a driver that goes on, where the database
            # was not killed in that moment.
            "resume_seconds": {
                "count": len(self.resumed),
                "median": statistics.median(self.resumed),
                "most": max(self.resumed),
            }
            if self.resumed
            else None,
            "log": self.kills,
        }


def stored(url: str) -> list[Measurement]:
    """All rows, in the store's order."""
    with closing(open_store(url, reading=True)) as store:
        return store.all()


def recommendation(rows: Sequence[Measurement]) -> bytes:
    """Fit on the rows as they come from the store, then recommend; the answer as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file, home = Path(folder) / "rows.jsonl", Path(folder) / "home"
        file.write_text(to_jsonl([unmarked(row) for row in rows]))
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)}
        _advisor("fit", "--from", str(file), environment=environment)
        return _advisor("recommend", *QUESTION, "-o", "json", environment=environment)


def _advisor(*arguments: str, environment: dict[str, str]) -> bytes:
    done = subprocess.run([sys.executable, "-m", "advisor", *arguments], env=environment, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"advisor {arguments[0]}: {done.stderr.decode()[-500:]}")
    return done.stdout


def faults(rows: Sequence[Measurement], whole: Sequence[Measurement], events: Any) -> list[str]:
    """What is wrong with the rows of a killed sweep, beside those of an undisturbed one."""
    here = {row.trial.trial_id: row for row in rows}
    there = {row.trial.trial_id: row for row in whole}
    told = {one["trial_id"] for one in events if one["event"] == "stored" and one["status"] != "failed"}
    found = [f"lost: {name}" for name in sorted(told - set(here))]
    found += [f"not measured: {name}" for name in sorted(set(there) - set(here))]
    found += [f"of no plan: {name}" for name in sorted(set(here) - set(there))]
    if len(rows) != len(here):
        found.append("a trial is stored twice")
    for name in sorted(set(here) & set(there)):
        # What the replay answered; a failure has no such thing.
        one, other = (
            unmarked(row) if "as_measured" in row.environment else row for row in (here[name], there[name])
        )
        if one != other:
            found.append(f"another row than undisturbed: {name} ({here[name].status})")
    return found


def left_here() -> list[str]:
    """What killed processes left on this machine, once no sweep runs any more."""
    return [f"{one.kind} {one.name}" for one in find_orphans()]


def main() -> int:
    """Print one JSON document; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each replayed trial")
    parser.add_argument("--gap", type=float, default=_LONGEST_GAP_SECONDS, help="most seconds between kills")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--trials", type=int, help="only the first so many rows")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are ended then, too
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        file = Path(folder) / "rows.jsonl"
        lines = options.rows.read_text().splitlines()[: options.trials]
        file.write_text("".join(line + "\n" for line in lines))
        server = PostgreSQL()
        try:
            outcome = Series(server, file, options).run(options.kills)
        finally:
            server.remove()
    held = (
        not outcome["faults"]
        and not outcome["left_behind"]
        and outcome["recommendations_equal"] == outcome["sweeps"]
    )
    document = {"benchmark": "kills", "seed": options.seed, "held": held}
    print(json.dumps(document | outcome))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
