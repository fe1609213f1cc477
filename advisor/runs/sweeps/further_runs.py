"""Further runs of one trial on this machine, for what a decision hangs on."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.domain import Measurement, Status, Trial
from advisor.errors import DataError
from advisor.runs.sweeps.sweeping import only_sweep_here, probed_machine
from advisor.sweeps.driver.spool import Spool
from advisor.sweeps.planning.repeating import merged
from advisor.sweeps.trial.trial_process import measure_trial

if TYPE_CHECKING:
    from advisor.sweeps.measurement_store import MeasurementStore


def measure_runs(trial: Trial, store: MeasurementStore, most: int, within_seconds: float) -> Measurement:
    """Up to `most` further runs of a trial here, each in processes of its own, whether or not there
    are others; they join the trial's row. A further run begins where one as long as the longest so
    far ends `within_seconds` after the first began, and all before ended well.

    Returns these runs alone, as one measurement: somebody waits, so that neighbours spoil a run and
    do not repeat it. Raises `MeasuringError` while a sweep runs on this machine.
    """
    from advisor.sweeps.driver.runner import current_rows
    from advisor.sweeps.executors.process import ProcessExecutor

    current_rows([trial], store)  # a row that cannot be read is told before, not after
    done, begun, longest = None, time.monotonic(), 0.0
    with only_sweep_here(False), closing(ProcessExecutor(partial(measure_trial, repeats=0))) as chosen:
        for _ in range(most):
            before = time.monotonic()
            (bare,) = chosen.execute([trial])
            fresh = replace(bare, environment={**bare.environment, **probed_machine()})
            keep_run(fresh, store)
            done = merged(done, fresh)
            longest = max(longest, time.monotonic() - before)
            late = time.monotonic() - begun + longest > within_seconds
            if late or fresh.status is not Status.OK:
                break
    assert done is not None
    return done


def keep_run(fresh: Measurement, store: MeasurementStore) -> None:
    """One more run of a trial, wherever it was measured, joins the trial's row.

    `DataError`, when the store does not take it, names the file that holds it."""
    try:
        store.join(fresh, merged)
    except DataError as error:
        spool = Spool()
        spool.keep(fresh)
        raise spool.explained(error) from error
