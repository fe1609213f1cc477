"""What must hold of a sweep, however often it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from advisor.domain import Measurement
from advisor.store.measurements import open_store
from advisor.sweeps.executors.process import unmarked
from advisor.sweeps.formats.files import to_jsonl
from advisor.sweeps.trial.orphan_removal import find_orphans

QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "200")


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
        one, other = unmarked_or_failed(here[name]), unmarked_or_failed(there[name])
        if one != other:
            found.append(f"another row than undisturbed: {name} ({here[name].status})")
    return found


def unmarked_or_failed(row: Measurement) -> Measurement:
    """What the replay answered; a failure has no such thing."""
    return unmarked(row) if "as_measured" in row.environment else row


def left_here() -> list[str]:
    """What killed processes left on this machine, once no sweep runs any more."""
    return [f"{one.kind} {one.name}" for one in find_orphans()]
