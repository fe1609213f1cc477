"""The work of serving on a GPU: bytes and operations of a step and of a prompt, as columns.

A step yields one token of each sequence in flight. Everything is of one GPU of the replica."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.words import KvPrecision, LlmPrecision
from advisor.models.language.deployments import Deployment
from advisor.models.language.formats import bits_by_module, engine_of_formats
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.memory import kept_share, kv_bytes_per_token, state_bytes

Floats = NDArray[np.float64]

# The most tokens that a step reads where nothing else is set (TensorRT-LLM and SGLang are near): vLLM's
# server reads the larger number on large cards but for the A100 (`EngineArgs.get_batch_defaults` in
# vllm/engine/arg_utils.py since 0.8.5; what both do to times:
# https://docs.vllm.ai/en/stable/configuration/optimization/).
_STEP_TOKENS = (2048.0, 8192.0)


class ModelWork(NamedTuple):
    """The work of one token of a model in a format: totals over its layers and all GPUs.

    `fixed_bytes` and `fixed_weights` are read and used by each token, `expert_bytes` are those of all routed
    experts; a token uses `expert_weights` of them. A share `whole_layers` of the layers sees the whole
    context, the others `window` tokens."""

    layers: float
    mixture_layers: float
    is_mla: float
    hidden: float
    fixed_bytes: float
    fixed_weights: float
    sixteen_weights: float
    expert_bytes: float
    expert_weights: float
    experts: float
    experts_per_token: float
    whole_layers: float
    window: float
    attention_width: float


def model_work(model: LanguageModel, precision: str, engine: str) -> ModelWork:
    """Counts of one model in one format (`LlmPrecision`), as an engine serves it."""
    weights, latent = model.weights, model.latent
    bits = bits_by_module(model, LlmPrecision(precision), engine_of_formats(engine))
    head = model.vocab * model.hidden
    # Weights that each token reads, with their bits: the input's embedding is looked up.
    read = (
        (weights.attention, bits.attention),
        (weights.dense, bits.dense),
        (weights.shared, bits.shared),
        (weights.router, bits.router),
        (head, bits.head),
    )
    key_width = latent.rope + latent.nope if latent else model.head_dim
    value_width = latent.v if latent else model.head_dim
    return ModelWork(
        layers=model.layers,
        mixture_layers=model.expert_layers,
        is_mla=float(latent is not None),
        hidden=model.hidden,
        fixed_bytes=sum(count * each for count, each in read) / 8,
        fixed_weights=sum(count for count, _ in read),
        sixteen_weights=sum(count for count, each in read if each == 16),
        expert_bytes=weights.experts * bits.experts / 8,
        expert_weights=weights.experts * model.experts_per_token / max(model.experts, 1),
        experts=max(model.experts, 1),
        experts_per_token=max(model.experts_per_token, 1),
        whole_layers=kept_share(model, KvPrecision.BF16, 1),
        window=float(model.window or np.inf),
        attention_width=(
            model.mixed.width if model.mixed else model.layers * model.heads * (key_width + value_width)
        ),
    )


class Work(NamedTuple):
    """Columns of n deployments, each (n,); bytes a second and operations a second are peaks.

    `kv_bytes` are those of one token in the cache of one GPU, `state_bytes` those of a sequence that a step
    reads and writes, however long it is. Peaks: of 16 bits, and of the format that the quantised layers
    compute in. `step_tokens` are the most that a step reads. `nodes` are joined by `between` bytes a second.
    Each of `ranks` has the experts together with the others, and all else alone. A step drafts `drafted`
    tokens of each sequence and yields `yielded`; `draft_*` are of what drafts them."""

    model: ModelWork  # of columns
    tensor_parallel: Floats
    kv_bytes: Floats
    state_bytes: Floats
    memory: Floats
    sixteen_peak: Floats
    format_peak: Floats
    nvlink: Floats
    pcie: Floats
    step_tokens: Floats
    nodes: Floats
    ranks: Floats
    between: Floats
    drafted: Floats
    yielded: Floats
    draft_layers: Floats
    draft_bytes: Floats
    draft_weights: Floats
    draft_kv: Floats

    def take(self, rows: NDArray[np.intp]) -> Work:
        """The rows of the given numbers, repeated where a number is."""
        of_model: Any = self.model
        columns: Any = self[1:]
        model = ModelWork(*(column[rows] for column in of_model))
        return Work(model, *(column[rows] for column in columns))


def arithmetic_of(deployment: Deployment) -> tuple[str, float]:
    """The arithmetic of the quantised layers, 16, fp8 or fp4 as the GPU has units, and its TFLOP/s."""
    gpu, precision = deployment.gpu, deployment.precision
    if precision in ("nvfp4", "mxfp4") and gpu.fp4_tflops:
        return "fp4", gpu.fp4_tflops
    return ("fp8", gpu.fp8_tflops) if precision == "fp8" and gpu.fp8_tflops else ("16", gpu.tflops)


def _draft_work(deployment: Deployment) -> tuple[float, float, float, float]:
    """Layers, bytes and weights that a drafted token takes, and bytes of the cache on one GPU; the model that
    drafts is in its published format, with a cache of 16 bits."""
    model = deployment.draft.model if deployment.draft else None
    if model is None:
        return 0.0, 0.0, 0.0, 0.0
    work = model_work(model, model.own_precision, deployment.engine)
    read, used = work.fixed_bytes + work.expert_bytes, work.fixed_weights + work.expert_weights
    return work.layers, read, used, kv_bytes_per_token(model, KvPrecision.BF16, deployment.tensor_parallel)


def work_of(deployments: Sequence[Deployment]) -> Work:
    """The columns of deployments, in their order."""
    counts: dict[tuple[int, str, str], ModelWork] = {}
    for entry in deployments:
        key = id(entry.model), entry.precision, entry.engine
        if key not in counts:
            counts[key] = model_work(entry.model, entry.precision, entry.engine)
    models = [counts[id(entry.model), entry.precision, entry.engine] for entry in deployments]
    rows = np.array([_row(entry) for entry in deployments], dtype=float)
    columns: Any = rows.reshape(-1, len(Work._fields) - 1).T
    return Work(ModelWork(*np.array(models, dtype=float).T), *columns)


def _row(deployment: Deployment) -> tuple[float, ...]:
    """The fields of `Work` behind the model's, in their order."""
    model, gpu, draft = deployment.model, deployment.gpu, deployment.draft
    gpus, kv_precision = deployment.tensor_parallel, KvPrecision(deployment.kv_precision)
    is_large = gpu.memory_gib >= 70 and "A100" not in gpu.name
    return (
        gpus,
        kv_bytes_per_token(model, kv_precision, gpus),
        2 * state_bytes(model, gpus),
        gpu.bandwidth_gb_s * 1e9,
        gpu.tflops * 1e12,
        arithmetic_of(deployment)[1] * 1e12,
        gpu.nvlink_gb_s * 1e9 if deployment.link == "nvlink" else 0.0,
        gpu.pcie_gb_s * 1e9,
        _STEP_TOKENS[is_large],
        deployment.nodes,
        deployment.ranks,
        deployment.node_gb_s * 1e9 if deployment.nodes > 1 else math.inf,
        draft.tokens if draft else 0,
        draft.tokens_of_step if draft else 1,
        *_draft_work(deployment),
    )
