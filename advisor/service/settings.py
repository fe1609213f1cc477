"""Settings of the service."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

# Brings the settings to worker processes.
VARIABLE = "ADVISOR_SERVICE"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of the service: its address, and the requests that it lets in. Sizes are bytes.

    `allowed_code` are the references `file.py:build` that clients may use, by the name they use;
    `allowed_data` likewise the paths of data sets. `database_url` None is the store's own default."""

    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    log_level: str = "info"
    database_url: str | None = None
    allowed_code: Mapping[str, str] = field(default_factory=dict)
    allowed_data: Mapping[str, str] = field(default_factory=dict)
    most_body_bytes: int = 1024 * 1024
    most_import_bytes: int = 64 * 1024 * 1024
    # Requests a second of each key, or address without keys, in each worker; 0 is no limit.
    rate_limit: float = 100.0
    # Answers that a worker computes at once, slow ones apart, and that may wait for their turn:
    # threads share one interpreter, so more of them would only keep each other waiting.
    most_at_once: int = 1
    most_slow_at_once: int = 1
    most_waiting: int = 256
    # Names that it has besides localhost; None is the user's audit.jsonl.
    public_hosts: tuple[str, ...] = ()
    audit_log: str | None = None
    # The address of a proxy whose X-Forwarded-For and -Proto are believed; PEM files.
    trusted_proxy: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    # Whether /mcp answers agents.
    mcp: bool = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def to_environment(self) -> None:
        """Leave it where worker processes find it."""
        os.environ[VARIABLE] = msgspec.json.encode(self).decode()

    @classmethod
    def from_environment(cls) -> Settings:
        """The settings that `to_environment` left, else the defaults."""
        return msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=cls)
