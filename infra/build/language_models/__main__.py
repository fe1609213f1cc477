"""`python -m advisor.infra.build.language_models`: writes advisor/data/language/models.csv."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.infra.build.language_models.table import FETCHED, lines, written
from advisor.models.language.configs import TABLE


@click.command()
@click.option(
    "--fetched",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=FETCHED,
    show_default="model_configs.csv beside this",
    help="Configurations as they were fetched.",
)
@click.option("--out", type=click.Path(path_type=Path), default=TABLE, show_default="the bundle")
def main(fetched: Path, out: Path) -> None:
    """Build the table from the fetched configurations and added.csv."""
    built = lines(fetched)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(written(built), encoding="utf-8")
    names = sum(line["names"].count(";") + 1 for line in built if not line["uncovered"])
    click.echo(f"{len(built)} lines, {names} models that are covered", err=True)


if __name__ == "__main__":
    main()
