"""`advisor serve`: the same answers over HTTP, and a page."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli.allow_options import allow_options, allowed_settings
from advisor.cli.questions import Name, Positive, Text
from advisor.cli.serve_options import guard_options, settings_of

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.option(
    "--host",
    type=Text("--host"),
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Other than loopback needs API keys.",
)
@click.option(
    "--port", type=Positive("--port", whole=True, most=65535), default=8765, show_default=True
)
@click.option(
    "--workers",
    type=Positive("--workers", whole=True, most=64),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@click.option("--log-level", type=Name("log level", LEVELS), default="info", show_default=True)
@guard_options
@allow_options
def serve(
    host: str,
    port: int,
    workers: int,
    log_level: str,
    allow_data: tuple[str, ...],
    allow_code: tuple[str, ...],
    **guard: Any,
) -> None:
    """Answer the same questions over HTTP, with a web page.

    \b
    advisor serve
    curl -s localhost:8765/v1/recommend -H 'Content-Type: application/json' \\
        -d '{"task": "inference", "model": "googlenet", "target_throughput": 500}'
    """
    from advisor.service.server import check_may_listen, run, url_of
    from advisor.service.settings import Settings

    settings = Settings(
        host=host, port=port, workers=workers, log_level=log_level, **settings_of(**guard),
        **allowed_settings(allow_data, allow_code),
    )  # fmt: skip
    check_may_listen(settings)
    if not settings.is_loopback and not settings.tls_certificate:
        click.echo("Without TLS everybody on the way reads the keys: put it behind a proxy that "
                   "speaks HTTPS, or name --tls-certificate and --tls-key.", err=True)  # fmt: skip
    click.echo(f"advisor: serving on {url_of(settings)} (Ctrl-C ends it)", err=True)
    run(settings)
