"""Models whose layers differ: windows, linear attention, state space, convolutions, uneven layers.

What a layer keeps of each token, of a window's tokens and of a whole sequence follows from its kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from advisor.models.language.config_values import ConfigValues
from advisor.models.language.language_model import LanguageModel, Mixed

# Kinds of layers by what configurations call them; "linear" is the kind of its family (`LINEAR`).
KINDS = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
    "mamba": "linear",
    "conv": "linear",
    "hybrid": "parallel",
    "minimax_m3_sparse": "indexed",
    "compressed_sparse_attention": "sparse",
    "heavily_compressed_attention": "compressed",
    "moe": "none",
    "mlp": "none",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
}
# Letters of Nemotron's patterns.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
# Families that have layers without keys and values, and what stands there.
LINEAR = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), "delta"),
    "kimi_linear": "kimi_delta",
    **dict.fromkeys(("nemotron_h", "bamba", "granitemoehybrid", "falcon_h1", "mamba2"), "mamba2"),
    **dict.fromkeys(("jamba", "mamba", "falcon_mamba"), "mamba"),
    **dict.fromkeys(("minimax", "minimax_text_01"), "lightning"),
    **dict.fromkeys(("lfm2", "lfm2_moe"), "convolution"),
}
# Families whose layers differ in other ways.
UNEVEN = (
    "gemma4_text",
    "mimo_v2_flash",
    "step3p5",
    "step3p7",
    "deepseek_v4",
    "minimax_m3_vl_text",
    "nemotron-nas",
)
# Bytes of a number in the state of linear attention and state space, which engines keep in 32 bits, and of
# one in that of its convolution.
_STATE_BYTES, _SHORT_BYTES = 4, 2
# Tokens that one kept key and value of DeepSeek-V4's layers stand for.
_RATIOS = {"sparse": 4, "compressed": 128}
_OF_RATIO = {0: "window", 4: "sparse", 128: "compressed"}


class _Layer(NamedTuple):
    """One layer's part of `Mixed` without its network."""

    weights: float
    kept: float = 0.0
    windowed: float = 0.0
    state_bytes: float = 0.0
    width: float = 0.0


def mixed_layers(text: ConfigValues, model: LanguageModel) -> Mixed | None:
    """The sums over the layers of a model whose usual layer is in `model`; None if all are usual."""
    family = model.family
    if family == "nemotron-nas":
        return _of_blocks(text, model)
    if model.indexer:
        return _of_shared_indexers(text, model)
    if family not in UNEVEN and family not in LINEAR:
        return None
    kinds = _kinds(text, family, model.layers)
    if family == "granitemoehybrid" and set(kinds) == {"full"}:
        return None
    maker = _Maker(text, model)
    layers = [maker.layer(kind) for kind in kinds]
    shared = text.whole("num_kv_shared_layers", default=0, least=0)
    keeping = layers[: model.layers - shared]
    matrices = 3 if model.gated else 2
    dense, experts, latent = _networks(text, model)
    into_latent = 2.0 * model.hidden * latent if latent != model.hidden else 0.0
    return Mixed(
        attention=sum(layer.weights for layer in layers),
        dense=dense * matrices * model.hidden + experts * into_latent,
        expert_layers=experts,
        expert_hidden=latent,
        kept=sum(layer.kept for layer in keeping),
        windowed=sum(layer.windowed for layer in keeping),
        window_heads=_window_heads(text, model),
        state_bytes=sum(layer.state_bytes for layer in layers),
        width=sum(layer.width for layer in layers),
    )


def listed_layers(text: ConfigValues) -> list[str]:
    """The layers that a configuration lists, by their names or as Nemotron's letters."""
    for key in ("layer_types", "layers_block_type"):
        if text.says(key):
            return [str(name) for name in text.items(key)]
    return [_LETTERS.get(letter, "attention") for letter in text.text("hybrid_override_pattern")]


def _kinds(text: ConfigValues, family: str, layers: int) -> list[str]:
    """The kind of each layer, as written or as its class takes it; none where all are alike."""
    linear = LINEAR.get(family, "linear")
    if written := listed_layers(text):
        names = [KINDS.get(name, "full") for name in written]
    elif family == "deepseek_v4":
        ratios = text.items("compress_ratios")
        usual = ["compressed" if layer < 2 or layer % 2 == 0 else "sparse" for layer in range(layers)]
        names = [_OF_RATIO.get(int(ratio), "sparse") for ratio in ratios] or usual
    else:
        full = _full_layers(text, family)
        other = "window" if family in UNEVEN else "linear"
        names = ["full" if full(layer, layers) else other for layer in range(layers)]
        if family == "falcon_h1":
            names = ["parallel"] * layers
        if family in ("step3p5", "step3p7"):
            names = ["full"] * layers
    if family == "minimax_m3_vl_text":
        sparse = text.part("sparse_attention_config")
        flags = sparse.items("sparse_attention_freq") if sparse else ()
        names = ["indexed" if flag else "full" for flag in flags] or names
    if family == "gemma4_text" and names:
        names[-1] = "full"
    return [linear if name == "linear" else name for name in names[:layers]]


