"""A language model out of a Hugging Face `config.json`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.messages import FieldName, Message
from advisor.models.language.config_values import (
    FIELD,
    VISION_PARTS,
    ConfigValues,
    read_config,
    uncovered,
    vision_parameters,
)
from advisor.models.language.families import ALIASES, FAMILIES, UNCOVERED, Family
from advisor.models.language.formats import in_own_format
from advisor.models.language.language_model import Indexer, LanguageModel, Latent
from advisor.models.language.mixed_layers import (
    KINDS,
    LINEAR,
    UNEVEN,
    extra_weights,
    listed_layers,
    mixed_layers,
    windows_of,
)
from advisor.models.language.pictures import Pictures, pictures_of_kind

_TAKE = Message(
    "take the config.json beside the weights (in Hugging Face's form), or name the model by {model}",
    model=FieldName("model"),
)


def file_of(path: Path) -> Path:
    """The file itself; for a folder, its config.json."""
    return path / "config.json" if path.is_dir() else path


# Keys that only layers of another kind have.
_OTHER_LAYERS = (
    *("linear_attn_config", "full_attention_interval", "hybrid_override_pattern", "mamba_d_state", "ssm_cfg"),
    *("state_size", "attn_layer_period", "compress_ratios", "block_configs", "cross_attention_layers"),
)
# Kinds of layers that are all of one shape.
_PLAIN_KINDS = ("full", "window")
# What the names of layers hold that keep something else than keys and values.
_WORDS_OF_LAYERS = re.compile("sparse|compressed|linear|delta|mamba|conv|recurrent|hybrid")
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")


def language_model_of_config(path: Path) -> LanguageModel:
    """The model that a local `config.json` describes, or the one in a folder.

    Of models that see pictures the text's part, with the weights of the tower. The format of the weights may
    stand in a file beside it. Raises `UsageError` for what is no such file, for an architecture that is
    unknown or not covered (by its name), and for impossible or missing sizes."""
    file = file_of(path)
    whole = read_config(file)
    kind = whole.text("model_type")
    if not kind:
        base = whole.text("base_model_name_or_path")
        hint = Message("take the config.json of its base model, {base}", base=base) if base else _TAKE
        raise whole.error(Message("it has no model_type, so that its architecture is unknown"), hint=hint)
    return _model_of_values(whole.with_class(kind), file)


def _model_of_values(whole: ConfigValues, file: Path) -> LanguageModel:
    text, family = _text_of(whole)
    known = _known_family(whole, text, family)
    listed = len(listed_layers(text)) if family == "nemotron_h" else None
    layers = listed or text.whole("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    hidden = text.whole("hidden_size", "n_embd", "n_embed", "d_model")
    context, (window, window_layers) = _max_context(text), _window(text, layers)
    positions = 0.0 if known.positions is None else float((context or 0) + known.positions)
    tied_key, tower = "tie_word_embeddings", vision_parameters(whole, hidden)
    tells_tied = text if not whole.says(tied_key) and tied_key in text else whole
    model = LanguageModel(
        name=_name(whole, file),
        family=family,
        layers=layers,
        hidden=hidden,
        vocab=text.whole("vocab_size", "padded_vocab_size"),
        tied=tells_tied.flag(tied_key, known.tied),
        gated=known.gated,
        max_context=context,
        window=window,
        window_layers=window_layers,
        other_parameters=positions * hidden + tower,
        pictures=_pictures(whole, tower),
        source=whole.name,
        **_attention(text, family, hidden),
        **_feed_forward(text, family, hidden, layers),
    )
    mixed = mixed_layers(text, model)
    if mixed:
        extra = extra_weights(text, family, layers, hidden)
        windowed = {"window": text.maybe_whole("sliding_window"), "window_layers": windows_of(text, model)}
        if not mixed.windowed:
            windowed = {"window": None, "window_layers": 0}
        model = replace(model, mixed=mixed, other_parameters=model.other_parameters + extra, **windowed)
    model = in_own_format(model, whole, text, file.parent)
    _check(whole, model)
    return model


def _text_of(whole: ConfigValues) -> tuple[ConfigValues, str]:
    """The text part of a configuration, and its model type; older files have its keys at the top level."""
    text = whole.part(*_TEXT_PARTS)
    kind = (text.text("model_type") if text else "") or whole.text("model_type")
    family = ALIASES.get(kind, kind)
    own = whole.own_part(*_TEXT_PARTS)
    return (own or whole).with_class(family if own is None or family != kind else kind), family


def _pictures(whole: ConfigValues, tower: float) -> Pictures | None:
    """What its tower reads, with the patches that it states; None where it has none."""
    vision = whole.part(*VISION_PARTS)
    if vision is None:
        return None
    patch = vision.first_whole("patch_size", default=0, least=0)
    merged = "spatial_merge_size"
    merge = (vision if merged in vision else whole).whole(merged, default=0, least=0)
    return pictures_of_kind(whole.text("model_type"), patch * merge or None, tower)


def _name(whole: ConfigValues, file: Path) -> str:
    """The name of its checkpoint, without the folders of whoever saved it."""
    folder = str(file.absolute().parent if file.name == "config.json" else file.with_suffix(""))
    for text in (whole.text("_name_or_path"), folder):
        parts = [part for part in text.replace("\\", "/").split("/") if part.strip(".")]
        hub = [part for part in parts if part.startswith("models--")]
        if parts:
            return hub[-1].split("--")[-1] if hub else parts[-1]
    return whole.name


def _known_family(whole: ConfigValues, text: ConfigValues, family: str) -> Family:
    layers = {str(layer) for layer in text.items("layer_types")}
    known = FAMILIES.get(family)
    if known and (family in LINEAR or family in UNEVEN):
        return known
    kind = UNCOVERED.get(family) or UNCOVERED.get(whole.text("model_type"))
    others = sorted(layer for layer in layers if KINDS.get(layer) not in _PLAIN_KINDS)
    if any(key in text for key in _OTHER_LAYERS) or any(map(_WORDS_OF_LAYERS.search, others)):
        kind = kind or "layers"
    if kind:
        raise uncovered(whole.name, kind, field=FIELD)
    if known is None or others:
        reason = Message(
            "its architecture '{family}' is unknown, and nothing is guessed of it",
            family=family if known is None else others[0],
        )
        raise whole.error(reason)
    return known


def _max_context(text: ConfigValues) -> int | None:
    return text.maybe_whole(
        "max_position_embeddings",
        "n_positions",
        "max_sequence_length",
        "seq_length",
        "max_seq_len",
        "n_ctx",
        least=1,
    )


def _attention(text: ConfigValues, family: str, hidden: int) -> dict[str, Any]:
    # Where no layer has attention there are no heads to split.
    alone = 1 if family in ("mamba", "mamba2", "falcon_mamba") else None
    heads = alone or text.whole("num_attention_heads", "n_head", "n_heads", "num_heads")
    latent = None
    if "kv_lora_rank" in text:
        latent = Latent(
            kv_lora=text.whole("kv_lora_rank"),
            q_lora=text.whole("q_lora_rank", default=0, least=0),
            rope=text.whole("qk_rope_head_dim"),
            nope=text.whole("qk_nope_head_dim"),
            v=text.whole("v_head_dim"),
        )
    indexer = None
    if "index_topk" in text and (latent or family not in UNEVEN):
        indexer = Indexer(
            heads=text.whole("index_n_heads"),
            head_dim=text.whole("index_head_dim"),
            top_k=text.whole("index_topk"),
        )
    return {
        "heads": heads,
        "kv_heads": _kv_heads(text, family, heads),
        "head_dim": text.whole("head_dim", "kv_channels", default=max(hidden // heads, 1)),
        "latent": latent,
        "indexer": indexer,
    }


def _kv_heads(text: ConfigValues, family: str, heads: int) -> int:
    if family == "falcon" and not text.flag("new_decoder_architecture", False):
        return 1 if text.flag("multi_query", True) else heads
    if family == "gpt_bigcode":
        return 1 if text.flag("multi_query", True) else heads
    if (nested := text.own_part("attn_config")) is not None:
        return nested.whole("kv_n_heads", default=heads)
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    return text.whole(*names, default=heads)


def _feed_forward(text: ConfigValues, family: str, hidden: int, layers: int) -> dict[str, Any]:
    nested = text.own_part("ffn_config") or text
    experts = nested.maybe_whole("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    names = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    ffn = nested.whole(*names, default=text.whole("expansion_ratio", default=4) * hidden)
    if family in ("lfm2", "lfm2_moe") and text.flag("block_auto_adjust_ff_dim", family == "lfm2"):
        step = text.whole("block_multiple_of", default=256)
        ffn = -(-2 * ffn // 3 // step) * step
    if not experts or experts == 1:
        # Granite 4's dense layers have the shared expert alone.
        shared = "shared_intermediate_size" if family == "granitemoehybrid" else ""
        return {"ffn": nested.whole(shared, default=ffn)}
    expert_ffn = nested.first_whole("moe_intermediate_size", ffn)
    dense_ffn = text.whole("intermediate_size_mlp", "dense_intermediate_size", default=ffn)
    return {
        "ffn": dense_ffn,
        "experts": experts,
        # Hunyuan lists the number of each layer.
        "experts_per_token": _first_whole(nested, *_OF_TOKEN),
        "expert_ffn": expert_ffn,
        "shared_experts": _shared(text, family, expert_ffn),
        **_places_of_experts(text, layers),
    }


# What configurations call the experts that a token is sent to.
_OF_TOKEN = (
    *("num_experts_per_tok", "num_experts_per_token", "top_k_experts"),
    *("moe_topk", "moe_top_k", "moe_k"),
)


def _shared(text: ConfigValues, family: str, expert_ffn: int) -> float:
    names = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
    width = text.maybe_whole("shared_expert_intermediate_size", "shared_intermediate_size")
    if width is not None and not text.says(*names):
        return width / expert_ffn
    usual = 1 if family in ("llama4_text", "hunyuan_v1_moe") else 0
    if own := text.maybe_whole("share_expert_dim", "moe_shared_expert_intermediate_size"):
        return own / expert_ffn
    return float(_first_whole(text, *names, default=usual, least=0))


def _first_whole(text: ConfigValues, *names: str, default: int | None = None, least: int = 1) -> int:
    key = next((name for name in names if name in text), names[0])
    return text.first_whole(key, default, least=least)


def _places_of_experts(text: ConfigValues, layers: int) -> dict[str, int]:
    dense = len(text.items("mlp_only_layers")) + text.items("mlp_layer_types").count("dense")
    if not text.says("mlp_layer_types"):
        names = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
        dense = text.whole(*names, default=dense, least=0)
    if text.says("moe_layer_freq") and text.has("moe_layer_freq", list):
        dense = text.items("moe_layer_freq").count(0)
    if listed := text.items("moe_layers_enum") or text.text("moe_layers_enum").split(","):
        dense = layers - len([layer for layer in listed if int(layer) < layers]) if any(listed) else dense
    if dense >= layers:
        reason = Message("it has experts, and in none of its {layers} layers", layers=layers)
        raise text.error(reason)
    step = text.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    return {"dense_layers": dense, "expert_step": step}


def _window(text: ConfigValues, layers: int) -> tuple[int | None, int]:
    """The window in tokens, and how many layers see no more."""
    window = text.maybe_whole("sliding_window", "attention_chunk_size")
    context = _max_context(text)
    if not window or not text.flag("use_sliding_window", True) or window >= (context or window + 1):
        return None, 0
    kinds = text.items("layer_types")
    if kinds:
        count = sum(KINDS.get(str(kind)) == "window" for kind in kinds[:layers])
        return (window, min(count, layers)) if count else (None, 0)
    if "use_sliding_window" in text:
        count = layers - text.whole("max_window_layers", default=0, least=0)
        return (window, count) if count > 0 else (None, 0)
    # Each so-manyth layer sees all tokens; 0: none. EXAONE writes 4 as 'LLLG', local and global layers.
    key = "sliding_window_pattern"
    is_text = text.has(key, str)
    pattern = text.text(key).upper().find("G") + 1 if is_text else text.whole(key, default=0, least=0)
    return window, layers - (layers // pattern if pattern else 0)


def _check(whole: ConfigValues, model: LanguageModel) -> None:
    """Raise an error for sizes that contradict each other or are implausible for current models."""
    if not model.latent and model.heads % model.kv_heads:
        reason = Message(
            "{kv_heads} KV heads do not share {heads} heads equally",
            kv_heads=model.kv_heads,
            heads=model.heads,
        )
        raise whole.error(reason)
    if model.indexer and not (model.latent and model.latent.q_lora):
        raise uncovered(whole.name, "layers", field=FIELD)
    if model.experts_per_token > model.experts:
        reason = Message(
            "a token goes to {count} experts of {experts}",
            count=model.experts_per_token,
            experts=model.experts,
        )
        raise whole.error(reason)
    if not 1e5 < model.parameters < 1e14:
        reason = Message(
            "its sizes make {count:.3g} weights, which is no language model", count=model.parameters
        )
        raise whole.error(reason)
