"""`--explain`: why a prediction is what it is."""

from __future__ import annotations

import click

explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Say what binds, what more of each resource would bring, and how far this is from what "
    "was measured.",
)
