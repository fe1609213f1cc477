"""`python -m advisor.infra.build.language_models.class_defaults` writes class_defaults.json: the values that
the configuration classes of the installed transformers use for keys missing in a configuration."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from advisor.models.language.config_values import CLASS_DEFAULTS
from advisor.models.language.families import FAMILIES

# Keys that are read from a configuration, by the classes' names for them.
_KEYS = """
    num_hidden_layers n_layer n_layers hidden_size n_embd d_model vocab_size tie_word_embeddings
    max_position_embeddings n_positions max_seq_len num_attention_heads n_head n_heads head_dim
    num_key_value_heads num_kv_heads kv_n_heads multi_query new_decoder_architecture
    intermediate_size n_inner ffn_dim ffn_hidden_size expansion_ratio
    num_experts num_local_experts n_routed_experts moe_num_experts num_experts_per_tok moe_k
    moe_top_k moe_intermediate_size intermediate_size_mlp shared_expert_intermediate_size
    shared_intermediate_size n_shared_experts moe_num_shared_experts first_k_dense_replace
    moe_layer_start_index decoder_sparse_step interleave_moe_layer_step
    kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim
    index_n_heads index_head_dim index_topk
    sliding_window attention_chunk_size use_sliding_window max_window_layers sliding_window_pattern
    depth embed_dim mlp_ratio patch_size temporal_patch_size spatial_merge_size out_hidden_size
    deepstack_visual_indexes
    linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim
    linear_conv_kernel_dim linear_num_heads linear_head_dim full_attention_interval
    mamba_num_heads mamba_n_heads mamba_head_dim mamba_d_ssm mamba_expand expand n_groups
    mamba_n_groups ssm_state_size mamba_d_state state_size conv_kernel mamba_d_conv mamba_dt_rank
    conv_L_cache block_multiple_of num_dense_layers num_heads attn_layer_period attn_layer_offset
    expert_layer_period expert_layer_offset moe_shared_expert_intermediate_size moe_topk
    dense_intermediate_size share_expert_dim o_groups o_lora_rank hc_mult
    global_head_dim num_global_key_value_heads attention_k_eq_v num_kv_shared_layers
    use_double_wide_mlp hidden_size_per_layer_input vocab_size_per_layer_input top_k_experts
""".split()  # noqa: SIM905
_LETTERS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
_WINDOWS = {"sliding_attention", "chunked_attention"}
_PARTS = ("text_config", "vision_config")


def class_defaults() -> dict[str, dict[str, Any]]:
    """Configuration type -> default values of its class, for all supported architectures, for types that
    contain one of these as a part, and for the towers of such types."""
    from huggingface_hub.errors import StrictDataclassClassValidationError
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found: dict[str, dict[str, Any]] = {}
    for kind in CONFIG_MAPPING.keys():  # noqa: SIM118  (it is no mapping to loop over)
        parts = {name: part["model_type"] for name, part in _parts(CONFIG_MAPPING[kind]).items()}
        if kind in FAMILIES or parts.get("text_config") in FAMILIES:
            for name in (kind, *parts.values()):
                with suppress(StrictDataclassClassValidationError):  # needs arguments
                    found[name] = _values(CONFIG_MAPPING[name])
    return dict(sorted(found.items()))


def _parts(kind: Any) -> dict[str, dict[str, Any]]:
    """The type of each part, and its values if the configuration does not have the part."""
    specs = {name: kind.sub_configs_defaults.get(name) for name in _PARTS}
    return {
        name: {"model_type": spec.model_type or spec.config_class.model_type}
        | {key: value for key, value in (spec.init_kwargs or {}).items() if key in _KEYS}
        for name, spec in specs.items()
        if spec
    }


def _values(kind: Any) -> dict[str, Any]:
    fields = kind.default_config_fields()
    values = {key: fields[key] for key in _KEYS if fields.get(key) is not None}
    layers = getattr(kind(), "layer_types", None) or []
    windows = set(layers) - {"full_attention"}
    if "sliding_window_pattern" not in values and windows and windows <= _WINDOWS and len(set(layers)) > 1:
        values["sliding_window_pattern"] = layers.index("full_attention") + 1
    dense = list(getattr(kind(), "mlp_layer_types", None) or []).count("dense")
    if dense and "first_k_dense_replace" not in values:
        values["first_k_dense_replace"] = dense
    if "moe" in layers:
        values["hybrid_override_pattern"] = "".join(_LETTERS[layer] for layer in layers)
    for name in ("attn_config", "ffn_config"):
        if part := getattr(kind(), name, None):
            values[name] = {key: getattr(part, key) for key in _KEYS if hasattr(part, key)}
    return values | _parts(kind)


def written(table: dict[str, dict[str, Any]]) -> str:
    """The file's text, with a line for each class."""
    lines = (f'"{kind}": {json.dumps(values)}' for kind, values in table.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    CLASS_DEFAULTS.write_text(written(class_defaults()), encoding="utf-8")
