"""Suite `data_stall`: real-data rates of tf_cnn_benchmarks from synthetic ones and a probe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.curves.stalls import STALLED_BELOW, StallColumns, fit_stalls
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from models.performance.joining import smooth_minimum

_FILE = Path("articles/input_pipeline_real_vs_synthetic.csv")
_SYNTHETIC = Path("perfmodel/lambda_tf/lambda_tf_cnn_benchmarks.csv")
_HOST = ["system", "n_gpu"]
_CELL = [*_HOST, "precision", "task", "model"]
_REAL = {"real": "real_ips", "distorted": "real_distort_ips"}
_NEEDED = {*_CELL, "syn_ips", "real_ips"}
_PROBE = "alexnet"
# tf_cnn_benchmarks' input widths: 227 for AlexNet, 299 for the Inceptions, 224 for the rest.
_PROBE_WIDTH, _INCEPTION_WIDTH, _USUAL_WIDTH = 227, 299, 224
# The exponents tried for the best smooth minimum without anything learnt (MODEL.md).
_EXPONENTS = (1.0, 1.25, 1.5, 2.0, 3.0)


def run(train: Path, score: Path) -> SuiteResult:
    """Stalled rows that are not the probe; what is learnt comes from other hosts: all others of
    one directory, of another directory those that are not scored."""
    rows, notes = _rows(score)
    fitted, _ = _rows(train)
    stalled = (rows["model"] != _PROBE) & (rows["real"] < STALLED_BELOW * rows["synthetic"])
    if not (stalled & (rows["kind"] == "real")).any():
        raise NothingToScore(f"no stalled row with a probe in {score / _FILE}")
    rows = rows[stalled].copy()
    if train.resolve() != score.resolve():
        fitted = fitted[~fitted["system"].isin(rows["system"])]
    families = fitted["system"].map(_family)
    for name, group in rows.groupby("system"):
        rows.loc[group.index, "learned"] = _predicted(fitted[fitted["system"] != name], group)
        strangers = fitted[families != _family(str(name))]
        rows.loc[group.index, "learned, alike hosts left out"] = _predicted(strangers, group)
    return _result(rows, notes)


def _result(rows: pd.DataFrame, notes: list[str]) -> SuiteResult:
    real, distorted = rows[rows["kind"] == "real"], rows[rows["kind"] == "distorted"]
    slowest = rows[["synthetic", "probe_real"]].to_numpy(float)
    rows["hard minimum"] = slowest.min(axis=1)
    smooth = {g: smooth_minimum(slowest, g)[0] for g in _EXPONENTS}
    errors = {g: np.abs(rate / rows["real"] - 1)[real.index].mean() for g, rate in smooth.items()}
    best = min(errors, key=lambda exponent: errors[exponent])
    label = f"best smooth minimum of {_EXPONENTS} (chosen on the scored rows), {best}"
    rows[label] = smooth[best]
    real, distorted = rows.loc[real.index], rows.loc[distorted.index]
    variants = [_figures(real, "learned, alike hosts left out")]
    if len(distorted):
        variants.append(_figures(distorted, "learned", "heavier augmentation (distortions)"))
    return SuiteResult(
        suite="data_stall",
        main=_figures(real, "learned"),
        variants=variants,
        baselines=[_figures(real, "hard minimum"), _figures(real, label)],
        skipped=notes,
    )


def _figures(rows: pd.DataFrame, column: str, name: str = "") -> Figures:
    return figures(name or column, rows[column], rows["real"], [str(s) for s in rows["system"]])


def _predicted(fitted: pd.DataFrame, scored: pd.DataFrame) -> np.ndarray:
    model = fit_stalls(_columns(fitted), fitted["real"].to_numpy(float))
    return model.predict(_columns(scored))


def _columns(rows: pd.DataFrame) -> StallColumns:
    return StallColumns(
        synthetic=rows["synthetic"].to_numpy(float),
        probe_real=rows["probe_real"].to_numpy(float),
        probe_synthetic=rows["probe_synthetic"].to_numpy(float),
        pixels=(rows["width"].to_numpy(float) / _PROBE_WIDTH) ** 2,
        training=(rows["task"] == "training").to_numpy(float),
        fp32=(rows["precision"] == "fp32").to_numpy(float),
        several_gpus=(rows["n_gpu"] > 1).to_numpy(float),
    )


def _family(system: str) -> str:
    """Hosts of one CPU, whatever GPUs: the name up to its first dash."""
    return system.partition("-")[0]


def _rows(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """One row a cell and kind of augmentation, with its host's probe; and what was dropped."""
    path = folder / _FILE
    if not path.is_file():
        raise NothingToScore(f"no {path}")
    table = pd.read_csv(path)
    if not set(table.columns) >= _NEEDED:
        raise NothingToScore(f"{path} lacks columns {sorted(_NEEDED - set(table.columns))}")
    table["n_gpu"] = pd.to_numeric(table["n_gpu"], errors="coerce").astype(float)
    table, notes = _paired(table, folder)
    table["width"] = [_width(str(name)) for name in table["model"]]
    kinds = [_with_probe(table, kind, column) for kind, column in _REAL.items() if column in table]
    rows = pd.concat(kinds, ignore_index=True)
    numbers = rows[["synthetic", "real", "probe_real", "probe_synthetic"]].to_numpy(float)
    usable = (np.isfinite(numbers) & (numbers > 0)).all(axis=1) & rows[_CELL].notna().all(axis=1)
    if not usable.all():
        notes.append(f"{(~usable).sum()} cells without rates or without their host's probe")
    return rows[usable].reset_index(drop=True), notes


