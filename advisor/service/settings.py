"""The settings of the service, which reach worker processes by an environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

# The environment variable that passes the settings to worker processes, as JSON.
VARIABLE = "ADVISOR_SERVICE"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of the service: its address and its limits. Sizes are in bytes.

    `allowed_code` maps the names that clients may use to references `file.py:build`, and `allowed_data`
    maps names to paths of data sets. `database_url` None means the default database."""

    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    log_level: str = "info"
    database_url: str | None = None
    allowed_code: Mapping[str, str] = field(default_factory=dict)
    allowed_data: Mapping[str, str] = field(default_factory=dict)
    most_body_bytes: int = 1024 * 1024
    most_import_bytes: int = 64 * 1024 * 1024
    # Requests per second for each key (or address, without a key) in each worker; 0 means no limit.
    rate_limit: float = 100.0
    # Quick and slow answers that a worker computes at once, and requests that may wait in each queue.
    # Python threads share one interpreter, so more of them would only slow each other down.
    most_at_once: int = 1
    most_slow_at_once: int = 1
    most_waiting: int = 256
    # Host names of the service besides localhost; `audit_log` None is audit.jsonl in the user's folder.
    public_hosts: tuple[str, ...] = ()
    audit_log: str | None = None
    # The address of a proxy whose X-Forwarded-For and -Proto are trusted; then two PEM files.
    trusted_proxy: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    # Whether agents may call tools at /mcp (Model Context Protocol).
    mcp: bool = False

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the service."""
        return self.host in LOOPBACK

    def to_environment(self) -> None:
        """Write the settings to the environment, where worker processes read them."""
        os.environ[VARIABLE] = msgspec.json.encode(self).decode()

    @classmethod
    def from_environment(cls) -> Settings:
        """The settings that `to_environment` wrote, or else the defaults."""
        return msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=cls)
