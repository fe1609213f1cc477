"""Everything that watches a sweep from inside: its tally, its log, its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.domain import Trial
from advisor.errors import AdvisorError, DataError
from advisor.places import sweep_log_path
from advisor.runs.sweep_questions import Watching
from advisor.sweeps.events import Event, emit, subscribe
from advisor.sweeps.trial.formatting import planned_facts, trial_name
from advisor.sweeps.watching.logfile import LEVELS, logged, print_warning
from advisor.sweeps.watching.tally import Tally

if TYPE_CHECKING:
    from advisor.sweeps.driver.runner import Progress
    from advisor.sweeps.watching.tally import TextFile

LOCAL_HOST = "127.0.0.1"


class Watch:
    """One sweep that is watched. `address` is where its metrics are asked for, or empty."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.address = ""
        self._file: TextFile | None = None
        self._planned_at, self._planned = time.time(), 0

    def planned(self, trials: Sequence[Trial], *, executor: str, database: str) -> None:
        """The sweep begins: its trials, who executes them, where they are stored."""
        emit("sweep_began", trials=len(trials), executor=executor, database=database)
        self._planned_at, self._planned = time.time(), len(trials)

    def following(self, shown: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """The progress callback of `run_sweep`; `shown` is called last."""

        def follow(progress: Progress) -> None:
            self.tally.follow(progress)
            if progress.started:
                self._tell_begun(progress.started)
            self._update()
            shown(progress)

        return follow

    def _tell_begun(self, trial: Trial) -> None:
        # Of ten thousand trials only those that begin are worth a line, at the plan's time.
        trial_id = trial.trial_id
        facts = {"of": self._planned, **planned_facts(trial)}
        emit("planned", trial_id=trial_id, at=self._planned_at, **facts)
        emit("began", trial_id=trial_id, trial=trial_name(trial))

    def write_to(self, path: Path) -> None:
        """Keep the metrics in this file; `DataError` where that cannot be."""
        from advisor.sweeps.watching.tally import TextFile, sweep_registry

        self._file = TextFile(path, sweep_registry(self.tally.standing))

    def note(self, event: Event) -> None:
        """An event of this process."""
        self.tally.note(event)
        if event.event.startswith("heartbeat"):
            self._update()

    def ended(self, error: BaseException | None) -> None:
        """The sweep is over; the file keeps its last figures."""
        standing = self.tally.standing()
        counts = {status.value: count for status, count in standing.counts.items()}
        facts: dict[str, Any] = {} if error is None else {"reason": _reason_of(error)}
        emit(
            "sweep_ended",
            counts=counts,
            left=standing.left,
            seconds=round(standing.elapsed_seconds, 3),
            **facts,
        )
        self._update()

    def _update(self) -> None:
        if self._file:
            self._file.update()


@contextmanager
def watched(options: Watching, *, usd_per_hour: float | None = None, where: str = "") -> Iterator[Watch]:
    """Log and metrics meanwhile; what stops the sweep is logged, and raised as it was.

    Without a price no cost is shown; `where` is the machine of trials that do not name theirs.
    Raises before anything is measured where a file or port that was named cannot be had.
    """
    watch = Watch(Tally(usd_per_hour=usd_per_hour, where=where))
    with ExitStack() as stack:
        _log(stack, options)
        stack.enter_context(subscribe(watch.note))
        if options.metrics_port is not None:
            watch.address = stack.enter_context(
                _served(watch, options.metrics_port, options.metrics_host or LOCAL_HOST)
            )
        if options.metrics_file:
            watch.write_to(options.metrics_file)
        try:
            yield watch
        except BaseException as error:
            watch.ended(error)
            raise
        watch.ended(None)


@contextmanager
def _served(watch: Watch, port: int, host: str) -> Iterator[str]:
    from advisor.sweeps.watching.tally import served, sweep_registry

    with served(sweep_registry(watch.tally.standing), port, host) as taken:
        yield f"http://{host}:{taken}/metrics"


def _log(stack: ExitStack, options: Watching) -> None:
    """A place of the user's own choice must work; without the usual one a sweep goes on."""
    level = LEVELS[options.log_level]
    if options.log_file:
        stack.enter_context(logged(options.log_file, level))
        return
    try:
        stack.enter_context(logged(sweep_log_path(), level))
    except DataError as error:
        print_warning(str(error))


def _reason_of(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, AdvisorError) else repr(error)
