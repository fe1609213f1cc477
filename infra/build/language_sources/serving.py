"""Makes serving.csv.gz: `python -m advisor.infra.build.language_sources.serving --data DIR`, in the
repository.

DIR holds the public tables named in SOURCES.md; missing ones are skipped. Needed only when a source is added:
the compact rows are committed."""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.infra.build.language_sources import batches, loops
from advisor.infra.build.language_sources.naming import LeftOutError, link_of
from advisor.infra.build.language_sources.rows import SERVING_PATH, ServingRow, write_table

Reader = Callable[[Mapping[str, str]], ServingRow | Iterable[ServingRow]]

# Every table that rows are read from, and its reader.
SOURCES: Mapping[str, Reader] = {
    "inferencex_agg.csv": loops.inferencex,
    "small_gpu_serving.csv": loops.small_gpus,
    "anl_llm_inference_bench.csv": batches.argonne,
    "anl_quant_a100_h100.csv": batches.argonne_formats,
    "anl_tp_pp.csv": batches.argonne_pipelines,
    "anl_ttft_itl.csv": batches.argonne_first_tokens,
    "lmdeploy_a100_static.csv": batches.lmdeploy,
    "trtllm_static_batch_v09.csv": batches.tensorrt_batches,
    "trtllm_first_token_v09.csv": batches.tensorrt_first_tokens,
    "trtllm_max_throughput.csv": loops.tensorrt_maximum,
    "qserve_quant_throughput.csv": loops.qserve,
    "trtllm_open_loop.csv": loops.tensorrt_open,
    "iog_vllm_open_loop.csv": loops.iog,
}
_MEASURED = ("ttft_seconds", "tpot_seconds", "output_tokens_per_second", "requests_per_second")


def serving_rows(folder: Path) -> tuple[list[ServingRow], Counter[str]]:
    """The rows of every table in the folder, and how many rows were left out, by reason."""
    rows: list[ServingRow] = []
    left_out: Counter[str] = Counter()
    for name, reader in SOURCES.items():
        path = folder / name
        if path.exists():
            with path.open(newline="") as file:
                rows += _read(csv.DictReader(file), reader, path.stem, left_out)
    merged = merged_repeats(filed_once(rows))
    left_out["repeats, merged"] = len(rows) - len(merged)
    return merged, left_out


def _read(
    records: Iterable[Mapping[str, str]], reader: Reader, table: str, left_out: Counter[str]
) -> list[ServingRow]:
    found: list[ServingRow] = []
    for record in records:
        try:
            rows = reader(record)
            found += [_linked(row) for row in ([rows] if isinstance(rows, ServingRow) else rows)]
        except LeftOutError as why:
            left_out[f"{table}: {why}"] += 1
    return found


def _linked(row: ServingRow) -> ServingRow:
    """The row with its number of GPUs and their link, which follow from other columns."""
    gpus = row.tensor_parallel * row.pipeline_parallel * row.attention_dp
    return row._replace(gpus=gpus, link=link_of(row.gpu, gpus))


def filed_once(rows: Sequence[ServingRow]) -> list[ServingRow]:
    """Drop closed loops that a second source repeats: the same figures, except for a last digit, of a model
    on the same GPUs."""
    first: dict[tuple[str, ...], str] = {}
    found = []
    for row in rows:
        figures = (f"{getattr(row, name):.3g}" for name in _MEASURED)
        run = (row.model, row.gpu, row.engine, str(row.concurrency), *figures)
        source = first.setdefault(run, row.source)
        if source == row.source or row.kind != "closed":
            found.append(row)
    return found


def merged_repeats(rows: Sequence[ServingRow]) -> list[ServingRow]:
    """One row per cell: the median of repeated measurements, with their spread.

    A run that a source lists twice with the same figures counts once; rows without an engine version are
    separate cells if their dates differ."""
    cells: dict[ServingRow, list[ServingRow]] = defaultdict(list)
    for row in rows:
        date = "" if row.engine_version else row.date
        cells[_without_measures(row._replace(date=date))].append(row)
    return [_median(list(dict.fromkeys(same))) for same in cells.values()]


def _without_measures(row: ServingRow) -> ServingRow:
    """The row without measurements, as a key: unknown values are -1, since nan is unequal to itself."""
    unmeasured: dict[str, Any] = dict.fromkeys((*_MEASURED, "sigma"), 0.0)
    row = row._replace(**unmeasured)
    values = [-1.0 if isinstance(one, float) and math.isnan(one) else one for one in row]
    return ServingRow._make(values)


def _median(rows: Sequence[ServingRow]) -> ServingRow:
    distinct = list({_measures(row): row for row in rows}.values())
    if len(distinct) == 1:
        return distinct[-1]
    medians: dict[str, Any] = {
        name: statistics.median(getattr(row, name) for row in distinct) for name in _MEASURED
    }
    steps = [_rate(row) for row in distinct]
    sigma = statistics.stdev(steps) / statistics.mean(steps)
    date = max(row.date for row in distinct)
    return distinct[0]._replace(**medians, sigma=sigma, date=date)


def _measures(row: ServingRow) -> tuple[str, ...]:
    return tuple(repr(getattr(row, name)) for name in _MEASURED)


def _rate(row: ServingRow) -> float:
    """The value whose spread over repeats is computed: the step, or the rate if no step is known."""
    for value in (row.tpot_seconds, row.output_tokens_per_second, row.ttft_seconds):
        if not math.isnan(value):
            return value
    return math.nan


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table beside this file, and print its number of rows and what was left out."""
    parser = argparse.ArgumentParser(prog="advisor.infra.build.language_sources.serving")
    parser.add_argument("--data", type=Path, required=True, help="the folder of public tables")
    parser.add_argument("--to", type=Path, default=SERVING_PATH)
    options = parser.parse_args(arguments)
    rows, left_out = serving_rows(options.data)
    write_table(rows, options.to)
    for column in ("source", "kind", "engine", "gpu", "model", "precision"):
        counts = Counter((getattr(row, column), row.fit) for row in rows)
        for (name, fit), count in sorted(counts.items()):
            sys.stdout.write(f"{column:<10}{name:<40}fit {fit}{count:>7}\n")
    for reason, count in sorted(left_out.items()):
        sys.stdout.write(f"left out  {reason}: {count}\n")


if __name__ == "__main__":
    main()
