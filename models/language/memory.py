"""GPU memory of a served language model: weights, engine, and room for keys and values (KV).

Weights and KV follow from the configuration; what an engine takes and leaves is known less well, so that the
KV capacity has an interval. GiB are 2**30 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.words import KvPrecision, LlmEngine, LlmPrecision
from advisor.models.bayes import Bounds, Floats
from advisor.models.language.formats import BITS, bits_by_module, engine_of_formats
from advisor.models.language.language_model import LanguageModel

_GIB = 2.0**30
_LONGEST = 100_000_000  # tokens of a sequence: no question asks for more
# An index key of DeepSeek's sparse attention is kept in fp8 with a 32-bit scale.
_INDEX_SCALE_BYTES = 4
# CUDA context with its libraries, CUDA graphs; NCCL's buffers where GPUs work together.
_CONTEXT_GIB, _GRAPHS_GIB, _COLLECTIVES_GIB = 0.5, 0.4, 0.3
# Prompt tokens that are computed at once: vLLM's default for GPUs from 70 GiB on, and for others.
_CHUNK_TOKENS, _SMALL_CHUNK_TOKENS, _LARGE_GPU_GIB = 8192, 2048, 70.0
# Parts of a card's nominal size that stay empty beside weights, engine and KV. Lower bound of the
# room: as engines start without options (SGLang fills 0.88 of what the driver leaves; vLLM's is
# `_as_vllm_starts`); median: as the published serving measurements that the rates are fitted on were
# run, whose largest batches it explains; upper: the driver's alone. None leaves more GiB than
# `_MOST_EMPTY_GIB`: on cards of 180 GiB published measurements filled more than the default share.
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


class _Start(NamedTuple):
    """A version of vLLM at its start, as its logs tell: it tries its sampler on as many sequences as it
    takes in, `sampler` bytes for each word of each, and other libraries take GiB on one GPU and where
    several work together."""

    sampler: float
    alone: float
    together: float


# Starts of vLLM 0.11 and 0.19 on H100 (llm-d-benchmark, config_explorer/empirical-vllm-memory-results.md
# @ 2593348; llm-d-planner, docs/accuracy/vllm-v0.19.0-accuracy-report.md @ 2d557dc; both Apache-2.0).
# Which of them a user's version is like is not known: the lower bound has the smaller room of both.
_STARTS = (_Start(38.3, 0.14, 0.55), _Start(15.6, 0.27, 2.13))
# The part of a card that vLLM fills unasked (`--gpu-memory-utilization`).
USUAL_SHARE = 0.9
# Sequences that it takes in where nobody limits them, on large cards and on others; half of them where the
# options of an answer do (`--max-num-seqs`), whose room counts by half where the usual start leaves less.
_STARTING_SEQUENCES, _SMALL_STARTING_SEQUENCES, _LIMITED, _COUNTED = 1024, 256, 0.5, 0.5
# What CUDA shows a process of what the driver shows of a card: 79.2 of 80 GiB, 22.1 of 22.5.
_SHOWN, _HIDDEN_GIB = 0.9925, 0.2
# Kernels of MXFP4 experts want widths in whole multiples of this: 2,880 are stored as 3,072.
_MXFP4_WIDTH = 256
# GDDR6 with error correction gives a sixteenth of the sheet's size to it: nvidia-smi shows 15,360
# of a T4's 16,384 MiB, 23,034 of an L4's 24,576.
_GDDR_WITH_ECC = frozenset({"T4", "T4G", "A2", "A10", "A10G", "A16", "A40", "L4", "L40", "L40S"})
_SHEET_GIB = {"T4": 16, "T4G": 16, "A2": 16, "A16": 16, "A40": 48, "L40": 48, "L40S": 48}


def card_gib(gpu: str, memory_gib: float) -> float:
    """GiB that a driver reports for a GPU, given its catalogue name and the GiB of its data sheet."""
    if gpu not in _GDDR_WITH_ECC:
        return memory_gib
    return min(memory_gib, _SHEET_GIB.get(gpu, 24) * 15 / 16)


def weight_gib(model: LanguageModel, precision: LlmPrecision, engine: LlmEngine = LlmEngine.VLLM) -> float:
    """GiB of all weights, as a checkpoint in this format has them."""
    bits = bits_by_module(model, precision, engine)
    return sum(count * each for count, each in zip(model.weights, bits, strict=True)) / 8 / _GIB


@lru_cache(maxsize=4096)
def weight_gib_per_gpu(
    model: LanguageModel, precision: LlmPrecision, tensor_parallel: int, engine: LlmEngine = LlmEngine.VLLM
) -> float:
    """GiB of weights on each GPU: matrices are split, each GPU has all of the rest.

    Not split are what chooses experts, towers and norms, the ranks of latent attention, and keys' and values'
    matrices beyond one KV head a GPU."""
    bits = bits_by_module(model, precision, engine)
    weights, copies = model.weights, tensor_parallel - 1
    split = sum(count * each for count, each in zip(weights, bits, strict=True)) / tensor_parallel
    if bits.experts == BITS[LlmPrecision.MXFP4]:
        padding = -model.hidden % _MXFP4_WIDTH / model.hidden
        split += weights.experts * bits.experts * padding / tensor_parallel
    whole = weights.router * bits.router + weights.other * bits.other
    copied = 0.0  # weights of attention that the GPUs have more of than the model
    if model.latent and not model.mixed:
        down = model.latent.kv_lora + model.latent.rope + model.latent.q_lora
        copied = model.layers * model.hidden * down * copies
    elif not model.mixed:
        heads = max(0, tensor_parallel - model.kv_heads)
        copied = model.layers * 2.0 * model.hidden * model.head_dim * heads
    copied *= bits.attention / tensor_parallel
    return (split + whole * copies / tensor_parallel + copied) / 8 / _GIB


def kv_bytes_per_token(model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int = 1) -> float:
    """Bytes of keys and values of one token on each GPU, in all layers.

    A KV head is never split: beyond as many GPUs as KV heads each keeps one whole. What latent attention
    caches is one vector, and each GPU has a copy of it."""
    return sum(_token_bytes(model, kv_precision, tensor_parallel))


def state_bytes(model: LanguageModel, tensor_parallel: int) -> float:
    """Bytes per sequence and GPU that do not depend on its length: of linear attention and state spaces."""
    return model.mixed.state_bytes / tensor_parallel if model.mixed else 0.0


def kept_share(model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int) -> float:
    """The share of a token's keys and values that are kept permanently, not only for a window."""
    full, windowed = _token_bytes(model, kv_precision, tensor_parallel)
    return full / (full + windowed) if full + windowed else 1.0


