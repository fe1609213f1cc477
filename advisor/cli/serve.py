"""`advisor serve`, `keys` and `mcp`: answers over HTTP, API keys for them, and tools for agents."""

from __future__ import annotations

import math
import os
import re
import signal
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.main import handled_signals
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import output_option, question_options, typed_option
from advisor.domain.workload import is_own_code, own_file
from advisor.errors import UsageError
from advisor.messages import option_name, size_text
from advisor.quantities import parse_memory_mib, read_number
from advisor.questions.fields import Choice, File, Flag, Kind, Number, Parsed, Text, Texts, error_in
from advisor.questions.question import Question, ask
from advisor.records import asdict
from advisor.render.text import table
from advisor.runs.schedules import iso_text
from advisor.service.settings import Settings

if TYPE_CHECKING:
    from advisor.store.keys import StoredKey


LIST = "advisor.keys/1"
_DAYS = ("created_at", "expires_at", "last_used_at")
_COLUMNS = ("id", "name", "scope", "state", "created", "expires", "last used")
_audit_option = click.option(
    "--audit-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Audit log.  [default: audit.jsonl in the user data directory]",
)


@click.group()
def keys() -> None:
    """Keys of `advisor serve`. The store is ADVISOR_DATABASE_URL; it has only their digests.

    \b
    advisor keys add grafana --scope read --expires 90d
    advisor keys revoke grafana"""


@keys.command()
@click.argument("name")
@typed_option(
    Choice("scope", ("read", "measure", "admin")),
    "--scope",
    required=True,
    help="read: ask; measure: also import, sweep and schedule; admin: also AWS.",
)
@typed_option(Kind(), "--expires", metavar="TIME", help="Lifetime: 12h, 90d or 1y.  [default: unlimited]")
@_audit_option
def add(name: str, scope: str, expires: str | None, audit_log: Path | None) -> None:
    """Create a key and print it once; it cannot be shown again.

    From the first key on every request needs one, on this machine too."""
    from advisor.service.audit import AuditLog
    from advisor.store.keys import ApiKeys, parse_lifetime_seconds

    lifetime = parse_lifetime_seconds(expires) if expires else None
    log = AuditLog(audit_log)
    log.check()
    with closing(ApiKeys()) as book:
        first = not book.all()
        key, kept = book.add(name, scope, lifetime_seconds=lifetime, now=time.time())
        log.write("key-added", key=kept.key_id, name=kept.name, scope=kept.scope)
    click.echo(key)
    until = f" until {iso_text(kept.expires_at)}" if kept.expires_at else ""
    locked = " From now on every request needs a key." if first else ""
    tell(
        f"Key '{kept.name}' ({kept.key_id}, scope {kept.scope}){until}. Keep it: it is not shown "
        f"again. Send it as 'Authorization: Bearer adv_..'.{locked}"
    )


@keys.command("list")
@output_option
def list_(output: str) -> None:
    """List keys, revoked ones too, without their secrets."""
    from advisor.store.keys import ApiKeys

    with closing(ApiKeys(reading=True)) as book:
        keys_there, database = book.all(), book.name
    now = time.time()
    described = [_document(key, now) for key in keys_there]
    document = {"schema": LIST, "at": iso_text(now), "database": database, "keys": described}
    rows = [
        (key["id"], key["name"], key["scope"], key["state"], *((key[day] or "never")[:10] for day in _DAYS))
        for key in described
    ]
    none = "No keys yet: `advisor serve` answers on this machine only; see `advisor keys add -h`."
    print_answer(output, document, lambda: table(_COLUMNS, rows) if rows else none)


@keys.command()
@click.argument("name", metavar="NAME|ID")
@_audit_option
def revoke(name: str, audit_log: Path | None) -> None:
    """Revoke a key by name or id, and the logins made with it.

    Running services refuse it within two seconds."""
    from advisor.service.audit import AuditLog
    from advisor.store.keys import ApiKeys

    log, now = AuditLog(audit_log), time.time()
    log.check()
    with closing(ApiKeys()) as book:
        gone = book.revoke(name, now=now)
        if gone.revoked_at == now:
            log.write("key-revoked", key=gone.key_id, name=gone.name, scope=gone.scope)
    again = "" if gone.revoked_at == now else f" already, on {iso_text(gone.revoked_at)}"
    click.echo(f"Revoked key '{gone.name}' ({gone.key_id}){again}.")


def _state(key: StoredKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "works" if key.works(now) else "expired"


def _document(key: StoredKey, now: float) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "scope": key.scope,
        "state": _state(key, now),
        **{name: iso_text(getattr(key, name)) for name in (*_DAYS, "revoked_at")},
    }


@click.command()
def mcp() -> None:
    """Answer an agent over standard input and output (Model Context Protocol).

    The agent's program starts it and lists it as a server of the kind stdio:

    \b
    {"mcpServers": {"advisor": {"command": "advisor", "args": ["mcp"]}}}

    Its tools only read: recommend, predict, compare, memory, networks, offers, explain. Over HTTP
    with API keys: advisor serve --mcp"""
    import anyio

    from advisor.agents import serve_stdio

    with handled_signals(_leave, (signal.SIGINT, signal.SIGTERM)):
        anyio.run(serve_stdio, version("instance-sizing-advisor"))


def _leave(number: int, _frame: FrameType | None) -> None:
    """Exit at once: a thread blocks on standard input, and nothing needs cleaning up."""
    os._exit(128 + number)