def windows_of(text: ConfigValues, model: LanguageModel) -> int:
    """Layers that keep a window's tokens, as DeepSeek-V4's do beside what they compress."""
    return sum(kind in ("window", *_RATIOS) for kind in _kinds(text, model.family, model.layers))


def _full_layers(text: ConfigValues, family: str) -> Callable[[int, int], bool]:
    """A function that is true if a layer of so many keeps keys and values of the whole context."""
    if (config := text.part("linear_attn_config")) is not None and config.items("full_attn_layers"):
        ones = {int(layer) - 1 for layer in config.items("full_attn_layers")}  # they count from 1
        return lambda layer, _: layer in ones
    for key in ("attn_layer_indices", "full_attn_idxs"):
        if key in text:
            named = {int(layer) for layer in text.items(key)}
            return lambda layer, _: layer in named
    if kinds := text.items("attn_type_list"):
        return lambda layer, _: bool(kinds[layer])
    if "attn_layer_period" in text:
        period, offset = text.whole("attn_layer_period"), text.whole("attn_layer_offset", default=0, least=0)
        return lambda layer, _: layer % period == offset
    interval = text.whole("full_attention_interval", default=4)
    rules: Mapping[str, Callable[[int, int], bool]] = {
        "kimi_linear": lambda layer, _: layer > 0 and layer % 4 == 0,
        "gemma4_text": lambda layer, layers: layer % 6 == 5 or layer == layers - 1,
        "mimo_v2_flash": lambda layer, _: layer == 0 or layer % 6 == 5,
        **dict.fromkeys(("minimax", "minimax_text_01"), lambda layer, _: layer % 2 == 1),
        **dict.fromkeys(("lfm2", "minimax_m3_vl_text"), lambda *_: True),
        **dict.fromkeys(("bamba", "mamba", "mamba2", "falcon_mamba", "granitemoehybrid"), lambda *_: False),
    }
    return rules.get(family, lambda layer, _: layer % interval == interval - 1)


def _networks(text: ConfigValues, model: LanguageModel) -> tuple[float, int, int]:
    """Widths of dense networks together, layers with experts, and the width that experts see."""
    family, layers = model.family, model.layers
    latent = text.whole("moe_latent_size", default=model.hidden)
    if family == "nemotron_h":
        written = listed_layers(text)
        return float(written.count("mlp") * model.ffn), written.count("moe"), latent
    if family in ("mamba", "mamba2", "falcon_mamba"):
        return 0.0, 0, latent
    if family == "gemma4_text":
        doubled = text.whole("num_kv_shared_layers", default=0, least=0)
        doubled *= text.flag("use_double_wide_mlp", False)
        return (layers + doubled) * model.ffn, layers if model.experts else 0, latent
    if family == "jamba":
        period, offset = (
            text.whole("expert_layer_period", default=2),
            text.whole("expert_layer_offset", default=1),
        )
        experts = sum(layer % period == offset for layer in range(layers)) if model.experts else 0
        return (layers - experts) * float(model.ffn), experts, latent
    return (layers - model.expert_layers) * float(model.ffn), model.expert_layers, latent


def _window_heads(text: ConfigValues, model: LanguageModel) -> int:
    """KV heads of the layers with a window."""
    if model.family == "mimo_v2_flash":
        return text.whole("swa_num_key_value_heads", default=2 * model.kv_heads)
    return text.whole("num_key_value_heads", default=model.kv_heads)


