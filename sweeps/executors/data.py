"""A trial's data set on the machine that measures it: an address is brought into the node's cache
first, which is measured apart from the trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import AdvisorError
from advisor.sweeps.datasets.node_cache import cached_data
from advisor.sweeps.datasets.remote import is_address

Measure = Callable[[Trial], Measurement]


@contextmanager
def data_at_hand(trial: Trial) -> Iterator[Callable[[Measure], Measurement]]:
    """How to measure the trial while its data set is on a path of this machine, which is as long as
    the block; a failed measurement where it cannot be brought."""
    here, refused = trial, ""
    facts: Mapping[str, Any] = {}
    with ExitStack() as block:
        if is_address(trial.dataset_path):
            try:
                cached = block.enter_context(cached_data(trial.dataset_path))
            except AdvisorError as error:
                refused = str(error)
            else:
                here = replace(trial, dataset_path=str(cached.path))
                facts = {"data_cache": cached.facts}

        def measured(measure: Measure) -> Measurement:
            try:
                result = failure(trial, refused) if refused else measure(here)
            except AdvisorError as error:
                result = failure(trial, str(error))
            return replace(result, trial=trial, environment={**result.environment, **facts})

        yield measured


def with_data(measure: Measure) -> Measure:
    """Measuring with the data set at hand."""

    def measured(trial: Trial) -> Measurement:
        with data_at_hand(trial) as by:
            return by(measure)

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
