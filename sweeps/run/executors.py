"""Ways to execute trials. Rules: every trial handed over comes back as exactly one
measurement, in any order; what happens to one trial never stops the others; `close` leaves
no process and no cgroup behind, also in the middle of a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError
from advisor.sweeps.datasets.node_cache import cached_data
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.machine.size import allowed_cpus
from advisor.sweeps.trial.child import ending_of
from advisor.sweeps.trial.limits.usage import PROCESS_TREE
from advisor.sweeps.trial.orphan_removal import clean_up
from advisor.sweeps.trial.trial_process import measure_trial

Measure = Callable[[Trial], Measurement]


class DataAtHand(Struct, frozen=True):
    """A trial as it was planned, and the same (`here`) with its data set on a path of this machine;
    what is known of how the data came joins its row."""

    planned: Trial
    here: Trial
    facts: Mapping[str, Any] = field(default_factory=dict)

    def measured(self, measure: Measure) -> Measurement:
        """The trial's row; a failed one where measuring is refused."""
        try:
            result = measure(self.here)
        except AdvisorError as error:
            result = failure(self.planned, str(error))
        environment = {**result.environment, **self.facts}
        return replace(result, trial=self.planned, environment=environment)


@contextmanager
def data_at_hand(trial: Trial) -> Iterator[DataAtHand]:
    """The trial with its data set on this machine, as long as the block; `AdvisorError` where it
    cannot be brought."""
    if not is_address(trial.dataset_path):
        yield DataAtHand(trial, trial)
        return
    with cached_data(trial.dataset_path) as cached:
        here = replace(trial, dataset_path=str(cached.path))
        yield DataAtHand(trial, here, {"data_cache": cached.facts})


def with_data(measure: Measure) -> Measure:
    """Measuring with the data set at hand; a failed row where it cannot be brought."""

    def measured(trial: Trial) -> Measurement:
        try:
            with data_at_hand(trial) as data:
                return data.measured(measure)
        except AdvisorError as error:
            return failure(trial, str(error))

    return measured


def failure(trial: Trial, reason: str, status: Status = Status.FAILED) -> Measurement:
    """A trial that did not begin."""
    return Measurement(
        trial=trial,
        status=status,
        limited_by=LimitedBy.NONE,
        reason=reason,
        started_at=datetime.now(UTC).isoformat(),
    )


class Executor(Protocol):
    """See the rules above."""

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """`MeasuringError` that names the way out, when it can never take some of the trials."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """Measurements as they come. Of a `TrialQueue` each is claimed before it is measured."""

    def close(self) -> None:
        """End what runs, give back what was taken."""


def _measure_here(trial: Trial) -> Measurement:
    from advisor.sweeps.worker.measuring import measure

    job = {"usage_source": {"kind": PROCESS_TREE}, "cpus": allowed_cpus()}
    try:
        return replace(measure(trial, job), limited_by=LimitedBy.NONE)
    except Exception as error:
        ending = ending_of(error, trial.dataset_path)
        return failure(trial, ending.reason, ending.status)


class InlineExecutor:
    """One trial after the other in this very process, without limits: for debugging the worker, never for
    results. Imports torch here, and marks every measurement as not limited, so that it is not fitted."""

    def __init__(self, measure: Measure = _measure_here) -> None:
        self._measure = with_data(measure)

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """None: they are planned for this machine."""

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """See `Executor`."""
        return map(self._measure, trials)

    def close(self) -> None:
        """Nothing was taken."""


class ProcessExecutor(InlineExecutor):
    """One trial after the other, each in a worker process under limits, on this machine."""

    def __init__(self, measure: Measure = measure_trial) -> None:
        super().__init__(measure)
        clean_up()

    def close(self) -> None:
        """Worker processes end with their trial; only groups of killed sweeps may be left."""
        clean_up()
