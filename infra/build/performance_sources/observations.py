"""Makes observations.csv.gz: all measured steps for fitting or scoring the predictor.

`python -m advisor.infra.build.performance_sources.observations --data DIR [--unlicensed FILE]`, run in the
repository's root.

DIR holds public tables named in SOURCES.md; for sources that are not there, the committed rows are kept.
Needed only when a source is added."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from advisor.infra.build.performance_sources.frames import STEP_COLUMNS
from advisor.infra.build.performance_sources.sources_bulk import BULK
from advisor.infra.build.performance_sources.sources_rates import rates

COLUMNS = tuple(STEP_COLUMNS)
# Facts of such a source may be read but not redistributed: the committed table leaves them out.
NO_LICENCE = "none seen"
DEFAULT_PATH = Path(__file__).with_name("observations.csv.gz")
# GPUs whose fp16 runs at the fp32 rate or at a 64th of it, depending on the library: sources differ by 2x.
_WITHOUT_TENSOR_CORES = r"\b(?:K80|K520|M40|M60|M4000|P4|P40|P100|GTX|TITAN X|Xp|P5000|P6000|1080 Ti)\b"


def observations(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """All rows in the table's columns and order, and the number of rows left out, by table."""
    left_out: dict[str, int] = {}
    tables = [rates(folder, left_out)]
    for read in BULK:
        try:
            tables.append(read(folder))
        except FileNotFoundError as error:
            left_out[str(error)] = 0
    rows = pd.concat(tables, ignore_index=True)
    rows["variant"] = rows.get("variant", pd.Series(dtype=str)).fillna("")
    usable = (rows.step_seconds > 0) | (rows.peak_memory_mib > 0)
    usable &= rows.gpu.notna() & rows.network.notna() & (rows.batch_size > 0)
    left_out["no step, memory, GPU or batch"] = int((~usable).sum())
    rows = rows[usable].copy()
    free = rows.licence != NO_LICENCE
    old_half = rows.gpu.str.contains(_WITHOUT_TENSOR_CORES) & (rows.precision != "fp32")
    rows["fit"] = rows.fit.where(rows.fit.notna(), 1).astype(int) * free * ~old_half
    rows["fit"] = rows.fit.astype(int)
    rows["gpu_count"] = rows.gpu_count.astype(int)
    rows = rows.drop_duplicates(subset=[c for c in COLUMNS if c not in ("framework", "sigma")])
    rows = rows.reindex(columns=list(COLUMNS))
    return _sorted(rows), left_out


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values([*COLUMNS[:14]], kind="stable").reset_index(drop=True)


def write(rows: pd.DataFrame, path: Path) -> None:
    """Write gzipped CSV with four significant digits; equal rows give equal bytes."""
    digits = rows.copy()
    for column in ("step_seconds", "sigma", "peak_memory_mib", "batch_size"):
        digits[column] = digits[column].map(_digits)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(digits.to_csv(index=False).encode())


def _digits(number: float) -> str:
    return "" if pd.isna(number) else f"{number:.4g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table beside this file, and print its number of rows and what was left out."""
    parser = argparse.ArgumentParser(prog="advisor.infra.build.performance_sources.observations")
    parser.add_argument("--data", type=Path, required=True, help="the folder of public tables")
    parser.add_argument("--to", type=Path, default=DEFAULT_PATH)
    parser.add_argument("--unlicensed", type=Path, help="where rows without a licence go, if at all")
    options = parser.parse_args(arguments)
    rows, left_out = observations(options.data)
    committed = pd.read_csv(DEFAULT_PATH, low_memory=False).fillna({"variant": ""})
    rows = _sorted(pd.concat([rows, committed[~committed.source.isin(rows.source)]], ignore_index=True))
    free = rows.licence != NO_LICENCE
    write(rows[free], options.to)
    if options.unlicensed:
        write(rows[~free], options.unlicensed)
    for column in ("source", "stack", "precision", "gpu"):
        counts = rows.groupby([column, "fit"]).size().unstack(fill_value=0)
        sys.stdout.write(f"{counts.to_string()}\n\n")
    for reason, count in left_out.items():
        sys.stdout.write(f"left out: {reason}: {count}\n")


if __name__ == "__main__":
    main()
