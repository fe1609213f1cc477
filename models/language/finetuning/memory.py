"""GPU memory of a tuning run: weights, what trains them, activations, buffers, driver, allocator.

Activations are those of a decoder with fused attention: each layer keeps the inputs of its matrix products
and what it normalised, 16 bits each; with full checkpointing only its input, and one layer is whole at a
time. The loss is computed on 32-bit logits of the whole vocabulary, as PyTorch's cross entropy does unless a
fused kernel is asked for. GiB are 2**30 bytes."""

from __future__ import annotations

from typing import NamedTuple

from advisor.domain.words import LlmMethod
from advisor.models.language.finetuning.tuning import (
    ADAPTER_RANK,
    FOUR_BITS,
    Checkpointing,
    FineTuning,
    Sharding,
)
from advisor.models.language.language_model import LanguageModel

_GIB = 2.0**30
# AdamW in 32 bits: master weight, gradient, two moments. The 16-bit copy is cast layer by layer.
_MASTER, _GRADIENT, _MOMENTS = 4.0, 4.0, 8.0
_SIXTEEN_BITS = 2.0
# Logits and their gradients in 16 and 32 bits: 12 if all were there at once. 11 lies between what
# was measured and what runs of MPT had room for.
_LOGIT_BYTES = 11.0
# Shares of a layer's activations that are kept, `Checkpointing.SELECTIVE`: every second product.
_KEPT_SELECTIVELY = 0.5
# CUDA context; NCCL's buffers; what the allocator holds beyond what is in use.
_CONTEXT_GIB, _COLLECTIVES_GIB, _FRAGMENTED = 0.6, 0.8, 0.04
# How far off each part may be: weights and what trains them are counted, activations depend on the library,
# and the allocator on everything. Every measured peak lies within (docs/internals/language.md).
_STATE_DOUBT, _ACTIVATION_DOUBT, _OVERHEAD_DOUBT = 0.02, 0.2, 0.6


class TuningMemory(NamedTuple):
    """GiB on each GPU; `lower` and `upper` bound the total, which is their median's."""

    weights_gib: float
    gradients_gib: float
    optimiser_gib: float
    activations_gib: float
    overhead_gib: float
    lower_gib: float
    upper_gib: float

    @property
    def total_gib(self) -> float:
        """GiB of all parts at the peak."""
        return sum(self[:5])

    def fits(self, memory_gib: float) -> bool:
        """True if the upper bound fits on the GPU."""
        return self.upper_gib <= memory_gib


def finetuning_memory(tuning: FineTuning) -> TuningMemory:
    """Memory of a tuning whose `micro_batch`, `checkpointing` and `sharding` are set."""
    full = tuning.method == LlmMethod.FULL
    trained = tuning.model.parameters if full else adapter_weights(tuning.model)
    sharding, gpus = tuning.sharding or Sharding.NONE, tuning.gpus
    weight_parts = gpus if sharding == Sharding.ALL else 1
    state_parts = 1 if sharding == Sharding.NONE else gpus
    if not full:
        state_parts = weight_parts if sharding == Sharding.ALL else 1
    weights = (_base_bytes(tuning) + trained * _MASTER) / weight_parts + _gathered_bytes(tuning)
    gradients = trained * _GRADIENT / state_parts
    optimiser = trained * _MOMENTS / state_parts
    activations = _activation_bytes(tuning)
    used = (weights + gradients + optimiser + activations) / _GIB
    fixed = _CONTEXT_GIB + (_COLLECTIVES_GIB if gpus > 1 else 0.0)
    overhead = fixed + _FRAGMENTED * used
    state = (weights + gradients + optimiser) / _GIB
    doubt = _STATE_DOUBT * state + _OVERHEAD_DOUBT * overhead
    doubt += _ACTIVATION_DOUBT * activations / _GIB
    return TuningMemory(
        weights / _GIB,
        gradients / _GIB,
        optimiser / _GIB,
        activations / _GIB,
        overhead,
        used + overhead - doubt,
        used + overhead + doubt,
    )


