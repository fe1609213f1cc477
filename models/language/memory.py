"""Memory of a served language model on each of its GPUs: weights, what the engine takes, and the
room that is left for keys and values (KV).

Weights and KV follow from the configuration; what an engine takes and leaves is known less well,
so that the KV capacity has an interval. GiB are 2**30 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from advisor.domain.generation import KvPrecision, LlmEngine, LlmPrecision
from advisor.models.bayes import Bounds, Floats
from advisor.models.language.formats import bits_by_module, engine_of_formats
from advisor.models.language.language_model import LanguageModel

_GIB = 2.0**30
# An index key of DeepSeek's sparse attention is kept in fp8 with a 32-bit scale.
_INDEX_SCALE_BYTES = 4
# CUDA context with its libraries, CUDA graphs; NCCL's buffers where GPUs work together.
_CONTEXT_GIB, _GRAPHS_GIB, _COLLECTIVES_GIB = 0.5, 0.4, 0.3
# Prompt tokens that are computed at once: vLLM's default for GPUs from 70 GiB on, and for others.
_CHUNK_TOKENS, _SMALL_CHUNK_TOKENS, _LARGE_GPU_GIB = 8192, 2048, 70.0
# Parts of a card's nominal size that stay empty beside weights, engine and KV. Lower bound of the
# room: as engines start without options (vLLM fills 0.9, SGLang 0.88 of what the driver leaves);
# median: as the published serving measurements that the rates are fitted on were run, whose largest
# batches it explains; upper: the driver's alone. None leaves more GiB than `_MOST_EMPTY_GIB`: on
# cards of 180 GiB published measurements filled more than the default share.
_EMPTY = {
    LlmEngine.VLLM: (0.11, 0.06, 0.03),
    LlmEngine.SGLANG: (0.13, 0.06, 0.03),
    LlmEngine.TRTLLM: (0.03, 0.02, 0.02),
    LlmEngine.LLAMA_CPP: (0.08, 0.04, 0.02),
}
_MOST_EMPTY_GIB = (14.0, 12.0, 6.0)
# TensorRT-LLM takes a part of what is left free for KV: 0.9, or 0.95 in its makers' measurements.
_TAKEN = {LlmEngine.TRTLLM: (0.85, 0.9, 0.95)}
# The engine's own part may be so much smaller or larger than computed here.
_OVERHEAD_DOUBT = (1.5, 1.0, 0.7)
# GDDR6 with error correction gives a sixteenth of the sheet's size to it: nvidia-smi shows 15,360
# of a T4's 16,384 MiB, 23,034 of an L4's 24,576.
_GDDR_WITH_ECC = frozenset({"T4", "T4G", "A2", "A10", "A10G", "A16", "A40", "L4", "L40", "L40S"})
_SHEET_GIB = {"T4": 16, "T4G": 16, "A2": 16, "A16": 16, "A40": 48, "L40": 48, "L40S": 48}


def card_gib(gpu: str, memory_gib: float) -> float:
    """GiB that a driver shows of a GPU by its catalogue name and its sheet's or instance's GiB."""
    if gpu not in _GDDR_WITH_ECC:
        return memory_gib
    return min(memory_gib, _SHEET_GIB.get(gpu, 24) * 15 / 16)


def weight_gib(model: LanguageModel, precision: LlmPrecision, engine: LlmEngine = LlmEngine.VLLM) -> float:
    """GiB of all weights, as a checkpoint in this format has them."""
    bits = bits_by_module(model, precision, engine)
    return sum(count * each for count, each in zip(model.weights, bits, strict=True)) / 8 / _GIB


@lru_cache(maxsize=4096)
def weight_gib_per_gpu(
    model: LanguageModel,
    precision: LlmPrecision,
    tensor_parallel: int = 1,
    engine: LlmEngine = LlmEngine.VLLM,
) -> float:
    """GiB of weights on each GPU: matrices are split, each GPU has all of the rest.

    Not split are what chooses experts, towers and norms, the ranks of latent attention, and keys'
    and values' matrices beyond one KV head a GPU.
    """
    bits = bits_by_module(model, precision, engine)
    weights, copies = model.weights, tensor_parallel - 1
    split = sum(count * each for count, each in zip(weights, bits, strict=True)) / tensor_parallel
    whole = weights.router * bits.router + weights.other * bits.other
    copied = _copied_attention(model, tensor_parallel) * bits.attention / tensor_parallel
    return (split + whole * copies / tensor_parallel + copied) / 8 / _GIB


def _copied_attention(model: LanguageModel, tensor_parallel: int) -> float:
    """Weights of attention that the GPUs have more of than the model."""
    if model.latent:
        down = model.latent.kv_lora + model.latent.rope + model.latent.q_lora
        return model.layers * model.hidden * down * (tensor_parallel - 1)
    heads = max(0, tensor_parallel - model.kv_heads)
    return model.layers * 2.0 * model.hidden * model.head_dim * heads


def kv_bytes_per_token(model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int = 1) -> float:
    """Bytes of keys and values of one token on each GPU, in all layers (see `kv_bytes`).

    A KV head is never split: beyond as many GPUs as KV heads each keeps one whole. What latent
    attention caches is one vector, and each GPU has a copy of it.
    """
    return model.layers * _layer_bytes(model, kv_precision, tensor_parallel)


def kv_bytes(
    model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int, context_tokens: float | Floats
) -> Floats:
    """Bytes on each GPU of one sequence of `context_tokens`, of its last `window` tokens in layers
    that see no more."""
    tokens = np.asarray(context_tokens, float)
    seen = tokens if model.window is None else np.minimum(tokens, model.window)
    kept = model.full_layers * tokens + model.window_layers * seen
    return np.asarray(kept * _layer_bytes(model, kv_precision, tensor_parallel))


def _layer_bytes(model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int) -> float:
    bytes_each = 1 if kv_precision == KvPrecision.FP8 else 2
    if model.latent:
        index = model.indexer.head_dim + _INDEX_SCALE_BYTES if model.indexer else 0
        return (model.latent.kv_lora + model.latent.rope) * bytes_each + index
    heads = -(-model.kv_heads // tensor_parallel)
    return 2.0 * heads * model.head_dim * bytes_each


def can_split(model: LanguageModel, tensor_parallel: int) -> bool:
    """Whether engines split the model so: heads in equal parts, KV heads in equal parts or copies
    (vLLM and TensorRT-LLM refuse others)."""
    if model.heads % tensor_parallel:
        return False
    kv_heads = model.kv_heads
    return bool(model.latent) or not (kv_heads % tensor_parallel and tensor_parallel % kv_heads)


def _fixed_gib(tensor_parallel: int) -> float:
    """GiB on each GPU for context, graphs and collectives."""
    together = _COLLECTIVES_GIB if tensor_parallel > 1 else 0.0
    return _CONTEXT_GIB + _GRAPHS_GIB + together


def _token_gib(model: LanguageModel, tensor_parallel: int) -> float:
    """GiB of a prompt token's activations on each GPU, in 16 bits: both halves of a gated network's
    width, and four vectors of the model's."""
    of_experts = (model.experts_per_token + model.shared_experts) * model.expert_ffn
    vector = 2 * max(model.ffn, of_experts) / tensor_parallel + 4 * model.hidden
    return vector * 2 / _GIB


