"""`--anchor`: what the user measured."""

from __future__ import annotations

from pathlib import Path

import click

anchor_option = click.option(
    "--anchor",
    "anchors",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What the network reached on one GPU: of `advisor measure`, `measurements export` or a "
    "campaign. Repeatable; --model may then be any name.",
)
