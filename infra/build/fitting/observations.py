"""Measured steps in the form that the posterior is fitted on, read from the tables of a checkout.

Each line of `observations.csv.gz` is one step that somebody measured, with the software that ran it;
`kernels.csv.gz` has single kernels, which show the rates that a GPU's units really reach."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from advisor.catalog import load_catalog
from advisor.domain import Gpu, Task
from advisor.domain.gpu_names import gpus_named
from advisor.errors import DataError, UsageError
from advisor.infra.build.performance_sources.frames import STEP_COLUMNS, published_frame, records_of
from advisor.infra.build.performance_sources.kernels import KERNEL_COLUMNS
from advisor.models.bayes import Floats
from advisor.models.network_columns import KINDS
from advisor.models.performance.frames import checked_frame
from advisor.models.performance.networks import OPERATION, NetworkFacts, NetworkTable, bundled_networks
from advisor.models.performance.posterior import Cell
from advisor.models.performance.step_parameters import Conditions, Step

OBSERVATIONS, KERNELS = "observations.csv.gz", "kernels.csv.gz"
PYTORCH = frozenset({"eager", "torchscript", "compile"})
# Sources that time forward and backward without an optimiser's step, with the copy of the batch included.
_BARE_SOURCES = frozenset({"pytorch-gpu-benchmark"})
# Sources whose training rows time whole scripts: with data loading, losses and logging around the step.
SCRIPTS = (
    "flagperf",
    "nvidia-dle",
    "lambda-ngc",
    "gavel",
    "detectron2",
    "mmdetection",
    "mmsegmentation",
    "ffcv",
)
_TF32 = {"none": "off", "conv": "convolutions", "all": "on"}
# Scatter of rows around a good model: timm measures carefully, other sources say less about their timing, and
# scripts differ in loaders, losses and care.
_SIGMA = {"timm": 0.04}
_USUAL_SIGMA, _SCRIPT_SIGMA = 0.07, 0.15
_MOST_RANKS = 8
_KERNEL_SIGMA = 0.25
# Shorter kernels mainly measure launch time.
_SHORTEST_KERNEL = 2e-4
# Sources of frame rates that include CPU work.
LEFT_OUT = frozenset({"mmsegmentation-0.x"})
# Rates "per token" of language models time one token with a cache, not a forward pass.
_GENERATING = re.compile(r"gpt|pythia|opt-|biogpt")
# Versions that guides of the time used, for tables that do not state one.
_VERSIONS = {"nvidia-fastertransformer": 1.12}
# These sources ran NVIDIA's examples, whose attention is not fused.
_WRITES_ATTENTION_OUT = frozenset({"lambda-ngc", "nvidia-dle"})
# PyTorch 2.0 has fused attention; before 1.10, cuDNN chose other convolution algorithms.
_OLDEST, _OLD = 1.10, 2.0
_KERNEL_KINDS = {"linear": "linear", "bmm": "attention_math", "conv_3x3": "conv_3x3"}
_LIGHT_KINDS = {"ln": "norm", "softmax": "softmax"}


# Columns that identify a step, besides its measurements.
FITTED_COLUMNS = {
    name: column
    for name, column in STEP_COLUMNS.items()
    if name not in ("step_seconds", "peak_memory_mib", "licence")
}


class MeasuredStep(NamedTuple):
    """A measured step for a fit: seconds with their relative standard error under a good model.

    `source` is the publisher, `family` the network's class, `is_pytorch` whether the step may count as a
    PyTorch rate."""

    cell: Cell
    seconds: float
    sigma: float
    source: str
    family: str
    is_pytorch: bool


class Unknown(NamedTuple):
    """Number of rows with GPUs or networks that are in no table."""

    gpus: Mapping[str, int]
    networks: Mapping[str, int]


def observation_frame(folder: Path) -> pd.DataFrame:
    """All published steps; `DataError` where their table cannot be read."""
    try:
        return published_frame(folder / OBSERVATIONS)
    except (OSError, ValueError) as error:
        raise DataError(
            "measured steps cannot be read ({error})",
            hint="they are part of a checkout, in infra/build/performance_sources",
            error=error,
        ) from error


def measured_steps(
    frame: pd.DataFrame, *, only_fitted: bool = True
) -> tuple[list[MeasuredStep | None], Unknown]:
    """The rows of a frame as steps; None for an unknown GPU or network and, with `only_fitted`, for rows that
    may not be fitted."""
    reader = RowReader(load_catalog().gpus, bundled_networks())
    rows = [
        reader.row(record) if may_be_fitted(record) or not only_fitted else None
        for record in records_of(frame)
    ]
    return rows, Unknown(reader.unknown_gpus, reader.unknown_networks)


def kernel_frame(folder: Path, share: float = 0.25) -> pd.DataFrame:
    """A regular `share` of the single kernels, which is enough for marks."""
    kernels = checked_frame(pd.read_csv(folder / KERNELS), KERNEL_COLUMNS)
    return kernels[kernels["seconds"] >= _SHORTEST_KERNEL].iloc[:: round(1 / share)]


def may_be_fitted(record: Mapping[str, Any]) -> bool:
    """True if the predictor may learn from a row: a valid step of one GPU or of a script on several."""
    return (
        record["fit"] == 1
        and record["step_seconds"] > 0
        and (record["gpu_count"] == 1 or ranks_of(record) > 1)
        and record["precision"] in ("fp32", "amp", "bf16", "fp16")
        and record["source"] not in LEFT_OUT
        and not is_of_a_single_token(record["source"], record["network"], record["task"])
    )


def is_script(record: Mapping[str, Any]) -> bool:
    """True if a row times a whole training script."""
    return record.get("task") == Task.TRAINING and record["source"].startswith(SCRIPTS)


def ranks_of(record: Mapping[str, Any]) -> int:
    """GPUs of one host that trained together in a row; 1 for all rows except scripts."""
    count = float(record.get("gpu_count") or 1)
    return int(count) if is_script(record) and count <= _MOST_RANKS else 1


def is_of_a_single_token(source: str, network: str, task: str) -> bool:
    """True if a language model's row is a token generated with a cache, not a pass over a sequence."""
    generating = source.startswith("hf-trans") and task == Task.INFERENCE
    return generating and _GENERATING.search(network) is not None