def _token_bytes(
    model: LanguageModel, kv_precision: KvPrecision, tensor_parallel: int
) -> tuple[float, float]:
    """Bytes of one token on each GPU: those kept permanently, and those kept for a window."""
    bytes_each = 1 if kv_precision == KvPrecision.FP8 else 2
    if mixed := model.mixed:
        parts = ((mixed.kept, 1 if model.latent else model.kv_heads), (mixed.windowed, mixed.window_heads))
        full, windowed = (
            numbers * bytes_each * -(-heads // tensor_parallel) / heads for numbers, heads in parts
        )
        return full, windowed
    each = 2.0 * -(-model.kv_heads // tensor_parallel) * model.head_dim * bytes_each
    if model.latent:
        index = model.indexer.head_dim + _INDEX_SCALE_BYTES if model.indexer else 0
        each = (model.latent.kv_lora + model.latent.rope) * bytes_each + index
    return (model.layers - model.window_layers) * each, model.window_layers * each


def can_split(model: LanguageModel, tensor_parallel: int) -> bool:
    """True if engines can split the model so: heads and KV heads in equal parts, or KV heads copied."""
    if model.heads % tensor_parallel:
        return False
    kv_heads = model.kv_heads
    return bool(model.latent) or not (kv_heads % tensor_parallel and tensor_parallel % kv_heads)


class ServingMemory(NamedTuple):
    """Memory on each GPU of n replicas; columns are (n,), in GiB unless named otherwise.

    `kv_gib` is the room for KV, 0 where weights and engine fill the GPU; `overhead_gib` is what the engine
    takes and `free_gib` what is left where that room is its lower bound. Of KV, `full_bytes` are kept of each
    token for good, `window_bytes` of each of the last `window_tokens`, `state_bytes` of each sequence.
    `max_context` is the longest sequence that the model takes (`_LONGEST` if its files name none)."""

    weights_gib: Floats
    overhead_gib: Floats
    kv_gib: Bounds
    free_gib: Floats
    full_bytes: Floats
    window_bytes: Floats
    window_tokens: Floats
    state_bytes: Floats
    max_context: Floats

    def sequence_gib(self, context_tokens: float | Floats) -> Floats:
        """GiB of KV on each GPU that one sequence of so many tokens holds, (n,)."""
        tokens = np.asarray(context_tokens, float)
        seen = np.minimum(tokens, self.window_tokens)
        return np.asarray((self.full_bytes * tokens + self.window_bytes * seen + self.state_bytes) / _GIB)

    def most_sequences(self, context_tokens: float | Floats) -> Bounds:
        """Sequences of so many tokens (input and output) that are held at once, whole numbers as
        floats: 0 where not even one is, or where the model takes none so long."""
        tokens = np.asarray(context_tokens, float)
        each = self.sequence_gib(tokens)
        taken = tokens <= self.max_context
        return Bounds(*(np.where(taken, np.floor(room / each), 0.0) for room in self.kv_gib))

    @property
    def longest_context(self) -> Bounds:
        """Tokens of the longest single sequence that memory and model allow."""
        return Bounds(*(self._longest(room * _GIB) for room in self.kv_gib))

    def _longest(self, room: Floats) -> Floats:
        both = self.full_bytes + self.window_bytes
        room = np.maximum(room - self.state_bytes, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.where(both > 0, room / both, np.where(room > 0, np.inf, 0.0))
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
    hidden: float
    vocab: float
    is_split: float
    full: float
    window: float
    window_tokens: float
    state: float
    max_context: float


def serving_memory(
    models: LanguageModel | Sequence[LanguageModel],
    precisions: str | Sequence[str],
    kv_precisions: str | Sequence[str],
    gpu_memory_gib: float | Sequence[float] | Floats,
    tensor_parallel: int | Sequence[int],
    engines: str | Sequence[str] = LlmEngine.VLLM,
    filled: float = USUAL_SHARE,
    nodes: int | Sequence[int] = 1,
    drafts: LanguageModel | Sequence[LanguageModel | None] | None = None,
    ranks: int | Sequence[int] = 1,
) -> ServingMemory:
    """Memory of replicas, one a row; each argument is one value or a sequence of n of them. vLLM is told to
    have the part `filled` of each card. Of a replica over several `nodes` it is that of one node, for the
    requests that this one works on (`Deployment`). `drafts` are models beside it that draft tokens.

    `gpu_memory_gib` is of one card as `card_gib` has it. KV gets the card less what stays empty, weights and
    engine. `ValueError` where the sequences differ in length."""
    replicas = models, precisions, kv_precisions, tensor_parallel, engines, nodes, drafts, ranks
    arguments = (np.array(each, dtype=object) for each in (*replicas, gpu_memory_gib))
    columns = np.broadcast_arrays(*map(np.atleast_1d, arguments))
    memory, count = columns[-1].astype(float), len(columns[-1])
    rows = np.array([_row(*replica) for replica in zip(*columns[:-1], strict=True)], float)
    facts = _Row(*rows.reshape(count, len(_Row._fields)).T)
    served_by = [engine_of_formats(engine) for engine in columns[4]]
    is_large = memory >= _LARGE_GPU_GIB
    tokens = np.where(is_large, _CHUNK_TOKENS, _SMALL_CHUNK_TOKENS)
    overhead = np.asarray(facts.fixed + tokens * facts.token)
    kv = _room(memory, np.asarray(facts.weights), overhead, served_by)
    taken, room = _as_vllm_starts(facts, memory, is_large, filled)
    is_vllm = np.array([engine is LlmEngine.VLLM for engine in served_by])
    overhead = np.where(is_vllm, taken, overhead * _OVERHEAD_DOUBT[0])
    kv = kv._replace(lower=np.where(is_vllm, np.minimum(room, kv.median), kv.lower))
    free = np.maximum(memory - facts.weights - overhead - kv.lower, 0.0)
    kept: Any = facts[6:]
    return ServingMemory(np.asarray(facts.weights), np.asarray(overhead), kv, free, *kept)


def starting_sequences(memory_gib: float | Floats) -> Floats:
    """The default number of sequences that vLLM admits at once on cards of so many GiB."""
    is_large = np.asarray(memory_gib) >= _LARGE_GPU_GIB
    return np.where(is_large, _STARTING_SEQUENCES, _SMALL_STARTING_SEQUENCES)


def _as_vllm_starts(
    facts: _Row, memory: Floats, is_large: NDArray[np.bool_], filled: float
) -> tuple[Floats, Floats]:
    """GiB that vLLM takes of each GPU at its start, and those that it then keeps for KV: of what it may
    fill, less weights and the larger of a chunk's and the sampler's activations."""
    sequences = starting_sequences(memory)
    tokens = np.where(is_large, _CHUNK_TOKENS, _SMALL_CHUNK_TOKENS)
    embedded, computed = tokens * facts.hidden * 2 / _GIB, tokens * facts.token
    left = filled * (_SHOWN * memory - _HIDDEN_GIB) - facts.weights

    def taken(sequences: Floats) -> Floats:
        each = [
            np.maximum(sequences * facts.vocab * start.sampler / _GIB + embedded, computed)
            + np.where(facts.is_split, start.together, start.alone)
            for start in _STARTS
        ]
        return np.asarray(np.max(each, axis=0))

    usual = taken(sequences)
    room = np.maximum(left - usual, _COUNTED * (left - taken(_LIMITED * sequences)))
    return usual, np.maximum(room, 0.0)


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
def _row(
    model: LanguageModel,
    precision: str,
    kv_precision: str,
    tensor_parallel: int,
    engine: str,
    nodes: int,
    draft: LanguageModel | None,
    ranks: int,
) -> _Row:
    full, windowed = _token_bytes(model, KvPrecision(kv_precision), tensor_parallel)
    weights = weight_gib_per_gpu(model, LlmPrecision(precision), tensor_parallel, engine_of_formats(engine))
    if ranks > 1:
        bits = bits_by_module(model, LlmPrecision(precision), engine_of_formats(engine)).experts
        weights -= model.weights.experts * bits / 8 / _GIB / tensor_parallel * (1 - 1 / ranks)
    if nodes > 1:  # the first node has the input's table, the last the output's: both the same where tied
        table = 2 * model.vocab * model.hidden / tensor_parallel / _GIB
        weights = (weights - table * (1 if model.tied else 2)) / nodes + table
    if draft is not None:
        weights += weight_gib_per_gpu(draft, draft.own_precision, tensor_parallel)
        full += kv_bytes_per_token(draft, KvPrecision.BF16, tensor_parallel)
    # Activations in 16 bits: both halves of a gated network's width, and four vectors of the model's.
    of_experts = (model.experts_per_token + model.shared_experts) * model.expert_ffn
    vector = 2 * max(model.ffn, of_experts) / tensor_parallel + 4 * model.hidden
    is_split = tensor_parallel * ranks > 1
    together = _COLLECTIVES_GIB if is_split else 0.0
    return _Row(
        weights=weights,
        fixed=_CONTEXT_GIB + _GRAPHS_GIB + together,
        token=vector * 2 / _GIB,
        hidden=model.hidden,
        vocab=model.vocab,
        is_split=float(is_split),
        full=full,
        window=windowed,
        window_tokens=float(model.window or np.inf),
        state=state_bytes(model, tensor_parallel),
        max_context=float(model.max_context or _LONGEST),
    )
