"""Metrics for those who ask (HTTP) and for the node exporter's textfile collector."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from advisor.errors import DataError, MeasuringError
from sweeps.events import WARNING, tell
from sweeps.watching.exposition import CONTENT_TYPE

Page = Callable[[], str]


@contextmanager
def served(page: Page, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """`http://HOST:PORT/metrics` meanwhile; port 0 takes a free one, which is yielded.

    `MeasuringError` where the port is taken.
    """
    try:
        server = ThreadingHTTPServer((host, port), _handler(page))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MeasuringError(
            f"cannot serve metrics at {host}:{port} ({reason}); name another port: "
            "--metrics-port, where 0 takes a free one"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TextFile:
    """The page in a file, whole at any moment; a file that cannot be written later on is told
    once in the log, and the sweep goes on."""

    def __init__(self, path: Path, page: Page) -> None:
        # A link keeps pointing; what is no regular file (/dev/null) must not be replaced by one.
        self._path, self._page, self._told = path.resolve(), page, False
        # The runner's thread and that of the heartbeat write: one would move the other's half.
        self._turn = threading.Lock()
        if self._path.exists() and not self._path.is_file():
            raise DataError(f"'{path}' is no file; name another place: --metrics-file")
        try:
            self._write()
        except OSError as error:
            raise DataError(
                f"cannot write '{path}' ({error.strerror}); name another place: --metrics-file"
            ) from error

    def update(self) -> None:
        """Write what the page says now."""
        try:
            with self._turn:
                self._write()
        except OSError as error:
            if not self._told:
                self._told = True
                tell("metrics_file_failed", level=WARNING, reason=str(error))

    def _write(self) -> None:
        # The collector reads *.prom alone, so this name is none of its files.
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        try:
            part.write_text(self._page())
            part.replace(self._path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0  # a client that asks for nothing holds no thread for long

        def do_GET(self) -> None:
            """The page at /metrics, and nothing else."""
            found = self.path.partition("?")[0] == "/metrics"
            body = page().encode() if found else b"metrics are at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody's terminal has to show who scrapes."""

    return Handler
