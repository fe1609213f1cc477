"""The committed table of training: one row is what each GPU of a run got through, or held."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

TRAINING_PATH = Path(__file__).with_name("training.csv.gz")


class TrainingRow(NamedTuple):
    """One run, with the columns of `training.csv.gz`; nan or '' where the source does not say.

    `framework` is fsdp (PyTorch) or megatron, `released` the month of the run or its report.
    `checkpointing` is none, selective or full; `sharding` none, gradients (ZeRO-2) or all (ZeRO-3).
    The model's sizes stand in the row, since many of these models are in no other table. `switched`
    counts GPUs that one NVLink switch joins. `gpu_watts` and `gpu_gb_per_second` are of a variant
    that differs from the data sheet. `job_seconds` are of a whole job whose tokens nobody says, the
    same in all rows of a source.
    """

    source: str
    licence: str
    framework: str
    released: str
    model: str
    gpu: str
    gpus: int
    method: str
    precision: str
    sequence: int
    micro_batch: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: int
    vocab: int
    tied: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    accumulation: int = 0
    checkpointing: str = "none"
    sharding: str = "none"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    link: str = "nvlink"
    switched: int = 8
    eager: int = 0
    gpu_watts: float = math.nan
    gpu_gb_per_second: float = math.nan
    tokens_per_second_per_gpu: float = math.nan
    peak_memory_gib: float = math.nan
    job_seconds: float = math.nan
    flags: str = ""
