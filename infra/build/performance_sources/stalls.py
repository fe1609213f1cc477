"""Makes stalls.csv: runs on real data, paired with the same runs on synthetic data.

`python -m advisor.infra.build.performance_sources.stalls DIR`, run in the repository's root. DIR holds
articles/input_pipeline_real_vs_synthetic.csv and lambda_tf_cnn_benchmarks.csv (SOURCES.md)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from advisor.infra.build.performance_sources.naming import find_source
from advisor.models.performance.frames import Column

DEFAULT_PATH = Path(__file__).with_name("stalls.csv")
STALL_COLUMNS: Mapping[str, Column] = {
    "host": Column("str", meaning="the machine, by the name of its run"),
    "gpus": Column("float64"),
    "network": Column("str"),
    "task": Column("str"),
    "precision": Column("str"),
    "batch_size": Column("float64", "samples", "of each GPU"),
    "input_width": Column("float64", "pixels"),
    "augmentation": Column("str", meaning="plain or distorted"),
    "synthetic_samples_per_second": Column("float64", "samples/s", "of all GPUs, without decoding"),
    "real_samples_per_second": Column("float64", "samples/s", "of all GPUs, with it"),
}
_REAL = {"plain": "real_ips", "distorted": "real_distort_ips"}
_CELL = ["system", "n_gpu", "precision", "task", "model"]
# tf_cnn_benchmarks' input widths; 224 for all others.
_WIDTHS = {"alexnet": 227, "inception3": 299, "inception4": 299}
# The runs on real data did not use XLA, so they are paired with synthetic runs without it.
_WITHOUT_XLA = "Gold_6230-GeForce_RTX_2080_Ti_NVLink_XLA_trt2"


def stalled_rows(directory: Path) -> pd.DataFrame:
    """One row per run on real data; pairs without a positive rate on both sides are left out."""
    table = pd.read_csv(find_source(directory, "input_pipeline_real_vs_synthetic.csv"))
    rows = table.copy()
    rows["syn_ips"] = pd.to_numeric(rows["syn_ips"], errors="coerce")
    paired = rows["system"].str.startswith(_WITHOUT_XLA)
    if paired.any():
        plain = _synthetic_rates(directory)
        keys = zip(*(rows.loc[paired, name] for name in _CELL), strict=True)
        rows.loc[paired, "syn_ips"] = [
            plain.get((str(host).replace("XLA_", ""), *rest), float("nan")) for host, *rest in keys
        ]
    kinds = [_kind(rows, kind, column) for kind, column in _REAL.items()]
    result = pd.concat(kinds, ignore_index=True)[list(STALL_COLUMNS)]
    rates = result[["synthetic_samples_per_second", "real_samples_per_second"]]
    return result[(rates > 0).all(axis=1)].reset_index(drop=True)


def _kind(rows: pd.DataFrame, kind: str, column: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "host": rows["system"],
            "gpus": pd.to_numeric(rows["n_gpu"], errors="coerce").fillna(0).astype(int),
            "network": rows["model"],
            "task": rows["task"],
            "precision": rows["precision"],
            "batch_size": rows["batch_per_gpu"],
            "input_width": rows["model"].map(_WIDTHS).fillna(224).astype(int),
            "augmentation": kind,
            "synthetic_samples_per_second": rows["syn_ips"],
            "real_samples_per_second": pd.to_numeric(rows[column], errors="coerce"),
        }
    )


def _synthetic_rates(directory: Path) -> dict[tuple[object, ...], float]:
    """The highest rate over several ways of updating variables, which is the rate that users quote."""
    rows = pd.read_csv(find_source(directory, "lambda_tf_cnn_benchmarks.csv"))
    rows = rows[rows["data"] == "syn"].rename(columns={"num_gpus": "n_gpu", "phase": "task"})
    rates = pd.to_numeric(rows["images_per_sec"], errors="coerce")
    best = rows.assign(rate=rates)[rates > 0].groupby(_CELL)["rate"].max()
    return {tuple(key): float(rate) for key, rate in best.items()}  # type: ignore[arg-type]


def main(arguments: Sequence[str]) -> None:
    """Write the rows."""
    rows = stalled_rows(Path(arguments[0]))
    rows.to_csv(DEFAULT_PATH, index=False)
    sys.stderr.write(f"{DEFAULT_PATH}: {len(rows)} runs on {rows.host.nunique()} hosts\n")


if __name__ == "__main__":
    main(sys.argv[1:])
