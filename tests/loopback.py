"""A server of HTTP on loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext


@contextmanager
def on_loopback(
    handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None
) -> Iterator[ThreadingHTTPServer]:
    """Answers in threads for as long as the block runs, and logs nothing."""
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
