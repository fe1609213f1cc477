"""A trial's data set on the machine that measures it: an address is brought into the node's cache
first, which is measured apart from the trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError
from sweeps.datasets.node_cache import cached_data
from sweeps.datasets.remote import is_address


@contextmanager
def data_at_hand(trial: Trial) -> Iterator[tuple[Trial, Mapping[str, Any]]]:
    """The trial as this machine has it, its data set on a path of its own that stays as long as the
    block, and what a row is to say of that. Raises `AdvisorError` where it cannot be brought."""
    address = trial.dataset_path
    if not is_address(address):
        yield trial, {}
        return
    with cached_data(address) as cached:
        yield replace(trial, dataset_path=str(cached.path)), {"data_cache": cached.facts}


def with_data(measure: Callable[[Trial], Measurement]) -> Callable[[Trial], Measurement]:
    """Measuring with the data set at hand; a failed measurement where it cannot be brought."""

    def measured(trial: Trial) -> Measurement:
        try:
            with data_at_hand(trial) as (here, facts):
                result = measure(here)
        except AdvisorError as error:
            return failure(trial, str(error))
        return replace(result, trial=trial, environment={**result.environment, **facts})

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
