"""Tunings: a language model on the GPUs of one host, how measured runs were split, and the work of both.

Work is operations and bytes for each token, as columns, per GPU of a group that works on it together: a GPU's
share of work times the GPUs that share it, so that a rate by GPU follows at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from advisor.domain.words import LlmMethod, Protocol
from advisor.models.bayes import Floats
from advisor.models.language.deployments import GpuFacts
from advisor.models.language.language_model import LanguageModel

# Rank of the adapters, on every matrix of the layers: what LoRA's and QLoRA's authors' tools take.
ADAPTER_RANK = 16
# Sequences of an optimiser step, over all GPUs: micro-batches are gathered to so many at least.
STEP_SEQUENCES = 16


class Checkpointing(StrEnum):
    """What the backward pass recomputes: nothing, every second product, or each layer."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Sharding(StrEnum):
    """The parts of the model's state that are split over the GPUs: none (data parallel), gradients and
    optimiser (ZeRO-2), or the weights too, gathered layer by layer (ZeRO-3, FSDP)."""

    NONE = "none"
    GRADIENTS = "gradients"
    ALL = "all"


class FineTuning(NamedTuple):
    """A model tuned by `method` on `gpus` GPUs of one host, `micro_batch` sequences each at once.

    `link` is nvlink, pcie, or none for one GPU. What is None is for the predictor to choose. `protocol`: a
    typical script, which compiles nothing, or a benchmark's compiled step."""

    model: LanguageModel
    method: LlmMethod
    sequence: int
    micro_batch: int | None
    gpu: GpuFacts
    gpus: int = 1
    link: str = "none"
    checkpointing: Checkpointing | None = None
    sharding: Sharding | None = None
    protocol: Protocol = Protocol.SCRIPT