class _Maker:
    """Makes the layers of one model; a method for each kind."""

    def __init__(self, text: ConfigValues, model: LanguageModel) -> None:
        self._text, self._model = text, model
        self._hidden, self._family = model.hidden, model.family

    def layer(self, kind: str) -> _Layer:
        """One layer of a kind."""
        if kind in _RATIOS:
            return self._compressed(_RATIOS[kind])
        made: _Layer = getattr(self, f"_{kind}")()
        return made

    def _none(self) -> _Layer:
        return _Layer(0.0)

    def _attention(self, heads: int, kv_heads: int, key: int, value: int, *, is_one: bool = False) -> _Layer:
        """Keys are values too where they are one projection."""
        gate = heads * value if LINEAR.get(self._family) == "delta" else 0
        gate += heads if self._family in ("step3p5", "step3p7") else 0
        kept = kv_heads * (key + value)
        projected = kv_heads * key if is_one else kept
        weights = self._hidden * (heads * (key + value) + projected + gate)
        return _Layer(weights, kept, width=heads * (key + value))

    def _full(self) -> _Layer:
        text, model = self._text, self._model
        if model.latent:
            latent = model.latent
            width = model.heads * (latent.rope + latent.nope + latent.v)
            return _Layer(model.layer_attention, latent.kv_lora + latent.rope, width=width)
        if self._family == "gemma4_text":
            is_one, size = text.flag("attention_k_eq_v", False), text.whole("global_head_dim", default=512)
            heads = text.whole("num_global_key_value_heads", default=model.kv_heads)
            return self._attention(
                model.heads, heads if is_one else model.kv_heads, size, size, is_one=is_one
            )
        value = text.whole("v_head_dim", default=128) if self._family == "mimo_v2_flash" else model.head_dim
        return self._attention(model.heads, model.kv_heads, model.head_dim, value)

    def _window(self) -> _Layer:
        text, model = self._text, self._model
        if self._family == "deepseek_v4":
            return self._compressed(0)
        value = text.whole("swa_v_head_dim", "v_head_dim", default=model.head_dim)
        other = text.part("attention_other_setting")
        heads = other.whole("num_attention_heads") if other else model.heads
        heads = text.whole("num_sliding_attention_heads", "swa_num_attention_heads", default=heads)
        key = text.whole("swa_head_dim", default=model.head_dim)
        layer = self._attention(heads, _window_heads(text, model), key, value)
        return layer._replace(kept=0.0, windowed=layer.kept)

    def _indexed(self) -> _Layer:
        size = self._text.whole("index_head_dim", default=128)
        keys = self._text.whole("index_n_heads", default=4) + 1
        layer = self._full()
        return layer._replace(weights=layer.weights + self._hidden * size * keys, kept=layer.kept + size)

    def _compressed(self, ratio: int) -> _Layer:
        """DeepSeek-V4: one key that is its value too, of a window and of each `ratio` tokens."""
        text, hidden, size = self._text, self._hidden, self._model.head_dim
        lora, queries = text.whole("q_lora_rank"), self._model.heads * size
        rank = text.whole("o_lora_rank", default=1024)
        weights = lora * (hidden + queries) + hidden * size + queries * rank
        weights += text.whole("o_groups", default=8) * rank * hidden
        is_sparse = ratio == _RATIOS["sparse"]
        if not ratio:
            return _Layer(weights, windowed=size, width=2.0 * queries)
        weights += 2 * hidden * size * (1 + is_sparse)  # overlapping blocks have two sets
        kept = size
        if is_sparse:
            index, heads = (text.whole(key) for key in ("index_head_dim", "index_n_heads"))
            weights += 4 * hidden * index + (lora * index + hidden) * heads
            kept += index
        return _Layer(weights, kept / ratio, size, width=2 * queries / ratio)

    def _delta(self) -> _Layer:
        text = self._text
        size = text.whole("linear_key_head_dim")
        keys, heads = text.whole("linear_num_key_heads") * size, text.whole("linear_num_value_heads")
        values, kernel = heads * text.whole("linear_value_head_dim"), text.whole("linear_conv_kernel_dim")
        mixed = 2 * keys + values
        weights = self._hidden * (2 * keys + 3 * values + 2 * heads) + kernel * mixed
        return _Layer(weights, state_bytes=_state(values * size, mixed, kernel))

    def _kimi_delta(self) -> _Layer:
        nested = self._text.own_part("linear_attn_config")
        text, prefix = (nested, "") if nested else (self._text, "linear_")
        heads, size = text.whole(f"{prefix}num_heads"), text.whole(f"{prefix}head_dim")
        kernel = text.whole("short_conv_kernel_size", "linear_conv_kernel_dim", default=4)
        wide = heads * size
        weights = self._hidden * (4 * wide + heads + 2 * size) + 2 * size * wide + 3 * kernel * wide
        return _Layer(weights, state_bytes=_state(wide * size, 3 * wide, kernel))

    def _mamba2(self) -> _Layer:
        text = self._text
        heads = text.whole("mamba_num_heads", "mamba_n_heads", "num_heads")
        inner = text.whole("mamba_expand", "expand", default=2) * self._hidden
        if self._family == "falcon_h1":
            inner = text.whole("mamba_d_ssm", default=inner)
        if "mamba_num_heads" in text:
            inner = heads * text.whole("mamba_head_dim")
        states = text.whole("ssm_state_size", "mamba_d_state", "state_size")
        kernel = text.whole("conv_kernel", "mamba_d_conv", default=4)
        mixed = inner + 2 * text.whole("n_groups", "mamba_n_groups", default=1) * states
        weights = self._hidden * (2 * inner + mixed + heads) + (kernel + 1) * mixed
        return _Layer(weights, state_bytes=_state(inner * states, mixed, kernel))

    def _mamba(self) -> _Layer:
        text, hidden = self._text, self._hidden
        inner = text.whole("mamba_expand", "expand", default=2) * hidden
        states = text.whole("mamba_d_state", "state_size", default=16)
        kernel = text.whole("mamba_d_conv", "conv_kernel", default=4)
        is_number = "mamba_dt_rank" in text and not text.has("mamba_dt_rank", str)
        rank = text.whole("mamba_dt_rank") if is_number else math.ceil(hidden / 16)
        weights = 3.0 * hidden * inner + inner * (kernel + 2 * rank + 3 * states)
        return _Layer(weights, state_bytes=_state(inner * states, inner, kernel))

    def _lightning(self) -> _Layer:
        wide = self._model.heads * self._model.head_dim
        return _Layer(5.0 * self._hidden * wide, state_bytes=_state(wide * self._model.head_dim, 0, 1))

    def _convolution(self) -> _Layer:
        kernel = self._text.whole("conv_L_cache", default=3)
        weights = 4.0 * self._hidden * self._hidden + kernel * self._hidden
        return _Layer(weights, state_bytes=_state(0, self._hidden, kernel + 1))

    def _parallel(self) -> _Layer:
        parts = zip(self._full(), self._mamba2(), strict=True)
        return _Layer(*(one + another for one, another in parts))


