"""`python -m infra.language_models FETCHED`: writes advisor/data/language/models.csv."""

from __future__ import annotations

from pathlib import Path

import click

from infra.language_models.table import lines
from models.language.language_model_table import COLUMNS, TABLE


@click.command()
@click.argument("fetched", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=TABLE, show_default=True)
def main(fetched: Path, out: Path) -> None:
    """Build the table from FETCHED (model_configs.csv) and added.csv."""
    built = lines(fetched)
    text = "\n".join(
        [",".join(COLUMNS), *(",".join(line[name] for name in COLUMNS) for line in built)]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    names = sum(line["names"].count(";") + 1 for line in built if not line["uncovered"])
    click.echo(f"{len(built)} lines, {names} models that are covered, {len(text)} bytes", err=True)


if __name__ == "__main__":
    main()
