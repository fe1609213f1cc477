"""Options of `advisor serve` on who may ask, how much and how often."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from advisor.cli.questions import Text
from advisor.errors import UsageError
from advisor.quantities import parse_memory_mib

Command = TypeVar("Command", bound=Callable[..., Any])
_RATE = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?:/s)?")
_MOST_BODY_MIB = 1024.0


def request_rate(text: str | float) -> float:
    """'50/s' or '50' -> 50.0 requests a second; 0 is no limit."""
    match = _RATE.fullmatch(str(text).strip())
    number = float(match["number"]) if match else math.nan
    if not math.isfinite(number):
        raise UsageError(f"--rate-limit must be like 50/s, or 0 for none, not '{text}'")
    return number


def body_bytes(text: str | int) -> int:
    """'1MiB' -> 1048576 bytes."""
    size = parse_memory_mib(str(text))
    if size > _MOST_BODY_MIB:
        raise UsageError(f"--max-body '{text}' is beyond 1GiB, and must fit into memory")
    return max(1, round(size * 1024**2))


def guard_options(command: Command) -> Command:
    """All of them; the names are those of `Settings`, but for `max_body`, `public_host`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_of(max_body: int | None, public_host: tuple[str, ...], **same: Any) -> dict[str, Any]:
    """The options as `Settings` takes them. `UsageError` for a half of TLS."""
    if bool(same["tls_certificate"]) != bool(same["tls_key"]):
        raise UsageError("--tls-certificate and --tls-key belong together; name both")
    paths = {
        name: str(Path(same[name]).absolute())
        for name in ("audit_log", "tls_certificate", "tls_key")
        if same[name]
    }
    body = {} if max_body is None else {"most_body_bytes": max_body}
    return {**same, **paths, **body, "public_hosts": public_host}


_OPTIONS = (
    click.option(
        "--rate-limit", type=request_rate, default="100/s", show_default=True, metavar="N/s",
        help="Requests per second of each key (or address) in each worker; 0: unlimited.",
    ),
    click.option(
        "--max-body", type=body_bytes, metavar="SIZE",
        help="Largest request body; imports have a limit of their own.  [default: 1MiB]",
    ),
    click.option(
        "--public-host", multiple=True, type=Text("--public-host"), metavar="NAME",
        help="Host name besides localhost, as behind a proxy. Repeatable.",
    ),
    click.option(
        "--trusted-proxy", type=Text("--trusted-proxy"), metavar="ADDRESS",
        help="Address of a proxy whose X-Forwarded-For and -Proto are trusted.",
    ),
    click.option(
        "--tls-certificate", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="TLS certificate (PEM); needs --tls-key.",
    ),
    click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE"),
    click.option(
        "--audit-log", type=click.Path(), metavar="FILE",
        help="Audit log of changes.  [default: audit.jsonl in the user data directory]",
    ),
)  # fmt: skip
