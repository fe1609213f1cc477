"""The socket that all workers share: taken before anything is loaded."""

from __future__ import annotations

import errno
import socket

from advisor.errors import UsageError

_WORDS = {
    errno.EADDRINUSE: "is taken by another program; name another with --port, or end that one",
    errno.EACCES: "may not be taken by this user; name one above 1023 with --port",
}


def listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    """A bound socket; `UsageError` where the port is taken, or the host is no address of this
    machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise UsageError(f"--host {host} is no address; name one, as 127.0.0.1") from None
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen(backlog)
        one.set_inheritable(True)
    except OSError as error:
        one.close()
        words = _WORDS.get(error.errno or 0, f"cannot be listened on: {error.strerror}")
        where = f"{host}:{port}" if error.errno == errno.EADDRNOTAVAIL else f"port {port}"
        raise UsageError(f"{where} {words}") from None
    return one


def address_of(one: socket.socket, *, tls: bool) -> str:
    """The URL that it is reached by."""
    host, port = one.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{port}"
