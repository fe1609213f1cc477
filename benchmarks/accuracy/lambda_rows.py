"""Rates of tf_cnn_benchmarks on one GPU with synthetic data, from perfmodel/lambda_tf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from advisor.domain import Gpu, Task
from benchmarks.accuracy.data_sheets import find_sheet
from benchmarks.accuracy.figures import NothingToScore
from models.performance.datasheet.records import RateRow, Software
from models.performance.step_work import HALF

RATES = Path("perfmodel/lambda_tf/lambda_tf_cnn_benchmarks.csv")
SYSTEMS = Path("perfmodel/lambda_tf/lambda_tf_system_metadata.csv")
_TASKS = {"train": Task.TRAINING, "inference": Task.INFERENCE}
_PRECISIONS = {"fp16": HALF, "fp32": "fp32"}
_KEY = ["system", "update", "precision", "phase", "model", "batch_size_total"]
_RELEASE = re.compile(r"TF(\d+)[_.](\d+)")


@dataclass(frozen=True, slots=True)
class LambdaRows:
    """The rows of a directory, and in words what was left out of them."""

    rows: tuple[RateRow, ...]
    left_out: tuple[str, ...]


def read_lambda(folder: Path, sheets: Mapping[str, Gpu], also: Path | None = None) -> LambdaRows:
    """One row a system, update rule, network, task, precision and batch size (median of runs).

    Systems are looked up in the directory's own metadata, then in that of `also`. Raises
    NothingToScore without the file or without a usable row.
    """
    path = folder / RATES
    if not path.is_file():
        raise NothingToScore(f"{path} is missing")
    table = pd.read_csv(path)
    alone = pd.to_numeric(table.num_gpus, errors="coerce") == 1
    single = table[(table["data"] == "syn") & alone].copy()
    for column in ("images_per_sec", "batch_size_total"):
        single[column] = pd.to_numeric(single[column], errors="coerce").astype(float)
    usable = single[
        (single.images_per_sec > 0) & (single.images_per_sec < float("inf"))
        & (single.batch_size_total > 0) & (single.batch_size_total < float("inf"))
        & single.phase.isin(_TASKS)
        & single.precision.isin(_PRECISIONS) & single.model.notna() & single.system.notna()
    ]  # fmt: skip
    if usable.empty:
        raise NothingToScore(f"{path} has no single-GPU row with synthetic data and a rate")
    dropped = len(single) - len(usable)
    cells = usable.groupby(_KEY, as_index=False, dropna=False).images_per_sec.median()
    systems = {**_metadata(also), **_metadata(folder)}
    rows = tuple(_row(cell, systems, sheets) for cell in cells.to_dict("records"))
    words = (f"{dropped} rows of {path.parent.name} without a rate (crashed, zero)",)
    return LambdaRows(rows, words if dropped else ())


def _metadata(folder: Path | None) -> dict[str, dict[str, str]]:
    path = folder / SYSTEMS if folder else None
    if path is None or not path.is_file():
        return {}
    table = pd.read_csv(path, dtype=str).fillna("")
    if "system" not in table:
        return {}
    return {str(row["system"]): row for row in table.to_dict("records")}


def _row(
    cell: Mapping[str, object], systems: Mapping[str, Mapping[str, str]], sheets: Mapping[str, Gpu]
) -> RateRow:
    system = str(cell["system"])
    known = systems.get(system, {})
    gpu = find_sheet(known.get("GPU 0") or system.partition("-")[2], sheets)
    return RateRow(
        gpu_name=gpu.name if gpu else _bare(system),
        gpu=gpu,
        network=str(cell["model"]),
        task=_TASKS[str(cell["phase"])],
        precision=_PRECISIONS[str(cell["precision"])],
        batch_size=float(str(cell["batch_size_total"])),
        software=software_of(system, known),
        source=f"{system}/{cell['update']}",
        samples_per_second=float(str(cell["images_per_sec"])),
    )


def _bare(system: str) -> str:
    """'i7-9750H-GeForce_RTX_2080_with_Max-Q_Design_XLA_TF1_15' without the software."""
    return re.sub(r"(_XLA|_TF\d+.*)+$", "", system)


def software_of(system: str, known: Mapping[str, str]) -> Software:
    """TensorFlow's release and CUDA's, from the metadata or else the system's name.

    TensorFlow from 2.4 on computes fp32 as TF32 where it can, and so does NVIDIA's own 1.15,
    which is the only 1.x that was built on CUDA 11.
    """
    cuda = re.match(r"V?(\d+)", known.get("CUDA", ""))
    newer = cuda is not None and int(cuda.group(1)) >= 11
    release = _release(known.get("TF", ""), system)
    tf32 = newer and release is not None and (release[0] < 2 or release >= (2, 4))
    built = f"TF {release[0]}.{release[1]}" if newer and release else "CUDA before 11"
    return Software(
        name="tensorflow-cnn",
        libraries=built,
        compiled="XLA" in system.split("_"),
        tf32=tf32,
        newer=newer,
    )


def _release(text: str, system: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text) or _RELEASE.search(system)
    return (int(found.group(1)), int(found.group(2))) if found else None