def adapter_weights(model: LanguageModel) -> float:
    """Weights of adapters on every matrix of the layers, experts included."""
    latent = model.latent
    queries = model.heads * (latent.nope + latent.rope if latent else model.head_dim)
    values = model.heads * (latent.v if latent else model.head_dim)
    keys = latent.kv_lora + latent.rope if latent else 2 * model.kv_heads * model.head_dim
    attention = (model.hidden + queries) + (values + model.hidden) + keys
    attention += model.hidden * (1 if latent else 2)
    matrices = 3 if model.gated else 2
    dense = matrices * (model.hidden + model.ffn) * (model.layers - model.expert_layers)
    expert = matrices * (model.hidden + model.expert_ffn)
    experts = model.expert_layers * (model.experts + model.shared_experts) * expert
    return float(ADAPTER_RANK * (model.layers * attention + dense + experts))


def _base_bytes(tuning: FineTuning) -> float:
    """Bytes of frozen weights: none where all are trained; embeddings and output keep 16 bits."""
    weights = tuning.model.weights
    if tuning.method == LlmMethod.FULL:
        return 0.0
    if tuning.method == LlmMethod.LORA:
        return weights.total * _SIXTEEN_BITS
    whole = weights.embedding + weights.head + weights.other + weights.router
    return whole * _SIXTEEN_BITS + (weights.total - whole) * FOUR_BITS


def _gathered_bytes(tuning: FineTuning) -> float:
    """16-bit weights that lie whole on a GPU for a while: two layers (one in use, one on its way),
    embedding and output, and in full tuning the gradients of one layer."""
    model, weights = tuning.model, tuning.model.weights
    layer = (weights.total - weights.embedding - weights.head) / model.layers
    ends = (weights.embedding + weights.head) * _SIXTEEN_BITS
    if tuning.sharding == Sharding.ALL and tuning.gpus > 1:
        if tuning.method == LlmMethod.QLORA:
            return ends + 2 * layer * FOUR_BITS + layer * _SIXTEEN_BITS
        gradients = layer * _SIXTEEN_BITS if tuning.method == LlmMethod.FULL else 0.0
        return ends + 2 * layer * _SIXTEEN_BITS + gradients
    if tuning.method == LlmMethod.LORA:
        return 0.0
    # 32-bit weights are cast, 4-bit ones are made 16 bits wide, a layer at a time.
    return layer * _SIXTEEN_BITS + (ends if tuning.method == LlmMethod.FULL else 0.0)


def _activation_bytes(tuning: FineTuning) -> float:
    """Bytes of activations and logits at the peak."""
    model = tuning.model
    tokens = float(tuning.sequence * (tuning.micro_batch or 1))
    layer, layer_input = _layer_bytes(model), _SIXTEEN_BITS * model.hidden
    checkpointing = tuning.checkpointing or Checkpointing.NONE
    if checkpointing == Checkpointing.FULL:
        kept = model.layers * layer_input + layer
    elif checkpointing == Checkpointing.SELECTIVE:
        kept = model.layers * layer * _KEPT_SELECTIVELY + layer
    else:
        kept = model.layers * layer
    return tokens * (kept + model.vocab * _LOGIT_BYTES)


def _layer_bytes(model: LanguageModel) -> float:
    """Bytes that one layer keeps of a token."""
    queries, keys = model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    ffn = float(model.ffn)
    if model.expert_layers:
        active = (model.experts_per_token + model.shared_experts) * model.expert_ffn
        ffn = max(active, ffn if model.dense_layers else 0.0)
    # Inputs and outputs of two norms; queries, keys, values and what attention makes of them; of
    # the feed-forward network what goes into and comes out of its activation.
    numbers = 4.0 * model.hidden + 2.0 * queries + keys + (3 if model.gated else 2) * ffn
    return _SIXTEEN_BITS * numbers