def _state(numbers: float, convolved: float, kernel: int) -> float:
    """Bytes of a layer's state: its numbers, and what its convolution remembers."""
    return _STATE_BYTES * numbers + _SHORT_BYTES * convolved * (kernel - 1)


def _of_blocks(text: ConfigValues, model: LanguageModel) -> Mixed:
    """The layers of Nemotron's searched networks, whose blocks differ in heads and width, or lack them."""
    attention = kept = width = dense = 0.0
    for block in text.parts_of("block_configs"):
        of_attention, of_network = block.part("attention"), block.part("ffn")
        if of_attention is not None and (group := of_attention.maybe_whole("n_heads_in_group")):
            kv_heads = model.heads // group
            attention += 2.0 * model.hidden * model.head_dim * (model.heads + kv_heads)
            kept += 2.0 * kv_heads * model.head_dim
            width += 2.0 * model.heads * model.head_dim
        if of_network is not None and (times := of_network.maybe_number("ffn_mult")):
            dense += 256.0 * math.ceil(int(2 * times * model.hidden / 3) / 256)
    return Mixed(
        attention, 3.0 * model.hidden * dense, 0, model.hidden, kept, 0.0, model.kv_heads, 0.0, width
    )


def _of_shared_indexers(text: ConfigValues, model: LanguageModel) -> Mixed | None:
    """GLM-5.2: most layers attend to the tokens that an earlier one picked; None where each picks its own."""
    layers, pattern = model.layers, text.items("indexer_types") or list(text.text("index_topk_pattern"))
    step = text.whole("index_topk_freq", default=1)
    offset = text.whole("index_skip_topk_offset", default=2, least=0)
    own = sum(kind in ("full", "F") for kind in pattern)
    if not pattern:
        own = sum(max(layer - offset + 1, 0) % step == 0 for layer in range(layers))
    if own == layers or not model.latent or not model.indexer:
        return None
    latent, matrices = model.latent, 3 if model.gated else 2
    # An index key has a byte a number and four of its scale: half as many numbers of 16 bits.
    index = (model.indexer.head_dim + 4) / 2
    return Mixed(
        attention=layers * model.layer_attention - (layers - own) * model.indexer_weights,
        dense=(layers - model.expert_layers) * matrices * float(model.hidden) * model.ffn,
        expert_layers=model.expert_layers,
        expert_hidden=model.hidden,
        kept=layers * (latent.kv_lora + latent.rope) + own * index,
        windowed=0.0,
        window_heads=1,
        state_bytes=0.0,
        width=float(layers) * model.heads * (latent.nope + latent.rope + latent.v),
    )


def extra_weights(text: ConfigValues, family: str, layers: int, hidden: int) -> float:
    """Weights beside the layers: Gemma's embeddings for each layer, DeepSeek-V4's mixing of four streams."""
    if family == "deepseek_v4":
        streams = text.whole("hc_mult", default=4)
        return 2.0 * layers * (streams * streams + 2 * streams) * streams * hidden
    if family != "gemma4_text":
        return 0.0
    each = text.whole("hidden_size_per_layer_input", default=256, least=0)
    words = text.whole("vocab_size_per_layer_input", default=262_144)
    return float(each * layers * (words + 3 * hidden))
