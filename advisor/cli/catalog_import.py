"""`advisor catalog import`: offers of the user's own."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import click

from advisor.catalog import load_catalog
from advisor.catalog.bundle import own_imports
from advisor.catalog.imported import remove
from advisor.catalog.importing import Imported, import_file, imports_in
from advisor.cli.questions import Day, Name, Text
from advisor.errors import UsageError
from advisor.render.text import table


@click.command("import")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--name", type=Text("--name"), help="Name of the import.  [default: the file's]")
@click.option("--as-of", type=Day("--as-of"), help="Date of a SkyPilot catalogue.")
@click.option("--list", "listing", is_flag=True, help="List the imports.")
@click.option("--remove", "removed", metavar="NAME", help="Remove an import.")
@click.option("-o", "--output", type=Name("output format", ("table", "json")), default="table",
              show_default=True)  # fmt: skip
def import_offers(
    file: Path | None,
    name: str | None,
    as_of: date | None,
    listing: bool,
    removed: str | None,
    output: str,
) -> None:
    """Add your own machines, free services or other clouds from a CSV file.

    docs/catalog.md has the columns. SkyPilot's vms.csv and disk prices of a known cloud work too.
    A file is taken as a whole or not at all.

    \b
    advisor catalog import docs/examples/free_services.csv
    advisor catalog import vms.csv --name lambda --as-of 2026-07-20
    """
    if sum((file is not None, listing, removed is not None)) != 1:
        raise UsageError("name one CSV file, or --list, or --remove NAME")
    folder = own_imports()
    if removed is not None:
        remove(folder, removed)
        click.echo(f"removed {removed}", err=True)
        return
    told = imports_in(folder) if file is None else [_take(file, name, folder, as_of)]
    click.echo(_document(told) if output == "json" else _text(told, file))


def _take(file: Path, name: str | None, folder: Path, as_of: date | None) -> Imported:
    return import_file(file, name, folder, load_catalog(), as_of=as_of)


def _document(told: list[Imported]) -> str:
    imports = [
        {
            "name": one.name,
            "offers": one.offers,
            "disk_prices": one.disk_prices,
            "left_out": one.left_out,
        }
        for one in told
    ]
    return json.dumps({"schema": "advisor.catalog-imports/1", "imports": imports}, indent=2)


def _text(told: list[Imported], file: Path | None) -> str:
    if not told:
        return "nothing has been imported"
    rows = [
        [one.name, cloud, str(count), str(one.left_out)]
        for one in told
        for cloud, count in one.offers.items()
    ]
    rows += [
        [one.name, cloud, f"{count} (disk prices)", "0"]
        for one in told
        for cloud, count in one.disk_prices.items()
    ]
    lines = table(["import", "cloud", "offers", "lines left out"], rows, right=(2, 3))
    if file is not None:
        cloud = next(iter(told[0].offers or told[0].disk_prices))
        lines.append(f"Ask with --cloud {cloud}, or --cloud any.")
    return "\n".join(lines)
