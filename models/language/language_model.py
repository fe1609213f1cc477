"""The layers of a language model, their sizes, and the weights that follow from them."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from advisor.domain.words import KvPrecision, LlmPrecision
from advisor.models.language.pictures import Pictures


class Latent(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, 2024): keys and values are made anew from `kv_lora` numbers a
    token, beside `rope` that carry its position; those alone are cached.

    `q_lora` is 0 where queries are not compressed; `nope` and `v` are sizes of a head's key without position
    and of its value."""

    kv_lora: int
    q_lora: int
    rope: int
    nope: int
    v: int


class Indexer(NamedTuple):
    """The indexer that picks the `top_k` tokens a token attends to (DeepSeek-V3.2, 2025): a small
    attention of `heads` heads with one key of `head_dim` bytes a token and layer."""

    heads: int
    head_dim: int
    top_k: int


class Weights(NamedTuple):
    """Numbers of weights by module, of the whole model; one record a model and format."""

    attention: float
    dense: float
    experts: float
    shared: float
    router: float
    embedding: float
    head: float
    other: float

    @property
    def total(self) -> float:
        """The number of weights of all modules."""
        return sum(self)


class Mixed(NamedTuple):
    """Layers that differ, in sums over all of them (`mixed_layers`).

    Weights of `attention` and of what stands in its place, and of `dense` networks; `expert_layers` have
    experts, which see vectors of `expert_hidden`. Numbers that are `kept` of each token for good and
    `windowed` of each of the last tokens, the latter of `window_heads` KV heads a layer, and `state_bytes` of
    a sequence, however long. `width` counts what a token's queries, keys and values are multiplied by."""

    attention: float
    dense: float
    expert_layers: int
    expert_hidden: int
    kept: float
    windowed: float
    window_heads: int
    state_bytes: float
    width: float


class LanguageModel(Struct, frozen=True, kw_only=True):
    """One decoder that generates text, as its configuration describes it.

    `ffn` is the width of a dense layer's feed-forward network (0: it has none), `gated` whether that has a
    third matrix. `experts` is 0 for dense models; the first `dense_layers` layers are dense, of the others
    each `expert_step`-th has experts. `shared_experts` counts, in widths of an expert, what every token
    passes. `latent` replaces keys and values of heads. `window_layers` see the last `window` tokens alone,
    all others the whole context. Where layers differ further `mixed` has what they are together, in place of
    what one of them is. `own_precision` is the format in which its weights are published, `own_bits` the bits
    of one with its scales, `sixteen_bit` the modules that stay in 16 bits then, `own_kv_precision` the format
    of keys and values that the checkpoint asks for (None: none). `other_parameters` are learned positions,
    towers for pictures and projections; `pictures` is how those read (None: not at all). `source` says where
    these facts come from."""

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool
    vocab: int
    tied: bool
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: float = 0.0
    expert_ffn: int = 0
    dense_layers: int = 0
    expert_step: int = 1
    latent: Latent | None = None
    indexer: Indexer | None = None
    window: int | None = None
    window_layers: int = 0
    max_context: int | None = None
    own_precision: LlmPrecision = LlmPrecision.BF16
    own_bits: float = 16.0
    sixteen_bit: tuple[str, ...] = ()
    own_kv_precision: KvPrecision | None = None
    mixed: Mixed | None = None
    other_parameters: float = 0.0
    pictures: Pictures | None = None
    source: str = ""

    @property
    def moe(self) -> bool:
        """True if it is a mixture of experts."""
        return self.experts > 0

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward network is experts."""
        if self.mixed:
            return self.mixed.expert_layers
        return (self.layers - self.dense_layers) // self.expert_step if self.experts else 0

    @property
    def weights(self) -> Weights:
        """Numbers of weights by module. Biases are left out: below 0.3 % of the models here."""
        mixed, experts, dense = self.mixed, self.expert_layers, self.layers - self.expert_layers
        matrices = 3 if self.gated else 2
        expert = matrices * self.hidden * self.expert_ffn
        routed = matrices * mixed.expert_hidden * self.expert_ffn if mixed else expert
        table = self.vocab * self.hidden
        return Weights(
            attention=mixed.attention if mixed else self.layers * self.layer_attention,
            dense=mixed.dense if mixed else dense * matrices * self.hidden * self.ffn,
            experts=experts * self.experts * routed,
            shared=experts * self.shared_experts * expert,
            router=experts * self.experts * self.hidden,
            embedding=table,
            head=0 if self.tied else table,
            other=self.other_parameters + (2 * self.layers + 1) * self.hidden,
        )

    @property
    def parameters(self) -> float:
        """The number of all weights of the model."""
        return self.weights.total

    @property
    def active_parameters(self) -> float:
        """The weights that one generated token is multiplied with: of the experts those that it is
        sent to, of the embeddings the output's (the input's are looked up)."""
        weights = self.weights
        share = self.experts_per_token / self.experts if self.experts else 0.0
        return (
            weights.attention
            + weights.dense
            + weights.experts * share
            + weights.shared
            + weights.router
            + weights.embedding
        )

    @property
    def layer_attention(self) -> float:
        """Weights of the attention of a layer that is like all others."""
        hidden, heads, latent = self.hidden, self.heads, self.latent
        if latent is None:
            return hidden * self.head_dim * (2 * heads + 2 * self.kv_heads)
        queries = heads * (latent.nope + latent.rope)
        ranked = latent.q_lora * (hidden + queries) if latent.q_lora else hidden * queries
        keys = hidden * (latent.kv_lora + latent.rope)
        values = latent.kv_lora * heads * (latent.nope + latent.v)
        return ranked + keys + values + heads * latent.v * hidden + self.indexer_weights

    @property
    def indexer_weights(self) -> float:
        """Weights of one layer's indexer; 0 where it has none."""
        if self.indexer is None or self.latent is None:
            return 0.0
        heads, size = self.indexer.heads, self.indexer.head_dim
        return self.latent.q_lora * heads * size + self.hidden * (size + heads)
