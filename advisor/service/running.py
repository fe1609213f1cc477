"""Serving with uvicorn: its settings, one process or several, and how it ends."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

from advisor.errors import AdvisorError, Terminated
from advisor.service.listening import listening_socket
from advisor.service.logs import logging_settings
from advisor.service.settings import Settings
from advisor.service.shared_metrics import shared_metrics

if TYPE_CHECKING:
    import uvicorn

_APPLICATION = "advisor.service.app:app_of_worker"
# Connections of one worker, those that only wait included; more are told 503.
_MOST_CONNECTIONS = 1000
_KEEP_ALIVE_SECONDS = 5
_BACKLOG = 1024
# So long may answers that are on their way take once it is told to end; who follows a sweep would
# hold it up for as long as that runs.
_GRACE_SECONDS = 10
_NOT_STARTED = "the service could not start; its log says why"


def uvicorn_settings(settings: Settings) -> dict[str, Any]:
    """What `uvicorn.Config` takes."""
    proxy = settings.trusted_proxy
    return {
        "app": _APPLICATION,
        "factory": True,
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers,
        "log_level": None,
        "log_config": logging_settings(settings.log_level),
        "access_log": False,  # `around` writes it
        "http": "advisor.service.guard.protocol:CarefulProtocol",
        "ws": "none",
        "lifespan": "on",
        "limit_concurrency": _MOST_CONNECTIONS,
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "backlog": _BACKLOG,
        "server_header": False,
        # Who asks is told by the connection, unless a proxy that is trusted says otherwise.
        "proxy_headers": proxy is not None,
        "forwarded_allow_ips": proxy or "",
        "ssl_certfile": settings.tls_certificate,
        "ssl_keyfile": settings.tls_key,
    }


def listen(settings: Settings) -> socket.socket:
    """The socket to serve; `UsageError` where it cannot be had."""
    return listening_socket(settings.host, settings.port, _BACKLOG)


def run(settings: Settings, listening: socket.socket | None = None) -> None:
    """Serve until the process is told to end: Ctrl-C and SIGTERM let answers that are on their way
    go out, and then raise what they raise everywhere (exit codes 130 and 143)."""
    import uvicorn

    settings.to_environment()
    with closing(listening or listen(settings)) as one:
        if settings.workers > 1:
            with shared_metrics():
                _run_several(uvicorn.Config(**uvicorn_settings(settings)), one)
        else:
            _run_here(settings, one)


def _run_here(settings: Settings, listening: socket.socket) -> None:
    """In this process, which loads first: what is damaged is told in one line."""
    import uvicorn

    from advisor.answers.ground import ground_in_use
    from advisor.service.app import create_app

    app = create_app(settings, ground_in_use())
    config = uvicorn.Config(**uvicorn_settings(settings) | {"app": app, "factory": False})
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except SystemExit:  # uvicorn's way to say so has an exit code that means something else here
        raise AdvisorError(_NOT_STARTED) from None


def _run_several(config: uvicorn.Config, listening: socket.socket) -> None:
    """Worker processes on one socket; one that dies is replaced."""
    from uvicorn.supervisors import Multiprocess

    told: list[int] = []

    class Supervisor(Multiprocess):
        """Remembers by which signal it was ended."""

        def handle_int(self) -> None:
            told.append(signal.SIGINT)
            super().handle_int()

        def handle_term(self) -> None:
            told.append(signal.SIGTERM)
            super().handle_term()

    Supervisor(config, [listening]).run()
    if not told:
        raise AdvisorError(_NOT_STARTED)
    raise Terminated if told[0] == signal.SIGTERM else KeyboardInterrupt
