"""Rebuild the bundled catalogue snapshot: `python -m advisor.infra.build.catalog`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from advisor.catalog.bundle import DATA_FOLDER, BundleFiles
from advisor.infra.build.catalog import bundle as bundles


@click.command()
@click.option("--check", is_flag=True, help="Build aside and compare byte for byte; write nothing.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_FOLDER,
    show_default="advisor/data",
    help="Folder that receives catalog/ and sparecores/.",
)
def main(check: bool, out: Path) -> None:
    """Turn infra/sources into the snapshot that ships in advisor/data."""
    built = bundles.build()
    for note in built.notes:
        click.echo(note, err=True)
    size = sum(len(content) for content in built.files.values())
    click.echo(f"{len(built.files)} files, {size / 1e6:.2f} MB", err=True)
    if check:
        _check(built, out)
        return
    bundles.write(built, out)
    BundleFiles(out).verify()
    click.echo(f"written to {out}", err=True)


def _check(built: bundles.Bundle, out: Path) -> None:
    """Build into a temporary folder, read the result back, and compare it with `out`."""
    with tempfile.TemporaryDirectory() as aside:
        bundles.write(built, Path(aside))
        BundleFiles(Path(aside)).verify()
    stale = bundles.differences(built, out)
    if stale:
        raise click.ClickException(
            f"not what the sources give: {', '.join(stale)}; run python -m advisor.infra.build.catalog"
        )
    click.echo(f"{out} is what the sources give", err=True)


if __name__ == "__main__":
    main()
