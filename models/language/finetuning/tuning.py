"""What is tuned how: a language model on the GPUs of one host, and how measured runs were split."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from advisor.domain.generation import LlmMethod
from advisor.models.language.gpus import GpuFacts
from advisor.models.language.language_model import LanguageModel

# Rank of the adapters, on every matrix of the layers: what LoRA's and QLoRA's authors' tools take.
ADAPTER_RANK = 16
# Sequences of an optimiser step, over all GPUs: micro-batches are gathered to so many at least.
STEP_SEQUENCES = 16


class Checkpointing(StrEnum):
    """What of the forward pass is computed again in the backward pass, to save memory: nothing,
    every second matrix product, or each layer as a whole."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Sharding(StrEnum):
    """What of the model's state each GPU has a part of: nothing (data parallel), gradients and
    optimiser (ZeRO-2), or the weights too, which are then gathered layer by layer (ZeRO-3, FSDP).
    """

    NONE = "none"
    GRADIENTS = "gradients"
    ALL = "all"


class FineTuning(NamedTuple):
    """A model tuned by `method` on `gpus` GPUs of one host, `micro_batch` sequences each at once.

    `link` is nvlink, pcie, or none for one GPU. What is None is for the predictor to choose.
    """

    model: LanguageModel
    method: LlmMethod
    sequence: int
    micro_batch: int | None
    gpu: GpuFacts
    gpus: int = 1
    link: str = "none"
    checkpointing: Checkpointing | None = None
    sharding: Sharding | None = None


class Run(NamedTuple):
    """A settled tuning, and how it was split where somebody measured it; a question has defaults.

    `framework` is fsdp (PyTorch) or megatron; `source` who measured, `released` the month of the
    software. `eager`: kernels are not compiled together. `switched`: GPUs joined by one NVLink
    switch, 8 in a host and 72 in a rack of GB200 or GB300.
    """

    tuning: FineTuning
    framework: str = "fsdp"
    source: str = ""
    released: str = ""
    fp8: bool = False
    eager: bool = False
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    accumulation: int = 0
    switched: int = 8

    @property
    def replica_gpus(self) -> int:
        """GPUs that share one copy of the model."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel
