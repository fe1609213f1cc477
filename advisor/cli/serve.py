"""`advisor serve`: the same answers over HTTP, and a page."""

from __future__ import annotations

import click

from advisor.cli.parameters import Name, Positive, Text

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.option(
    "--host",
    type=Text("--host"),
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; another than loopback needs API keys.",
)
@click.option(
    "--port", type=Positive("--port", whole=True, most=65535), default=8765, show_default=True
)
@click.option(
    "--workers",
    type=Positive("--workers", whole=True, most=64),
    default=1,
    show_default=True,
    help="Processes that answer.",
)
@click.option("--log-level", type=Name("log level", LEVELS), default="info", show_default=True)
def serve(host: str, port: int, workers: int, log_level: str) -> None:
    """Answer over HTTP, and show a page.

    \b
    advisor serve
    curl -s localhost:8765/v1/recommend -H 'Content-Type: application/json' \\
        -d '{"task": "inference", "model": "googlenet", "target_throughput": 500}'
    """
    import uvicorn

    from advisor.service.settings import Settings

    settings = Settings(host=host, port=port, workers=workers, log_level=log_level)
    settings.to_environment()
    uvicorn.run(
        "advisor.service.app:app_of_worker", factory=True, host=host, port=port, workers=workers,
        log_level=log_level,
    )  # fmt: skip
