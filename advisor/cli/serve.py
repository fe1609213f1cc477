"""`advisor serve`: the same answers over HTTP, and a page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from advisor.cli.questions import Name, Positive, Text
from advisor.domain.workload import is_own, own_file
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib
from advisor.service.settings import Settings

LEVELS = ("debug", "info", "warning", "error")
_RATE = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)(?:/s)?")
_MOST_BODY_MIB = 1024.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def request_rate(text: str | float) -> float:
    """'50/s' or '50' -> 50.0 requests a second; 0 is no limit."""
    match = _RATE.fullmatch(str(text).strip())
    number = float(match["number"]) if match else math.nan
    if not math.isfinite(number):
        raise UsageError(
            "'{text}' is no rate", text=text, field="rate_limit", hint="write 50/s, or 0 for no limit"
        )
    return number


def body_bytes(text: str | int) -> int:
    """'1MiB' -> 1048576 bytes."""
    size = parse_memory_mib(str(text))
    if size > _MOST_BODY_MIB:
        raise UsageError(
            "--max-body '{text}' is more than 1GiB",
            text=text,
            field="max_body",
            hint="a body must fit into memory",
        )
    return max(1, round(size * 1024**2))


def allowed_data(text: str) -> tuple[str, str]:
    """A name and the data set that it stands for; `UsageError` for what is not there, or no data set."""
    from advisor.sweeps.datasets.opening import profile_folder
    from advisor.sweeps.datasets.remote import is_address

    name, path = _named(text, "allow_data", "photos=/data/photos")
    if is_address(path):
        return name, path
    folder = Path(path).absolute()
    profile_folder(folder)  # refuses what holds no samples
    return name, str(folder)


def allowed_code(text: str) -> tuple[str, str]:
    """A name and the network's file that it stands for; `UsageError` for what is not there."""
    name, reference = _named(text, "allow_code", "mynet=/nets/mynet.py:build")
    file = Path(own_file(reference)[0]).absolute()
    if not is_own(reference) or not file.is_file():
        raise UsageError(
            "--allow-code {text}: there is no file {file}",
            text=text,
            file=file,
            field="allow_code",
            hint="write FILE.py:FUNCTION",
        )
    return name, str(Path(reference).absolute())


def _named(text: str, field: str, example: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (equals and value and _NAME.fullmatch(name)):
        raise UsageError(
            "{option} takes a name and what it stands for, not '{text}'",
            option=FieldName(field),
            text=text,
            field=field,
            hint=Message("write {example}", example=example),
        )
    return name, value


@click.command()
@click.option(
    "--host",
    type=Text("--host"),
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Other than loopback needs API keys.",
)
@click.option("--port", type=Positive("--port", whole=True, most=65535), default=8765, show_default=True)
@click.option(
    "--workers",
    type=Positive("--workers", whole=True, most=64),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@click.option("--log-level", type=Name("log level", LEVELS), default="info", show_default=True)
@click.option(
    "--rate-limit",
    type=request_rate,
    default="100/s",
    show_default=True,
    metavar="N/s",
    help="Requests per second of each key (or address) in each worker; 0: unlimited.",
)
@click.option(
    "--max-body",
    type=body_bytes,
    default="1MiB",
    show_default=True,
    metavar="SIZE",
    help="Largest request body; imports have a limit of their own.",
)
@click.option(
    "--public-host",
    multiple=True,
    type=Text("--public-host"),
    metavar="NAME",
    help="Host name besides localhost, as behind a proxy. Repeatable.",
)
@click.option(
    "--trusted-proxy",
    type=Text("--trusted-proxy"),
    metavar="ADDRESS",
    help="Address of a proxy whose X-Forwarded-For and -Proto are trusted.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="TLS certificate (PEM); needs --tls-key.",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option(
    "--audit-log",
    type=click.Path(),
    metavar="FILE",
    help="Audit log of changes.  [default: audit.jsonl in the user data directory]",
)
@click.option("--mcp", is_flag=True, help="Answer agents at /mcp (Model Context Protocol).")
@click.option(
    "--allow-data",
    multiple=True,
    type=allowed_data,
    metavar="NAME=PATH",
    help="Data set that sweeps may read, under the name that clients use. Repeatable.",
)
@click.option(
    "--allow-code",
    multiple=True,
    type=allowed_code,
    metavar="NAME=FILE.py:BUILD",
    help="Network file that clients may have measured, under a name. Repeatable.",
)
def serve(
    max_body: int,
    public_host: tuple[str, ...],
    allow_data: tuple[tuple[str, str], ...],
    allow_code: tuple[tuple[str, str], ...],
    **guard: Any,
) -> None:
    """Answer the same questions over HTTP, with a web page.

    \b
    advisor serve
    curl -s localhost:8765/v1/recommend -H 'Content-Type: application/json' \\
        -d '{"task": "inference", "model": "googlenet", "target_throughput": 500}'
    """
    from advisor.service.server import check_may_listen, run, url_of

    if bool(guard["tls_certificate"]) != bool(guard["tls_key"]):
        raise UsageError("--tls-certificate and --tls-key belong together", field="tls_key", hint="name both")
    for name in ("audit_log", "tls_certificate", "tls_key"):
        guard[name] = guard[name] and str(Path(guard[name]).absolute())
    settings = Settings(
        most_body_bytes=max_body,
        public_hosts=public_host,
        allowed_data=dict(allow_data),
        allowed_code=dict(allow_code),
        **guard,
    )
    if settings.mcp:
        import mcp as _  # noqa: F401  # what lacks is told before anything starts
    check_may_listen(settings)
    if not settings.is_loopback and not settings.tls_certificate:
        click.echo(
            "Without TLS everybody on the way reads the keys: put it behind a proxy that "
            "speaks HTTPS, or name --tls-certificate and --tls-key.",
            err=True,
        )
    click.echo(f"advisor: serving on {url_of(settings)} (Ctrl-C ends it)", err=True)
    run(settings)