class ServingMemory(NamedTuple):
    """Memory on each GPU of n replicas; columns are (n,), in GiB unless named otherwise.

    `kv_gib` is the room for KV, 0 where weights and engine fill the GPU; `free_gib` is what is left
    beside its median. Of KV, `full_bytes` are kept of each token for good, `window_bytes` of each
    of the last `window_tokens`. `max_context` is the longest sequence that the model takes (inf
    where its configuration has none).
    """

    weights_gib: Floats
    overhead_gib: Floats
    kv_gib: Bounds
    free_gib: Floats
    full_bytes: Floats
    window_bytes: Floats
    window_tokens: Floats
    max_context: Floats

    def sequence_gib(self, context_tokens: float | Floats) -> Floats:
        """GiB of KV on each GPU that one sequence of so many tokens holds, (n,)."""
        tokens = np.asarray(context_tokens, float)
        seen = np.minimum(tokens, self.window_tokens)
        return np.asarray((self.full_bytes * tokens + self.window_bytes * seen) / _GIB)

    def most_sequences(self, context_tokens: float | Floats) -> Bounds:
        """Sequences of so many tokens (input and output) that are held at once, whole numbers as
        floats: 0 where not even one is, or where the model takes none so long."""
        tokens = np.asarray(context_tokens, float)
        each = self.sequence_gib(tokens)
        taken = tokens <= self.max_context
        return Bounds(*(np.where(taken, np.floor(room / each), 0.0) for room in self.kv_gib))

    @property
    def longest_context(self) -> Bounds:
        """Tokens of the longest single sequence, as memory and model allow."""
        return Bounds(*(self._longest(room * _GIB) for room in self.kv_gib))

    def _longest(self, room: Floats) -> Floats:
        both = self.full_bytes + self.window_bytes
        within = room / both
        with np.errstate(divide="ignore", invalid="ignore"):
            held = self.window_bytes * np.where(self.window_bytes > 0, self.window_tokens, 0.0)
            beyond = np.where(self.full_bytes > 0, (room - held) / self.full_bytes, np.inf)
        tokens = np.where(within <= self.window_tokens, within, beyond)
        return np.floor(np.minimum(tokens, self.max_context))