_MOST_BODY_MIB = 1024.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def request_rate(text: str | float) -> float:
    """Parse '50/s' or '50' as 50.0 requests per second; 0 means no limit."""
    number = read_number(str(text).strip().removesuffix("/s"))
    if not 0 <= number < math.inf:
        raise UsageError(f"'{text}' is no rate", field="rate_limit", hint="write 50/s, or 0 for no limit")
    return number


def body_bytes(text: str | int) -> int:
    """Parse a size such as '1MiB' as bytes (1048576); `UsageError` above 1 GiB."""
    size = parse_memory_mib(str(text))
    if size > _MOST_BODY_MIB:
        raise UsageError(
            f"--max-body '{text}' is more than 1GiB", field="max_body", hint="a body must fit into memory"
        )
    return max(1, round(size * 1024**2))


def allowed_data(text: str) -> tuple[str, str]:
    """Parse NAME=PATH of `--allow-data`; `UsageError` if PATH is neither a data set nor an address."""
    from advisor.sweeps.datasets.opening import profile_folder
    from advisor.sweeps.datasets.remote import is_address

    name, path = _named(text, "allow_data", "photos=/data/photos")
    if is_address(path):
        return name, path
    folder = Path(path).absolute()
    profile_folder(folder)  # raises if the folder holds no samples
    return name, str(folder)


def allowed_code(text: str) -> tuple[str, str]:
    """Parse NAME=FILE.py:BUILD of `--allow-code`; `UsageError` if there is no such file."""
    name, reference = _named(text, "allow_code", "mynet=/nets/mynet.py:build")
    file = Path(own_file(reference)[0]).absolute()
    if not is_own_code(reference) or not file.is_file():
        raise UsageError(
            f"--allow-code {text}: there is no file {file}", field="allow_code", hint="write FILE.py:FUNCTION"
        )
    return name, str(Path(reference).absolute())


def _named(text: str, field: str, example: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (equals and value and _NAME.fullmatch(name)):
        text = f"{option_name(field)} takes a name and what it stands for, not '{text}'"
        raise UsageError(text, field=field, hint=f"write {example}")
    return name, value


class _Allowed(Parsed):
    """A repeatable option that allows clients to use a data set or network by a name."""

    repeats = True


class Serving(Question):
    """Where the service listens, whom it lets in, and what clients may name."""

    host: str = ask("Address to listen on. Other than loopback needs API keys.", Kind(), default="127.0.0.1")
    port: int = ask("", Number(whole=True, most=65535), default=8765)
    workers: int = ask("Number of worker processes.", Number(whole=True, most=64), default=1)
    log_level: str = ask("", Choice("log level", ("debug", "info", "warning", "error")), default="info")
    rate_limit: float = ask(
        "Requests per second of each key (or address) in each worker; 0: unlimited.",
        Parsed(request_rate, "{:g}/s".format, "N/s"),
        default=100.0,
    )
    max_body: int = ask(
        "Largest request body; imports have a limit of their own.",
        Parsed(body_bytes, lambda size: size_text(size / 2**20), "SIZE"),
        default=2**20,
    )
    public_host: tuple[str, ...] = ask(
        "Host name besides localhost, as behind a proxy. Repeatable.", Texts("NAME"), default=()
    )
    trusted_proxy: str | None = ask(
        "Address of a proxy whose X-Forwarded-For and -Proto are trusted.", Text("ADDRESS")
    )
    tls_certificate: Path | None = ask("TLS certificate (PEM); needs --tls-key.", File())
    tls_key: Path | None = ask("", File())
    audit_log: Path | None = ask("Audit log of changes.", File(), "audit.jsonl in the user data directory")
    mcp: bool = ask("Answer agents at /mcp (Model Context Protocol).", Flag(), default=False)
    allow_data: tuple[tuple[str, str], ...] = ask(
        "Data set that sweeps may read, under the name that clients use. Repeatable.",
        _Allowed(allowed_data, "=".join, "NAME=PATH"),
        default=(),
    )
    allow_code: tuple[tuple[str, str], ...] = ask(
        "Network file that clients may have measured, under a name. Repeatable.",
        _Allowed(allowed_code, "=".join, "NAME=FILE.py:BUILD"),
        default=(),
    )

    def __post_init__(self) -> None:
        for name in ("tls_certificate", "tls_key"):
            if (file := getattr(self, name)) and not file.is_file():
                raise error_in(name, "{field}: there is no file {file}", file=file)
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise error_in("tls_key", "{tls_certificate} and {field} belong together", hint="name both")


@click.command()
@question_options(Serving)
def serve(question: Serving) -> None:
    """Answer the same questions over HTTP, with a web page.

    \b
    advisor serve
    curl -s localhost:8765/v1/recommend -H 'Content-Type: application/json' \\
        -d '{"task": "inference", "model": "googlenet", "target_throughput": 500}'"""
    from advisor.service.server import check_may_listen, run, url_of

    values = asdict(question)
    files = {name: str(file.absolute()) for name, file in values.items() if isinstance(file, Path)}
    settings = Settings(
        most_body_bytes=values.pop("max_body"),
        public_hosts=values.pop("public_host"),
        allowed_data=dict(values.pop("allow_data")),
        allowed_code=dict(values.pop("allow_code")),
        **values | files,
    )
    check_may_listen(settings)
    if not settings.is_loopback and not settings.tls_certificate:
        click.echo(
            "Without TLS everybody on the way reads the keys: put it behind a proxy that "
            "speaks HTTPS, or name --tls-certificate and --tls-key.",
            err=True,
        )
    click.echo(f"advisor: serving on {url_of(settings)} (Ctrl-C ends it)", err=True)
    run(settings)
