"""Events of sweeps and trials, for subscribers: logs, metrics, displays.

An event is a record of the standard library's logging, with `event`, `trial_id` and `facts`. Without a
subscriber an event costs a comparison, and prints nothing. No event is emitted inside of a timed run."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from msgspec import Struct, field

from advisor.records import asdict

EVENT_KEY = "event"  # the key of an event in the JSON that a worker prints
DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING
_LOG = logging.getLogger("advisor.sweeps.events")
_LOG.propagate = False  # an application's handlers do not want the events of every trial
_LOG.setLevel(DEBUG)


class Event(Struct, frozen=True):
    """An event; `at` is seconds since 1970 by the clock of `node`."""

    at: float
    level: int
    event: str
    trial_id: str
    node: str
    pid: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def emit(event: str, *, trial_id: str = "", level: int = INFO, at: float | None = None, **facts: Any) -> None:
    """Sends an event to subscribers; `facts` are JSON-ready, never secrets. `at` defaults to now."""
    if _LOG.handlers:
        moment = time.time() if at is None else at
        forward(Event(moment, level, event, trial_id, this_node(), os.getpid(), facts))


def forward(event: Event) -> None:
    """Send an event of another process to this process's subscribers, unchanged."""
    record = _LOG.makeRecord(_LOG.name, event.level, "", 0, event.event, (), None)
    record.created = event.at
    record.happened = event
    _LOG.handle(record)


def event_of(record: logging.LogRecord) -> Event:
    """The event in a log record; for a record of another module, an event "message" with its text."""
    happened = getattr(record, "happened", None)
    if isinstance(happened, Event):
        return happened
    facts = {"from": record.name, "text": record.getMessage()}
    return Event(record.created, record.levelno, "message", "", this_node(), os.getpid(), facts)


@contextmanager
def subscribe(listener: Callable[[Event], None]) -> Iterator[None]:
    """Call the listener with every event of this process, in the thread that emits it."""
    with handled(_Listener(listener)):
        yield


@contextmanager
def handled(handler: logging.Handler, log: logging.Logger = _LOG) -> Iterator[None]:
    """Add a logging handler to the events of this process, or to another log, inside the block."""
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def collected() -> Iterator[list[dict[str, Any]]]:
    """A list that collects the events emitted inside the block, as JSON, for another process."""
    documents: list[dict[str, Any]] = []
    with subscribe(lambda event: documents.append(asdict(event))):
        yield documents


def forward_all(documents: Iterable[Mapping[str, Any]]) -> None:
    """Send events that another process has collected to this process's subscribers."""
    for document in documents:
        forward(Event(**document))


@cache
def this_node() -> str:
    """The name of this machine."""
    return socket.gethostname()


class _Listener(logging.Handler):
    def __init__(self, listener: Callable[[Event], None]) -> None:
        super().__init__()
        self._listener = listener

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the event to the listener."""
        self._listener(event_of(record))
