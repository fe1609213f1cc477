"""Serving with uvicorn: its settings, and nothing else."""

from __future__ import annotations

from typing import Any

from advisor.service.settings import Settings

_APPLICATION = "advisor.service.app:app_of_worker"
# Connections of one worker, those that only wait included; more are told 503.
_MOST_CONNECTIONS = 1000
_KEEP_ALIVE_SECONDS = 5
_BACKLOG = 1024
_LAST_ANSWERS_SECONDS = 5


def uvicorn_settings(settings: Settings) -> dict[str, Any]:
    """What `uvicorn.run` takes."""
    proxy = settings.trusted_proxy
    return {
        "app": _APPLICATION,
        "factory": True,
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers,
        "log_level": settings.log_level,
        "http": "advisor.service.guard.protocol:CarefulProtocol",
        "ws": "none",
        "limit_concurrency": _MOST_CONNECTIONS,
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "backlog": _BACKLOG,
        # Who follows a sweep would hold up the end of the server for as long as that runs.
        "timeout_graceful_shutdown": _LAST_ANSWERS_SECONDS,
        "server_header": False,
        # Who asks is told by the connection, unless a proxy that is trusted says otherwise.
        "proxy_headers": proxy is not None,
        "forwarded_allow_ips": proxy or "",
        "ssl_certfile": settings.tls_certificate,
        "ssl_keyfile": settings.tls_key,
    }


def run(settings: Settings) -> None:
    """Serve until the process is told to end."""
    import uvicorn

    settings.to_environment()
    uvicorn.run(**uvicorn_settings(settings))
