"""Converts rows of a rented GPU: `python -m advisor.infra.build.language_sources.campaign FILE.jsonl --to
FILE.csv.gz`.

Reads the output of `python -m advisor.infra.build.campaign language`. The table has the columns of
serving.csv.gz and can replace it: for scoring, or to be fitted with the others."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.infra.build.language_sources.naming import LeftOutError, model_named
from advisor.infra.build.language_sources.rows import ServingRow, write_table

_LICENCE = "Apache-2.0"  # our own measurements, under this project's
# Means are of windows of seconds: another run differs by at least this much.
_LEAST_SIGMA = 0.003


def campaign_rows(lines: Sequence[str]) -> tuple[list[ServingRow], Counter[str]]:
    """The rows of a campaign's lines, and how many lines were left out, by reason."""
    rows: list[ServingRow] = []
    left_out: Counter[str] = Counter()
    for line in lines:
        try:
            rows.append(_row(json.loads(line)))
        except LeftOutError as why:
            left_out[str(why)] += 1
    return rows, left_out


def _row(cell: Mapping[str, Any]) -> ServingRow:
    if cell["status"] not in ("ok", "few") or not cell.get("tpot_seconds"):
        raise LeftOutError(f"status {cell['status']}")
    found = cell["environment"]["gpus"]
    if not found:
        raise LeftOutError("no GPU")
    load = cell.get("load")  # only servers have a load
    tpot, error = cell["tpot_seconds"], cell.get("tpot_seconds_error")
    return ServingRow(
        source="campaign",
        licence=_LICENCE,
        model=model_named(cell["model"]),
        gpu=sheet_of(found[0]["name"], sheets=load_catalog().gpus).name,
        engine=cell["engine"],
        engine_version=cell.get("engine_version", ""),
        date=cell["measured_at"][:10],
        precision=cell["precision"],
        kind=cell["kind"],
        input_tokens=load["input_tokens"]["mean"] if load else cell["input_tokens"],
        output_tokens=load["output_tokens"]["mean"] if load else cell["output_tokens"],
        concurrency=float(cell["concurrency"]),
        ttft_seconds=cell["ttft_seconds"],
        tpot_seconds=tpot,
        output_tokens_per_second=cell["output_tokens_per_second"],
        sigma=max(_LEAST_SIGMA, error / tpot) if error else math.nan,
        fit=1 if cell["graphs"] else 0,
        flags="" if cell["graphs"] else "eager",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table, and say what was left out."""
    parser = argparse.ArgumentParser(prog="advisor.infra.build.language_sources.campaign")
    parser.add_argument("file", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args(arguments)
    rows, left_out = campaign_rows(options.file.read_text().splitlines())
    if rows:
        write_table(rows, options.to)
    sys.stdout.write(f"{len(rows)} rows: {options.to if rows else 'nothing is written'}\n")
    for reason, count in sorted(left_out.items()):
        sys.stdout.write(f"left out  {reason}: {count}\n")


if __name__ == "__main__":
    main()