class Run(NamedTuple):
    """A settled tuning, and how it was split where somebody measured it; a question has defaults.

    `framework` is fsdp (PyTorch) or megatron; `source` who measured, `released` the month of the software.
    `eager`: kernels are not compiled together. `script`: a whole training script, with its data and losses,
    not a benchmark's step. `switched`: GPUs joined by one NVLink switch, 8 in a host and 72 in a rack of
    GB200 or GB300."""

    tuning: FineTuning
    framework: str = "fsdp"
    source: str = ""
    released: str = ""
    fp8: bool = False
    eager: bool = False
    script: bool = False
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    accumulation: int = 0
    switched: int = 8

    @classmethod
    def of_question(cls, tuning: FineTuning) -> Self:
        """The run that a question means."""
        scripted = tuning.protocol is Protocol.SCRIPT
        return cls(tuning, eager=scripted, script=scripted)

    @property
    def replica_gpus(self) -> int:
        """GPUs that share one copy of the model."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel


# Share of the forward pass that is computed again. Selective: every second matrix product.
RECOMPUTED = {Checkpointing.NONE: 0.0, Checkpointing.SELECTIVE: 0.4, Checkpointing.FULL: 1.0}
# What the logarithms of sizes are taken against: a model of 7B, a Hopper GPU, one host.
_HIDDEN, _EXPERT_TOKENS, _WATTS_PER_TFLOPS, _HOST_GPUS = 4096.0, 8192.0, 0.7, 8
_HEAD_WIDTH, _SEQUENCE = 2 * 128.0, 4096.0  # a key and a value
# Attention kernels that keep Hopper's tensor cores busy: FlashAttention-3, cuDNN 9.
_HOPPER, _HOPPER_KERNELS = 9.0, "2024-07"
# GB/s from a GPU to another host, where experts lie on several (400 Gbit/s each).
_NETWORK_GB_S = 50.0
# Bytes that the optimiser reads and writes of each trained weight: AdamW's two moments, master
# weight and gradient in 32 bits, the 16-bit copy.
_OPTIMISER_BYTES = 30.0
# QLoRA makes 16-bit weights of 4-bit ones for each pass: half a byte read, two written, two read.
_DEQUANTISED_BYTES = 4.5
# NF4 with double quantisation (Dettmers 2023): 4.127 bits a weight of the layers' matrices.
FOUR_BITS = 4.127 / 8
_SEVERAL_BYTES = 2.0  # of one activation, gradient or weight that is exchanged


class Counts(NamedTuple):
    """Numbers of one model that do not depend on how it is tuned."""

    layer_weights: float  # used by a token, in all layers
    head_weights: float
    all_weights: float
    attention_width: float  # of all layers: query heads times the sizes of a key and a value
    elements: float  # numbers that a forward pass writes for a token outside of matrix products


@lru_cache(maxsize=512)
def counts_of(model: LanguageModel) -> Counts:
    """Counts of a model."""
    latent, head_weights = model.latent, float(model.vocab * model.hidden)
    widths = latent.nope + latent.rope + latent.v if latent else 2 * model.head_dim
    ffn = 2.0 * (model.layers - model.expert_layers) * model.ffn
    expert_ffn = model.experts_per_token + model.shared_experts
    ffn += 2 * model.expert_layers * expert_ffn * model.expert_ffn
    heads = model.head_dim * (model.heads + 2 * model.kv_heads)
    return Counts(
        layer_weights=model.active_parameters - head_weights,
        head_weights=head_weights,
        all_weights=model.parameters,
        attention_width=model.layers * model.heads * widths,
        elements=model.layers * (8.0 * model.hidden + 3 * heads) + (1.5 if model.gated else 1) * ffn,
    )


class Work(NamedTuple):
    """Columns of n runs, each (n,); seconds are those that data sheets promise.

    `matrices` in the format that they are multiplied in, `attention` in 16 bits, `elements` (activations
    outside of products) and `weights` (weights and optimiser) over the memory's bandwidth, `gathers` (weights
    and gradients of sharded runs), `all_reduces` and `experts` (to them and back) over the link, `launches`
    layers that are launched. `pcie` is log2 of the GPUs that are joined by PCIe, 0 over NVLink.
    `hopper_kernels`: attention made for Hopper and later. `least` is what peaks and bandwidth allow: products
    and attention, or each pass reading the weights that a token uses once. The others are logs or 0 and 1."""

    matrices: Floats
    attention: Floats
    elements: Floats
    weights: Floats
    optimiser: Floats
    gathers: Floats
    all_reduces: Floats
    experts: Floats
    launches: Floats
    head: Floats
    sequence: Floats
    hopper_kernels: Floats
    hidden: Floats
    watts: Floats
    power: Floats
    fp8: Floats
    mixture: Floats
    expert_tokens: Floats
    pcie: Floats
    hosts: Floats
    adapters: Floats
    quantised: Floats
    eager: Floats
    script: Floats
    least: Floats


def work_of(runs: Sequence[Run]) -> Work:
    """The columns of runs, in their order; `micro_batch`, `checkpointing` and `sharding` set."""
    return Work(*np.array([_row(run) for run in runs], dtype=float).reshape(-1, len(Work._fields)).T)


def _row(run: Run) -> tuple[float, ...]:
    tuning, gpu, model = run.tuning, run.tuning.gpu, run.tuning.model
    counts, tokens = counts_of(model), _tokens(run)
    again = RECOMPUTED[tuning.checkpointing or Checkpointing.NONE]
    passes = 3 if tuning.method == LlmMethod.FULL else 2  # adapters need no gradients of the rest
    used = counts.layer_weights + counts.head_weights
    matrices = 2 * (passes * used + again * counts.layer_weights)
    # The backward pass of attention is 2.5 times the forward one, of which a token sees half.
    seen = tuning.sequence / 2 if not model.window else min(tuning.sequence / 2, model.window)
    attention = 2 * counts.attention_width * seen * (3.5 + again)
    sixteen, bandwidth = gpu.tflops * 1e12, gpu.bandwidth_gb_s * 1e9
    wide = run.tensor_parallel * run.context_parallel
    link = ((gpu.nvlink_gb_s if tuning.link == "nvlink" else 0.0) or gpu.pcie_gb_s) * 1e9
    elements = 2 * counts.elements * (3 + again) + 16.0 * model.vocab
    per_weight = 2 * (3 + again)
    if tuning.method == LlmMethod.QLORA:
        per_weight += (passes + again) * _DEQUANTISED_BYTES
    experts = 2.0 * model.expert_layers * model.hidden * model.experts_per_token * 4
    far = run.expert_parallel > run.switched
    computed = (matrices / (gpu.fp8_tflops * 1e12 if run.fp8 else sixteen), attention / sixteen)
    read = 2 * used * (FOUR_BITS if tuning.method == LlmMethod.QLORA else _SEVERAL_BYTES)
    return (
        *computed,
        elements / bandwidth,
        per_weight * counts.all_weights * run.context_parallel / tokens / bandwidth,
        _optimiser_bytes(run, counts) / bandwidth,
        _gathered_bytes(run, counts) / tokens * run.context_parallel / link,
        _SEVERAL_BYTES * model.layers * model.hidden * (4 + 2 * again) * 2 * (run.tensor_parallel - 1) / link,
        experts / (_NETWORK_GB_S * 1e9 if far else link) if run.expert_parallel > 1 else 0.0,
        model.layers * (3 + again) * wide / tokens,
        math.log(counts.attention_width / (model.layers * model.heads * _HEAD_WIDTH)),
        math.log(tuning.sequence / _SEQUENCE),
        float(gpu.compute_capability >= _HOPPER and not "" < run.released < _HOPPER_KERNELS),
        math.log(model.hidden / math.sqrt(run.tensor_parallel) / _HIDDEN),
        math.log(gpu.watts / gpu.tflops / _WATTS_PER_TFLOPS) if gpu.watts else 0.0,
        gpu.power,
        float(run.fp8),
        float(model.experts > 0),
        _log_expert_tokens(run, tokens),
        math.log2(min(tuning.gpus, _HOST_GPUS)) if tuning.link == "pcie" else 0.0,
        math.log(max(tuning.gpus, _HOST_GPUS) / _HOST_GPUS),
        float(tuning.method != LlmMethod.FULL),
        float(tuning.method == LlmMethod.QLORA),
        float(run.eager),
        float(run.script),
        max(sum(computed), read / tokens / bandwidth),
    )


def _tokens(run: Run) -> float:
    """Tokens of a micro-batch, over the GPUs that share a copy of the model."""
    return float(run.tuning.sequence * (run.tuning.micro_batch or 1))


def _optimiser_bytes(run: Run, counts: Counts) -> float:
    """Bytes of an optimiser step for each token and GPU; adapters have next to none."""
    tuning = run.tuning
    if tuning.method != LlmMethod.FULL or _is_unsharded_megatron(run):
        return 0.0
    parts = 1 if _sharding(run) == Sharding.NONE else tuning.gpus
    of_gpu = _OPTIMISER_BYTES * counts.all_weights / parts
    return of_gpu * run.replica_gpus / (_tokens(run) * _steps(run))


def _gathered_bytes(run: Run, counts: Counts) -> float:
    """Bytes of weights and gradients that pass each GPU's link for one micro-batch."""
    tuning = run.tuning
    if tuning.gpus == 1 or _is_unsharded_megatron(run):
        return 0.0
    weight = FOUR_BITS if tuning.method == LlmMethod.QLORA else _SEVERAL_BYTES
    gathered = {Sharding.NONE: 0, Sharding.GRADIENTS: 1, Sharding.ALL: 2}[_sharding(run)] * weight
    if tuning.method == LlmMethod.FULL:
        # Sharded gradients are scattered by each micro-batch, others summed once a step.
        whole = 2 * _SEVERAL_BYTES / _steps(run)
        gathered += whole if _sharding(run) == Sharding.NONE else _SEVERAL_BYTES
    return counts.all_weights * (tuning.gpus - 1) / tuning.gpus * gathered


def _is_unsharded_megatron(run: Run) -> bool:
    """Megatron's own data parallelism hides its optimiser and sums behind other work."""
    return run.framework == "megatron" and run.tuning.sharding == Sharding.NONE


def _sharding(run: Run) -> Sharding:
    return run.tuning.sharding or Sharding.ALL


def _steps(run: Run) -> int:
    """Micro-batches of an optimiser step: as somebody measured it, else as many as gather its sequences."""
    sequences = (run.tuning.micro_batch or 1) * run.tuning.gpus
    return run.accumulation or max(1, math.ceil(STEP_SEQUENCES / sequences))


def _log_expert_tokens(run: Run, tokens: float) -> float:
    """Log of the tokens that one expert gets at once, over what fills a GPU; 0 at most."""
    model = run.tuning.model
    if not model.experts:
        return 0.0
    share = model.experts_per_token / model.experts
    return math.log(min(1.0, tokens * run.expert_parallel * share / _EXPERT_TOKENS))