class DataSheets:
    """Data sheets of GPUs by any name that a table uses for them."""

    def __init__(self, sheets: Mapping[str, Gpu]) -> None:
        self._sheets = sheets
        self._named: dict[str, Gpu | None] = {}

    def named(self, name: str) -> Gpu | None:
        """The data sheet with this name; None if there is none."""
        if name not in self._named:
            cards = gpus_named(name, list(self._sheets))
            self._named[name] = self._sheets[cards[0]] if cards else None
        return self._named[name]


class RowReader:
    """Turns records into steps; counts unknown names."""

    def __init__(self, sheets: Mapping[str, Gpu], networks: NetworkTable) -> None:
        self.unknown_gpus: dict[str, int] = {}
        self.unknown_networks: dict[str, int] = {}
        self._sheets, self._networks = DataSheets(sheets), networks
        self._cached: dict[tuple[str, str], NetworkFacts | None] = {}

    def row(self, record: Mapping[str, Any]) -> MeasuredStep | None:
        """The step of a record; None if its GPU or network is unknown."""
        gpu = self._sheets.named(record["gpu"])
        network = self.network(record["network"], record["input"])
        if gpu is None or gpu.capability is None:
            _count(self.unknown_gpus, record["gpu"])
            return None
        if network is None or Task(record["task"]) not in network.kernels:
            _count(self.unknown_networks, record["network"])
            return None
        how = conditions_of(record, gpu)
        step = Step(
            network.kernels[Task(record["task"])],
            network.parameters,
            network.input_bytes,
            record["batch_size"],
            how,
        )
        source = record["source"]
        answer = 0.0 if math.isnan(record["sigma"]) else record["sigma"]
        return MeasuredStep(
            Cell(network.key, step),
            record["step_seconds"],
            math.hypot(answer, _SCRIPT_SIGMA if how.script else _SIGMA.get(source, _USUAL_SIGMA)),
            source,
            network.family,
            how.stack in PYTORCH,
        )

    def network(self, name: str, at: str) -> NetworkFacts | None:
        """The facts of a network at an input; None if they were not captured."""
        key = (name, at)
        if key not in self._cached:
            try:
                self._cached[key] = self._networks.find(name, at or None)
            except UsageError:
                self._cached[key] = None
        return self._cached[key]


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def conditions_of(record: Mapping[str, Any], gpu: Gpu) -> Conditions:
    """The conditions under which a row's step ran."""
    return Conditions(
        gpu=gpu,
        task=record["task"],
        precision=record["precision"],
        tf32=_TF32.get(record["tf32"], "convolutions"),
        memory_format=record["memory_format"] or "contiguous",
        stack=record["stack"],
        **measured_conditions(record),
    )


