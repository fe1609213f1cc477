"""`advisor mcp`: the tools for agents, over standard input and output."""

from __future__ import annotations

import os
import signal
from importlib.metadata import version
from types import FrameType

import click

from advisor.cli.leaving import handled_signals


@click.command()
def mcp() -> None:
    """Answer an agent over standard input and output (Model Context Protocol).

    The agent's program starts it and lists it as a server of the kind stdio:

    \b
    {"mcpServers": {"advisor": {"command": "advisor", "args": ["mcp"]}}}

    Its tools only read: recommend, predict, compare, memory, networks, offers, explain. Over HTTP
    with API keys: advisor serve --mcp
    """
    import anyio

    from advisor.agents.protocol import serve_stdio

    with handled_signals(_leave, (signal.SIGINT, signal.SIGTERM)):
        anyio.run(serve_stdio, version("instance-sizing-advisor"))


def _leave(number: int, _frame: FrameType | None) -> None:
    """At once: a thread waits for standard input, and only its end would let it go. Nothing was
    taken that must be given back."""
    os._exit(128 + number)
