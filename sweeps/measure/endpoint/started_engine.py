"""Starts an engine on a free port of this machine, and ends it after its use."""

from __future__ import annotations

import http.client
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import IO, NamedTuple

from msgspec import Struct

from advisor.errors import MeasuringError, one_line
from advisor.messages import Message
from advisor.sweeps.machine.processes import end_group
from advisor.sweeps.measure.endpoint.engine_commands import HOST
from advisor.sweeps.trial.child import worker_environment
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag

_GUARD = (sys.executable, "-P", "-m", "advisor.sweeps.measure.endpoint.engine_guard")
_POLL_EVERY_SECONDS = 0.1
_REPORT_EVERY_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
# As long as the guard gives the engine, and a little more.
_SECONDS_TO_END = 15.0
_SHOWN = 600

Progress = Callable[[str], None]


class RunningEngine(Struct, frozen=True):
    """A running engine. `listening_seconds` is from its start to the first connection, `ready_seconds` to the
    first sign of health: the model is loaded then. `last_words` gives the end of its output, in one line."""

    url: str
    command: tuple[str, ...]
    listening_seconds: float
    ready_seconds: float
    last_words: Callable[[], str]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on at this moment."""
    with ExitStack() as stack:
        probes = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class EngineStart(NamedTuple):
    """A command that serves at a port; `gpus` are the only ones that it sees, as CUDA counts them:
    '0,1'. Empty: all."""

    command: Sequence[str]
    port: int
    gpus: str = ""


class _Begun(NamedTuple):
    start: EngineStart
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    at_seconds: float

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.monotonic() - self.at_seconds

    def serving(self, listening_seconds: float) -> RunningEngine:
        """The running engine, once it is ready."""
        return RunningEngine(
            f"http://{HOST}:{self.start.port}",
            tuple(self.start.command),
            listening_seconds,
            self.seconds,
            partial(_last, self.log),
        )


@contextmanager
def running_engines(
    starts: Sequence[EngineStart], *, patience_seconds: float, report: Progress
) -> Iterator[list[RunningEngine]]:
    """The engines, once all serve; gone on leaving, however that comes.

    `MeasuringError` with the end of its output where one ends before, or is not ready in time.
    """
    with ExitStack() as stack:
        begun = [stack.enter_context(_begun(start, report)) for start in starts]
        yield _ready(begun, patience_seconds, report)


@contextmanager
def _begun(start: EngineStart, report: Progress) -> Iterator[_Begun]:
    environment = worker_environment() | {OWNER_VARIABLE: str(own_tag())}
    if start.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = start.gpus
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*_GUARD, *start.command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            report(f"starting {' '.join(start.command)}")
            yield _Begun(start, process, log, time.monotonic())
        finally:
            _end(process)


def _ready(begun: Sequence[_Begun], patience_seconds: float, report: Progress) -> list[RunningEngine]:
    """All engines, each asked in turn, so that none waits for another to be ready."""
    attempts = [_attempts(engine, patience_seconds, report) for engine in begun]
    engines: list[RunningEngine | None] = [None] * len(begun)
    next_report_seconds = _REPORT_EVERY_SECONDS
    while True:
        engines = [known or next(more) for known, more in zip(engines, attempts, strict=True)]
        ready = [engine for engine in engines if engine is not None]
        if len(ready) == len(begun):
            return ready
        if (seconds := begun[0].seconds) > next_report_seconds:
            next_report_seconds += _REPORT_EVERY_SECONDS
            report(f"not ready after {seconds:.0f} s")
        time.sleep(_POLL_EVERY_SECONDS)


def _attempts(engine: _Begun, patience_seconds: float, report: Progress) -> Iterator[RunningEngine | None]:
    """None until it is ready, for as long as there is patience."""
    listening = math.nan
    while True:
        _require_running(engine)
        if math.isnan(listening) and _listens(engine.start.port):
            listening = engine.seconds
        if not math.isnan(listening) and _is_healthy(engine.start.port):
            report(f"ready after {engine.seconds:.1f} s")
            yield engine.serving(listening)
        if engine.seconds >= patience_seconds:
            raise _too_slow(engine, patience_seconds)
        yield None


def _require_running(engine: _Begun) -> None:
    if (code := engine.process.poll()) is not None:
        raise MeasuringError(
            "{program} ended with exit code {status} before it served: {output}",
            program=engine.start.command[0],
            status=code,
            output=_last(engine.log) or "it said nothing",
        )


def _too_slow(engine: _Begun, patience_seconds: float) -> MeasuringError:
    return MeasuringError(
        "{program} did not serve within {seconds:.0f} s: {output}",
        program=engine.start.command[0],
        seconds=patience_seconds,
        output=_last(engine.log) or "it said nothing",
        hint=Message("start it yourself, and measure it by --endpoint"),
    )


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection((HOST, port), timeout=1.0)):
        return True
    return False


def _is_healthy(port: int) -> bool:
    """vLLM, llama.cpp and transformers answer /health with 200 once the model is loaded; the
    server of llama-cpp-python has no such route, and listens only then."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status in (200, 404)
    return False


def _last(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 4 * _SHOWN))
    return one_line(log.read().decode(errors="replace"))[-_SHOWN:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The guard ends the engine when its input ends; where it does not, both are killed."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        end_group(process, 1.0)
