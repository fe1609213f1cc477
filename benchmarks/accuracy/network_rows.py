"""Measured steps of many networks: timm's benchmark files, and torchvision's of several GPUs."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from advisor.domain import Precision, Task
from benchmarks.accuracy.network_families import family, plain_name
from models.performance.layerwise import NetworkKey, Setting
from models.performance.step_work import HALF

TIMM = Path("perfmodel/timm")
TORCHVISION = Path("perfmodel/pytorch_gpu_benchmark/torchvision_gpu_benchmark.csv")
_TIMM_NAME = re.compile(
    r"benchmark-(?P<phase>infer|train)-(?P<precision>[a-z0-9]+)-(?P<source>.+?)(?P<dynamo>-dynamo)?$"
)
_TORCHVISION_BATCH = 12
_TORCHVISION_PIXELS = 224
_TORCHVISION_PRECISIONS = {"float": (Precision.FP32, 1.0), "half": (HALF, 0.5)}
_FOLDED = "+folded"
# Networks of timm that have branches to fold; timm's newer benchmarks run them folded.
_FOLDABLE = re.compile(r"repvgg|mobileone|fastvit|repvit|repghost|ghostnetv3|fasternet|mobileclip")


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of a step. `candidates` are captures that it may be: plain, or folded.

    `gpu` is the file's own name of it; `gmacs` is what the file says of the network, or None.
    """

    library: str
    setting: Setting
    network: str
    family: str
    candidates: tuple[NetworkKey, ...]
    batch_size: float
    seconds: float
    gmacs: float | None = None


def read_rows(folder: Path) -> tuple[list[Row], list[str]]:
    """Rows of all files that are there, and in words what was left out."""
    left_out: dict[str, int] = defaultdict(int)
    rows = [*_timm_rows(folder / TIMM, left_out), *_torchvision_rows(folder, left_out)]
    if not (folder / TORCHVISION).is_file():
        left_out[f"no file {TORCHVISION}"] = 0
    if not (folder / TIMM).is_dir():
        left_out[f"no folder {TIMM}"] = 0
    said = [f"{reason}: {count} rows" if count else reason for reason, count in left_out.items()]
    return _without_repeats(rows), said


def _without_repeats(rows: Iterable[Row]) -> list[Row]:
    """Weights of one network under several tags are one step, at its median."""
    alike: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.setting, row.network, row.candidates, row.batch_size].append(row)
    return [
        Row(
            first.library, first.setting, first.network, first.family, first.candidates,
            first.batch_size, median(row.seconds for row in group), first.gmacs,
        )
        for group in alike.values()
        for first in group[:1]
    ]  # fmt: skip


def _timm_rows(folder: Path, left_out: dict[str, int]) -> Iterator[Row]:
    for path in sorted(folder.glob("benchmark-*.csv")):
        named = _TIMM_NAME.match(path.stem)
        if named is None or named["precision"] not in ("amp", "fp32"):
            left_out[f"{path.name} does not say what it is"] += 0
            continue
        task = Task.INFERENCE if named["phase"] == "infer" else Task.TRAINING
        precision = Precision.AMP if named["precision"] == "amp" else Precision.FP32
        source, _, gpu = named["source"].rpartition("-")
        setting = Setting(source, gpu, precision, task, bool(named["dynamo"]))
        if "cpu" in source.split("-"):
            left_out[f"{path.name} is of a CPU, not of a GPU"] += 0
            continue
        for record in _records(path):
            row = _timm_row(record, named["phase"], setting)
            if row is None:
                left_out[f"{path.name}: no number where a rate, batch or size should be"] += 1
            else:
                yield row


def _timm_row(record: Mapping[str, str], phase: str, setting: Setting) -> Row | None:
    rate, batch, pixels = (
        _number(record.get(f"{phase}_{name}"))
        for name in ("samples_per_sec", "batch_size", "img_size")
    )
    name = (record.get("model") or "").partition(".")[0]
    if not (rate and batch and pixels and name):
        return None
    autocast = setting.precision == Precision.AMP
    names = (name, name + _FOLDED) if _FOLDABLE.search(name) else (name,)
    keys = tuple(NetworkKey("timm", one, int(pixels), setting.task, autocast) for one in names)
    gmacs = _number(record.get(f"{phase}_gmacs"))
    return Row("timm", setting, plain_name(name), family(name), keys, batch, batch / rate, gmacs)


def _torchvision_rows(folder: Path, left_out: dict[str, int]) -> Iterator[Row]:
    for record in _records(folder / TORCHVISION):
        if record.get("num_gpus") not in ("1", "1.0"):
            left_out["torchvision on several GPUs at once (DataParallel)"] += 1
        elif record.get("precision") not in _TORCHVISION_PRECISIONS:
            left_out[f"torchvision in {record.get('precision')}: no precision of the product"] += 1
        elif not (milliseconds := _number(record.get("median_ms"))) or not record.get("model"):
            left_out["torchvision: no number where the median should be"] += 1
        else:
            yield _torchvision_row(record, milliseconds)


def _torchvision_row(record: Mapping[str, str], milliseconds: float) -> Row:
    precision, width = _TORCHVISION_PRECISIONS[record["precision"]]
    task = Task.TRAINING if record.get("phase") == "train" else Task.INFERENCE
    source = f"{record.get('repo')}/{record.get('folder')}"
    setting = Setting(source, record.get("gpu") or "", precision, task, byte_width=width)
    name = record["model"]
    key = NetworkKey("torchvision", name, _TORCHVISION_PIXELS, task, False)
    return Row(
        "torchvision", setting, plain_name(name), family(name), (key,), _TORCHVISION_BATCH,
        milliseconds / 1e3,
    )  # fmt: skip


def _records(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _number(text: str | None) -> float | None:
    """A finite number above zero, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