class _Row(NamedTuple):
    """The parts that do not depend on the GPU: GiB of weights, of fixed buffers and of a prompt token's
    activations, and the KV columns of `ServingMemory`."""

    weights: float
    fixed: float
    token: float
    full: float
    window: float
    window_tokens: float
    max_context: float


def serving_memory(
    models: LanguageModel | Sequence[LanguageModel],
    precisions: str | Sequence[str],
    kv_precisions: str | Sequence[str],
    gpu_memory_gib: float | Sequence[float] | Floats,
    tensor_parallel: int | Sequence[int],
    engines: str | Sequence[str] = LlmEngine.VLLM,
) -> ServingMemory:
    """Memory of replicas, one a row; each argument is one value or a sequence of n of them.

    `gpu_memory_gib` is of one card as `card_gib` has it. KV gets the card less what stays
    empty, weights and engine. `ValueError` where the sequences differ in length.
    """
    memory = np.atleast_1d(np.asarray(gpu_memory_gib, float))
    given = (models, precisions, kv_precisions, tensor_parallel, engines)
    columns = [_several(each) for each in given]
    count = max(len(memory), *(len(column) for column in columns))
    replicas = list(zip(*(_repeated(each, count) for each in columns), strict=True))
    rows = np.array([_row(*replica) for replica in replicas], float)
    facts = _Row(*rows.reshape(count, len(_Row._fields)).T)
    tokens = np.where(memory >= _LARGE_GPU_GIB, _CHUNK_TOKENS, _SMALL_CHUNK_TOKENS)
    overhead = facts.fixed + tokens * facts.token
    kv = _room(
        memory, np.asarray(facts.weights), overhead, [engine_of_formats(replica[-1]) for replica in replicas]
    )
    free = np.maximum(memory - facts.weights - overhead - kv.median, 0.0)
    return ServingMemory(
        np.asarray(facts.weights),
        np.asarray(overhead),
        kv,
        free,
        np.asarray(facts.full),
        np.asarray(facts.window),
        np.asarray(facts.window_tokens),
        np.asarray(facts.max_context),
    )


def _room(memory: Floats, weights: Floats, overhead: Floats, engines: Sequence[LlmEngine]) -> Bounds:
    """GiB for KV on each GPU."""
    empty = np.array([_EMPTY[engine] for engine in engines]).T
    taken = np.array([_TAKEN.get(engine, (1.0, 1.0, 1.0)) for engine in engines]).T
    room = []
    for end, (most, doubt) in enumerate(zip(_MOST_EMPTY_GIB, _OVERHEAD_DOUBT, strict=True)):
        left = memory - np.minimum(memory * empty[end], most) - weights - overhead * doubt
        room.append(np.maximum(left * taken[end], 0.0))
    return Bounds(*room)


@lru_cache(maxsize=4096)
def _row(model: LanguageModel, precision: str, kv_precision: str, tensor_parallel: int, engine: str) -> _Row:
    each = _layer_bytes(model, KvPrecision(kv_precision), tensor_parallel)
    weights = weight_gib_per_gpu(model, LlmPrecision(precision), tensor_parallel, engine_of_formats(engine))
    return _Row(
        weights=weights,
        fixed=_fixed_gib(tensor_parallel),
        token=_token_gib(model, tensor_parallel),
        full=model.full_layers * each,
        window=model.window_layers * each,
        window_tokens=float(model.window or np.inf),
        max_context=float(model.max_context or np.inf),
    )


def _several(values: Any) -> tuple[Any, ...]:
    """The values, a single one as a sequence of one."""
    if isinstance(values, str | int | np.integer | LanguageModel):
        return (values,)
    return tuple(values)


def _repeated(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(values) not in (1, count):
        raise ValueError(f"{len(values)} values for {count} replicas")
    return values * count if len(values) == 1 else values
