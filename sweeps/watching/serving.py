"""Metrics for those who ask (HTTP) and for the node exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from advisor.errors import DataError, MeasuringError
from sweeps.events import WARNING, emit


@contextmanager
def served(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """`http://HOST:PORT/metrics` meanwhile; port 0 takes a free one, which is yielded.

    `MeasuringError` where the port is taken.
    """
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MeasuringError(
            "cannot serve metrics at {host}:{port} ({reason})",
            hint="name another port: --metrics-port, where 0 takes a free one",
            host=host,
            port=port,
            reason=reason,
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TextFile:
    """The metrics in a file, whole at any moment; a file that cannot be written later on is told
    once in the log, and the sweep goes on."""

    def __init__(self, path: Path, registry: CollectorRegistry) -> None:
        # A link keeps pointing; what is no regular file (/dev/null) must not be replaced by one.
        self._path, self._registry, self._reported = path.resolve(), registry, False
        if self._path.exists() and not self._path.is_file():
            raise DataError(
                "'{path}' is no file", hint="name another place: --metrics-file", path=path
            )
        try:
            self._write()
        except OSError as error:
            raise DataError(
                "cannot write '{path}' ({strerror})",
                hint="name another place: --metrics-file",
                path=path,
                strerror=error.strerror,
            ) from error

    def update(self) -> None:
        """Write what the metrics are now."""
        try:
            self._write()
        except OSError as error:
            if not self._reported:
                self._reported = True
                emit("metrics_file_failed", level=WARNING, reason=str(error))

    def _write(self) -> None:
        # Each thread has a part of its own: the runner's and that of the heartbeat write.
        write_to_textfile(str(self._path), self._registry)
