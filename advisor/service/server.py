"""Runs the service with Granian: checks before it listens, the server's settings, and a clean end."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import time
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer
from granian.utils.proxies import wrap_asgi_with_proxy_headers

from advisor.errors import AdvisorError, Terminated, UsageError
from advisor.service.audit import AuditLog
from advisor.service.settings import Settings
from advisor.store.keys import ApiKeys
from advisor.sweeps.machine.processes import end_with_parent

MOST_HEAD_BYTES = 16 * 1024
_HEAD_SECONDS = 10
_MOST_CONNECTIONS, _OTHER_FILES = 8192, 128
# How long answers in progress may take once the server is told to end. A client that follows a sweep
# would otherwise keep it running for hours.
_GRACE_SECONDS = 10
_APPLICATION = "advisor.service.server:worker_application"
# A variable of prometheus-client, which reads it when it is imported.
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


# Data that forked workers inherit; spawned ones find nothing here and load it themselves.
_LOADED: dict[str, Any] = {}


class _Server(MPServer):
    """A Granian server that remembers which signal ended it."""

    ended_by: int | None = None

    def signal_handler_interrupt(self, *arguments: Any, **named: Any) -> None:
        self.ended_by = arguments[0]
        super().signal_handler_interrupt(*arguments, **named)  # type: ignore[no-untyped-call]


def run(settings: Settings) -> None:
    """Serve until Ctrl-C or SIGTERM. Answers in progress are finished first; then `KeyboardInterrupt` (exit
    code 130) or `Terminated` (143) is raised. `AdvisorError` if a worker cannot start."""
    settings.to_environment()
    server = _Server(_APPLICATION, **server_settings(settings))
    try:
        with _metrics_folder(settings.workers):
            # Loaded before the fork: workers share the memory, and a damaged file causes only one error.
            from advisor.answers.context import load_context
            from advisor.service import app as _app  # noqa: F401

            _LOADED["context"] = load_context()
            server.serve()
    except SystemExit:  # a worker failed to start; its exit code has another meaning here
        raise AdvisorError("the service could not start", hint="its log says why") from None
    raise Terminated if server.ended_by == signal.SIGTERM else KeyboardInterrupt


def server_settings(settings: Settings) -> dict[str, Any]:
    """Granian's settings: limits on request heads (16 KiB, 10 s), restarted workers, TLS, logging."""
    certificate, key = settings.tls_certificate, settings.tls_key
    return {
        "address": address_of(settings)[0],
        "port": settings.port,
        "interface": Interfaces.ASGI,
        "factory": True,
        "workers": settings.workers,
        "http": HTTPModes.http1,
        "http1_settings": HTTP1Settings(
            header_read_timeout=1000 * _HEAD_SECONDS, max_buffer_size=MOST_HEAD_BYTES
        ),
        "websockets": False,
        "backlog": _MOST_CONNECTIONS,
        "backpressure": _most_connections(),
        "log_level": LogLevels.warning,
        "log_dictconfig": logging_settings(settings.log_level),
        "respawn_failed_workers": True,
        "workers_kill_timeout": _GRACE_SECONDS,
        "ssl_cert": Path(certificate) if certificate else None,
        "ssl_key": Path(key) if key else None,
        "ssl_protocol_min": SSLProtocols.tls12,
    }


def _most_connections() -> int:
    """The number of connections that a worker may hold at once. It raises the limit on open files as far as
    allowed: slow clients, which need no key to occupy connections, must be thousands to block others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(_OTHER_FILES, most - _OTHER_FILES)


def worker_application() -> Any:
    """The ASGI application of a worker process, with the settings from the environment."""
    # End with the server, even if that is killed: a worker that survives would keep answering on the port.
    parent = multiprocessing.parent_process()
    end_with_parent(signal.SIGTERM, parent.pid if parent else None)
    from advisor.service.app import create_app

    settings = Settings.from_environment()
    app = create_app(settings, _LOADED.get("context"))
    proxy = settings.trusted_proxy
    # The client's address is that of the connection, unless a trusted proxy names another one.
    return wrap_asgi_with_proxy_headers(app, [proxy]) if proxy else app


def check_may_listen(settings: Settings) -> None:
    """Raise `UsageError` if the port is taken, or if there is no working key although others can reach the
    service (by an address other than loopback or a public name). Raise `DataError` if the audit log cannot be
    written or the store cannot be read."""
    AuditLog(settings.audit_log).check()
    with closing(ApiKeys(settings.database_url, reading=True)) as book:
        has_key = any(key.works(time.time()) for key in book.all())
    if not has_key and (settings.public_hosts or not settings.is_loopback):
        hint = "make one: advisor keys add NAME --scope read"
        if settings.is_loopback:
            raise UsageError("--public-host needs keys: others will ask under that name", hint=hint)
        raise UsageError(
            "--host {host}: without keys the service listens on this machine only",
            host=settings.host,
            hint=f"{hint}, or leave --host out",
        )
    host, port = address_of(settings)
    # With SO_REUSEPORT a second server would silently share a port that is taken.
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                "the service cannot listen on {host}:{port} ({reason})",
                host=host,
                port=port,
                reason=error.strerror,
                hint="name another port from 1024 on with --port, or end the program that has it",
            ) from None


def address_of(settings: Settings) -> tuple[str, int]:
    """The IP address and port to listen on. Raises `UsageError` if the host cannot be resolved."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError:
        raise UsageError(
            "--host {host} is no address", host=settings.host, hint="name one, as 127.0.0.1"
        ) from None
    host, port, *_ = found[0][4]
    return str(host), int(port)


def url_of(settings: Settings) -> str:
    """The URL at which a browser reaches the service."""
    host, port = address_of(settings)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_certificate else 'http'}://{shown}:{port}"


def logging_settings(level: str) -> dict[str, Any]:
    """Settings for `logging.config.dictConfig`: JSON lines on stderr; libraries usually log warnings only."""
    own = "ERROR" if level == "error" else "WARNING" if level == "warning" else "INFO"
    others = {"debug": "DEBUG", "error": "ERROR"}.get(level, "WARNING")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": "pythonjsonlogger.json.JsonFormatter",
                "fmt": ["message", "levelname", "name"],
                "timestamp": "at",
                "rename_fields": {"message": "event", "levelname": "level", "exc_info": "trace"},
                "exc_info_as_array": True,
            }
        },
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["lines"], "level": others},
        "loggers": {"advisor.service": {"level": own}},
    }


def _metrics_folder(workers: int) -> AbstractContextManager[object]:
    """A context with a temporary folder for the metrics of several workers, unless the operator set one."""
    if workers == 1 or os.environ.get(_METRICS_VARIABLE):
        return nullcontext()
    folder = tempfile.TemporaryDirectory(prefix="advisor-metrics-")
    os.environ[_METRICS_VARIABLE] = folder.name
    return folder
