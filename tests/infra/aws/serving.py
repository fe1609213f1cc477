"""The bed's AWS behind a socket on loopback, for whole commands."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from tests.infra.aws.bed import Bed
from tests.infra.aws.faults import Lost
from tests.infra.aws.wire import Environ


@contextmanager
def serving(bed: Bed) -> Iterator[str]:
    """The URL for `AWS_ENDPOINT_URL`, as long as the block runs."""

    def app(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return bed.faulty(environ, start)
        except Lost:
            with suppress(OSError):
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start("200 OK", [])
            return []

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Silent(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Nothing."""