def _with_probe(table: pd.DataFrame, kind: str, column: str) -> pd.DataFrame:
    """The rows with the real rate of `kind`, and the fp16 inference AlexNet rates of the host."""
    rows = table.assign(kind=kind, real=pd.to_numeric(table[column], errors="coerce"))
    is_probe = (rows["model"] == _PROBE) & (rows["precision"] == "fp16")
    probes = rows[is_probe & (rows["task"] == "inference")].groupby(_HOST)
    rates = probes[["real", "synthetic"]].median().add_prefix("probe_").reset_index()
    return rows.merge(rates, on=_HOST, how="left")


def _width(network: str) -> int:
    if network == _PROBE:
        return _PROBE_WIDTH
    return _INCEPTION_WIDTH if network.startswith("inception") else _USUAL_WIDTH


def _paired(table: pd.DataFrame, folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Each row's synthetic rate. Real runs of `Gold_6230..XLA_trt2` were made without XLA
    (MODEL.md): their synthetic rate is that of the same host without XLA, or they are dropped."""
    table["synthetic"] = pd.to_numeric(table["syn_ips"], errors="coerce")
    system = table["system"].astype(str)
    wrong = system.str.startswith("Gold_6230") & system.str.contains("XLA_trt2")
    if not wrong.any():
        return table, []
    table.loc[wrong, "synthetic"] = np.nan
    plain = _synthetic_rates(folder)
    keys = zip(*(table.loc[wrong, name] for name in _CELL), strict=True)
    table.loc[wrong, "synthetic"] = [
        plain.get((str(host).replace("XLA_", ""), *rest), np.nan) for host, *rest in keys
    ]
    paired = int(table.loc[wrong, "synthetic"].notna().sum())
    return table, [f"{paired} of {wrong.sum()} Gold_6230 XLA rows paired with runs without XLA"]


def _synthetic_rates(folder: Path) -> dict[tuple[object, ...], float]:
    path = folder / _SYNTHETIC
    if not path.is_file():
        return {}
    rows = pd.read_csv(path)
    rows = rows[rows["data"] == "syn"].rename(columns={"num_gpus": "n_gpu", "phase": "task"})
    for name in ("images_per_sec", "n_gpu"):
        rows[name] = pd.to_numeric(rows[name], errors="coerce").astype(float)
    # Several ways of updating variables were run; the rates that users quote are the best.
    best = rows[rows["images_per_sec"] > 0].groupby(_CELL)["images_per_sec"].max()
    return {tuple(key): float(rate) for key, rate in best.items()}
