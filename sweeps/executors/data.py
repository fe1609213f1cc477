"""A trial's data set on the machine that measures it: an address is brought into the node's cache
first, which is measured apart from the trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError
from advisor.sweeps.datasets.node_cache import cached_data
from advisor.sweeps.datasets.remote import is_address

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


def failure(trial: Trial, reason: str) -> Measurement:
    """A trial that did not begin."""
    return Measurement(
        trial=trial,
        status=Status.FAILED,
        limited_by=LimitedBy.NONE,
        reason=reason,
        started_at=datetime.now(UTC).isoformat(),
    )