def measured_conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row's protocol: what the step included and how it was timed, without settings of the workload."""
    stack, source, variant = record["stack"], record["source"], record.get("variant", "")
    version = torch_version(record.get("framework", "")) or _VERSIONS.get(source)
    is_pytorch = stack in PYTORCH or stack == "ngc"
    bare = source in _BARE_SOURCES
    old = version is not None and version < _OLD if is_pytorch else True
    return {
        "script": is_script(record),
        "ranks": ranks_of(record),
        "optimizer": not bare,
        "copies_input": bare,
        "unfused_attention": "attention=eager" in variant
        or source in _WRITES_ATTENTION_OUT
        or (old and "xformers" not in variant),
        "era": era_of(version) if is_pytorch else "",
        "source": source,
        "host": record.get("host", ""),
    }


def torch_version(framework: str) -> float | None:
    """'pytorch-1.12' and 'pt112' as 1.12, so that versions can be sorted; None if unknown."""
    if framework == "pt1x":
        return _OLDEST - 0.01
    result = re.search(r"(\d)\.(\d+)", framework) or re.search(r"pt(\d)(\d{1,2})", framework)
    return float(result[1]) + float(result[2]) / 100 if result else None


def era_of(version: float | None) -> str:
    """The era of a PyTorch version in words; '' for currently maintained versions."""
    if version is None or version >= _OLD:
        return ""
    return "1.old" if version < _OLDEST else "1.late"


def kernel_steps(frame: pd.DataFrame) -> list[MeasuredStep | None]:
    """Single kernels as steps of one operation; None for a GPU without a data sheet."""
    cards, records = DataSheets(load_catalog().gpus), records_of(checked_frame(frame, KERNEL_COLUMNS))
    return [_kernel(record, gpu) if (gpu := cards.named(record["gpu"])) else None for record in records]


def _kernel(record: Mapping[str, Any], gpu: Gpu) -> MeasuredStep:
    name = record["kind"]
    light = _LIGHT_KINDS.get(name.partition("_")[2], "elementwise")
    kind = _KERNEL_KINDS.get(name, light)
    row = np.zeros(1, OPERATION)
    row["kind"], row["count"] = KINDS.index(kind), 1
    row["flops"] = record["flops"] if name in _KERNEL_KINDS else 0.0
    row["sample_elements"] = record["elements"]
    row["amp_sample_width"] = row["amp_fixed_width"] = 64
    for size in ("reduction", "width"):
        row[size] = min(65535, int(np.nan_to_num(record[size])))
    how = Conditions(
        gpu=gpu,
        task=Task.INFERENCE,
        precision=record["precision"],
        tf32="off",
        source=f"kernels/{record['source']}",
        host="kernels",
    )
    cell = Cell(f"kernel/{name}", Step(row, 0.0, 0.0, 1.0, how))
    return MeasuredStep(cell, record["seconds"], _KERNEL_SIGMA, record["source"], "", False)


def question_conditions(how: Conditions) -> Conditions:
    """The conditions that a user's workload can have: without source and host of a published row."""
    return how._replace(source="", host="", stack="compile" if how.stack == "compile" else "eager")


def columns(observations: Sequence[MeasuredStep]) -> tuple[list[Cell], Floats, Floats]:
    """Cells, log seconds, and standard deviations of log seconds."""
    return (
        [row.cell for row in observations],
        np.log([row.seconds for row in observations]),
        np.array([row.sigma for row in observations]),
    )
