"""The option that names a performance model."""

from __future__ import annotations

from pathlib import Path

import click

model_option = click.option(
    "--performance-model",
    "model_file",
    type=click.Path(path_type=Path),
    help="A fitted model.  [default: your own of `advisor fit`, else the one that ships]",
)
