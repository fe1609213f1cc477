"""Runs the service with Granian: checks before it listens, the server's settings, and a clean end."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import tempfile
import time
from contextlib import closing, nullcontext, suppress
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
_METRICS_PREFIX = "advisor-metrics-"


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
    if (not settings.is_loopback or settings.public_hosts) and not _has_working_key(settings):
        hint = "make one: advisor keys add NAME --scope read"
        if settings.is_loopback:
            raise UsageError("--public-host needs keys: others will ask under that name", hint=hint)
        raise UsageError(
            "--host {host}: without keys the service listens on this machine only",
            host=settings.host,
            hint=f"{hint}, or leave --host out",
        )
    _check_port(settings)


def _has_working_key(settings: Settings) -> bool:
    with closing(ApiKeys(settings.database_url, reading=True)) as book:
        return any(key.works(time.time()) for key in book.all())


def address_of(settings: Settings) -> tuple[str, int]:
    """The IP address and port to listen on. Raises `UsageError` if the host cannot be resolved."""
    return _resolved(settings)[1]


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


def _resolved(settings: Settings) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        family, *_, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise UsageError(
            "--host {host} is no address", host=settings.host, hint="name one, as 127.0.0.1"
        ) from None
    return family, (str(address[0]), int(address[1]))


def _check_port(settings: Settings) -> None:
    """Raise `UsageError` if the port is in use; with SO_REUSEPORT a second server would silently share it."""
    family, address = _resolved(settings)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise _unavailable(settings, error) from None


def _unavailable(settings: Settings, error: OSError) -> UsageError:
    port = settings.port
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            "port {port} is taken by another program",
            port=port,
            hint="name another with --port, or end that one",
        )
    if error.errno == errno.EACCES:
        return UsageError(
            "port {port} may not be taken by this user", port=port, hint="name one above 1023 with --port"
        )
    return UsageError(
        "the service cannot listen on {host}:{port} ({reason})",
        host=settings.host,
        port=port,
        reason=error.strerror,
    )


def _metrics_folder(workers: int) -> Any:
    """A context with a temporary folder for the metrics of several workers, unless the operator set one."""
    if workers == 1 or os.environ.get(_METRICS_VARIABLE):
        return nullcontext()
    _remove_orphans()
    folder = tempfile.TemporaryDirectory(prefix=_METRICS_PREFIX)
    os.environ[_METRICS_VARIABLE] = folder.name
    _lock_of(folder.name)
    return folder


def _remove_orphans() -> None:
    """Delete the metrics folders of servers that were killed, which are those whose lock is free."""
    for path in Path(tempfile.gettempdir()).glob(f"{_METRICS_PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_uid == os.getuid():
                os.close(_lock_of(path))
                shutil.rmtree(path)


def _lock_of(folder: str | Path) -> int:
    """Lock the folder's lock file until this process and its workers end. `OSError` if it is locked."""
    lock = os.open(Path(folder) / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
