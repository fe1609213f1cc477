"""Language models out of `config.json`, sane and hostile."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.generation import KvPrecision, LlmPrecision
from advisor.errors import UsageError
from advisor.models.language.configs import bundled_language_models, language_model_of_config
from advisor.models.language.memory import kv_bytes
from tests.rows import assert_each

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


@pytest.fixture
def read(tmp_path):
    """Reads what is written into a config.json."""

    def model(content):
        path = tmp_path / "config.json"
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(text)
        return language_model_of_config(path)

    return model


def test_llama_is_read_from_file_and_folder(read, tmp_path):
    """With its published number of weights."""
    assert read(LLAMA).parameters == 8_030_261_248
    assert language_model_of_config(tmp_path).kv_heads == 8
    assert read(LLAMA).own_precision == LlmPrecision.BF16
    assert read(LLAMA | {"torch_dtype": "float16"}).own_precision == LlmPrecision.FP16


def test_deepseek_is_read_with_its_format(read):
    """671 thousand million weights in fp8, and the latent cache."""
    model = read(DEEPSEEK)
    assert model.parameters == pytest.approx(671.03e9, rel=1e-4)
    assert model.own_precision == LlmPrecision.FP8
    assert model.latent.kv_lora == 512
    assert model.expert_layers == 58


def test_old_names_of_keys_are_read(read):
    """GPT-2, Falcon with one KV head, OPT's learned positions, MPT's parts."""
    gpt2 = {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    }
    falcon = {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "vocab_size": 65024,
        "num_hidden_layers": 32,
        "multi_query": True,
        "new_decoder_architecture": False,
    }
    opt = {
        "model_type": "opt",
        "hidden_size": 768,
        "ffn_dim": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    }
    mpt = {
        "model_type": "mpt",
        "d_model": 4096,
        "n_heads": 32,
        "n_layers": 32,
        "vocab_size": 50432,
        "max_seq_len": 2048,
        "attn_config": {"alibi": True},
    }
    cases = ((gpt2, 124.4e6, 12), (falcon, 6.92e9, 1), (opt, 125.2e6, 12), (mpt, 6.65e9, 32))

    def check(config, weights, kv_heads):
        model = read(config)
        assert model.parameters == pytest.approx(weights, rel=0.003)
        assert model.kv_heads == kv_heads

    assert_each(check, cases)


def written_as_config(model):
    """The model's sizes by the names that most configurations have."""
    config = {
        "model_type": model.family,
        "num_hidden_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.ffn,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied,
        "max_position_embeddings": model.max_context,
        "multi_query": model.kv_heads == 1,
        "new_decoder_architecture": model.kv_heads > 1,
    }
    if model.moe:
        config |= {
            "num_experts": model.experts,
            "num_experts_per_tok": model.experts_per_token,
            "moe_intermediate_size": model.expert_ffn,
            "intermediate_size_mlp": model.ffn,
            "n_shared_experts": int(model.shared_experts),
            "decoder_sparse_step": model.expert_step,
            "first_k_dense_replace": model.dense_layers,
        }
    if model.latent:
        config |= {
            "kv_lora_rank": model.latent.kv_lora,
            "q_lora_rank": model.latent.q_lora,
            "qk_rope_head_dim": model.latent.rope,
            "qk_nope_head_dim": model.latent.nope,
            "v_head_dim": model.latent.v,
        }
    if model.indexer:
        config |= {
            "index_n_heads": model.indexer.heads,
            "index_head_dim": model.indexer.head_dim,
            "index_topk": model.indexer.top_k,
        }
    config["sliding_window"] = model.window
    if model.window:
        full = ["full_attention"] * model.full_layers
        kinds = full + ["sliding_attention"] * model.window_layers
        config["layer_types"] = kinds
    return config


def test_each_bundled_model_is_the_same_out_of_a_file(read):
    """Sizes, weights but for towers, and KV; so both ways tell of one model."""

    def check(name):
        model = bundled_language_models().find(name)
        found = read(written_as_config(model))
        assert found.parameters - found.other_parameters == pytest.approx(
            model.parameters - model.other_parameters, rel=1e-12
        )
        assert found.active_parameters == pytest.approx(model.active_parameters, rel=1e-12)
        for tokens in (100, 100_000):
            one, other = (kv_bytes(each, KvPrecision.BF16, 2, tokens) for each in (found, model))
            assert one == other

    assert_each(check, bundled_language_models().names())


def test_windows_are_read_where_they_hold(read):
    """Mistral in all layers, Gemma 3 in five of six, Qwen where it says so, none beyond the
    context."""
    mistral = LLAMA | {"model_type": "mistral", "sliding_window": 4096}
    gemma = LLAMA | {"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 6}
    listed = mistral | {"layer_types": ["full_attention", "sliding_attention"] * 16}
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    cases = (
        (mistral, 4096, 32),
        (gemma, 1024, 27),
        (listed, 4096, 16),
        (qwen | {"use_sliding_window": False}, None, 0),
        (qwen | {"use_sliding_window": True}, 4096, 4),
        (mistral | {"sliding_window": 262144}, None, 0),
        (mistral | {"sliding_window": None}, None, 0),
        (LLAMA | {"model_type": "exaone4", "sliding_window_pattern": "LLLG"}, 4096, 24),
        (LLAMA | {"model_type": "exaone4", "sliding_window_pattern": "LG"}, 4096, 16),
        (LLAMA | {"model_type": "olmo3"}, 4096, 24),
    )

    def check(config, window, layers):
        model = read(config)
        assert (model.window, model.window_layers) == (window, layers)

    assert_each(check, cases)


def test_the_text_part_of_models_that_see_is_read_with_the_tower(read):
    """Qwen3-VL-2B: 2.13 thousand million weights are published, 1.72 of them the text's."""
    text = {
        "model_type": "qwen3_vl_text",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 262144,
    }
    vision = {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "deepstack_visual_indexes": [5, 11, 17],
        "out_hidden_size": 2048,
    }
    config = {
        "model_type": "qwen3_vl",
        "text_config": text,
        "vision_config": vision,
        "tie_word_embeddings": True,
    }
    assert read(config).parameters == pytest.approx(2.1275e9, rel=0.003)


def test_formats_are_read_by_module(read):
    """AWQ's group, compressed-tensors with attention left out, NVFP4 and gpt-oss's experts."""
    kimi = DEEPSEEK | {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            "ignore": [
                "lm_head",
                "re:.*self_attn.*",
                "re:.*shared_experts.*",
                "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
            ],
        }
    }
    cases = (
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-awq", 4.15625, ()),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4-awq", 4.0, ()),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "exclude_modules": ["lm_head", "model.layers.*.self_attn*"],
            },
            "nvfp4",
            4.5,
            ("attention",),
        ),
        (
            {
                "quant_method": "mxfp4",
                "modules_to_not_convert": [
                    "model.layers.*.self_attn",
                    "model.layers.*.mlp.router",
                    "model.embed_tokens",
                    "lm_head",
                ],
            },
            "mxfp4",
            4.25,
            ("attention",),
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]},
            "fp8",
            8.0,
            (),
        ),
    )

    def check(quantization, precision, bits, sixteen):
        model = read(LLAMA | {"quantization_config": quantization})
        assert (model.own_precision, model.own_bits) == (precision, bits)
        assert model.sixteen_bit == sixteen

    assert_each(check, cases)
    model = read(kimi)
    assert (model.own_precision, model.own_bits) == (LlmPrecision.INT4_AWQ, 4.5)
    assert set(model.sixteen_bit) == {"attention", "shared", "dense"}


QWEN_MOE = LLAMA | {
    "model_type": "qwen3_moe",
    "num_experts": 64,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1024,
}
MIXED = {
    "quant_algo": "MIXED_PRECISION",
    "kv_cache_quant_algo": "FP8",
    "quantized_layers": {
        f"model.layers.{layer}.{name}": format_
        for layer in range(32)
        for name, format_ in (
            ("self_attn.q_proj", {"quant_algo": "FP8"}),
            ("mlp.experts", {"quant_algo": "W4A16_NVFP4", "group_size": 16}),
        )
    },
}
MODELOPT = {"producer": {"name": "modelopt", "version": "0.23.0"}}
AWQ = {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}
GPTQ = {"bits": 4, "group_size": 32, "desc_act": True, "model_file_base_name": "model"}
BESIDE = (
    ("hf_quant_config.json", {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", 8.0, "fp8"),
    ("hf_quant_config.json", {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}, "nvfp4", 4.5, None),
    ("hf_quant_config.json", {"quant_algo": "W4A16_AWQ", "group_size": 128}, "int4-awq", 4.15625, None),
    ("hf_quant_config.json", {"quant_algo": None, "kv_cache_quant_algo": "FP8"}, "bf16", 16.0, "fp8"),
    ("quantize_config.json", GPTQ, "int4-awq", 4.625, None),
    ("quant_config.json", AWQ, "int4-awq", 4.15625, None),
)


@pytest.mark.parametrize(("name", "content", "precision", "bits", "kv"), BESIDE)
def test_the_format_is_read_beside_the_configuration(read, tmp_path, name, content, precision, bits, kv):
    """As engines read it, of ModelOpt, old GPTQ and old AWQ; by the folder and by the file."""
    whole = MODELOPT | {"quantization": content} if name.startswith("hf_") else content
    (tmp_path / name).write_text(json.dumps(whole))
    model = read(LLAMA)
    assert (model.own_precision, model.own_bits, model.own_kv_precision) == (precision, bits, kv)
    assert language_model_of_config(tmp_path) == model
    told = LLAMA | {"quantization_config": {"quant_method": "mxfp4"}}
    assert read(told).own_precision == LlmPrecision.MXFP4  # its own word counts


def test_modules_of_different_formats_have_the_mean_of_their_bits(read, tmp_path):
    """Attention in fp8, experts in nvfp4, what is not named in 16 bits; in both spellings."""
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(MODELOPT | {"quantization": MIXED}))
    model = read(QWEN_MOE)
    weights = model.weights
    bits = (8 * weights.attention + 4.5 * weights.experts) / (weights.attention + weights.experts)
    assert (model.own_precision, model.own_bits) == (LlmPrecision.NVFP4, pytest.approx(bits))
    assert model.sixteen_bit == ("dense", "shared")
    groups = {
        "fp8": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["re:.*self_attn.*"]},
        "nvfp4": {
            "weights": {"num_bits": 4, "type": "float", "group_size": 16},
            "targets": ["re:.*mlp.experts.*"],
        },
    }
    grouped = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "config_groups": groups,
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
    }
    assert read(QWEN_MOE | {"quantization_config": grouped}) == model


def test_formats_beside_that_no_engine_serves_are_refused_by_name(read, tmp_path):
    """With their bits where these are why."""
    for content, said in ((GPTQ | {"bits": 3}, "gptq.*3 bits|3 bits"), ({"bits": "four"}, "bits")):
        (tmp_path / "quantize_config.json").write_text(json.dumps(content))
        with pytest.raises(UsageError, match=said):
            read(LLAMA)


OTHER_FILES = (
    (
        {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B"},
        "an adapter's settings",
        "its base model, meta-llama/Llama-3.1-8B",
    ),
    ({"do_sample": True, "temperature": 0.6}, "its settings for generating", "--model"),
    ({"bos_token_id": 1, "eos_token_id": 2}, "its settings for generating", "config.json beside"),
    ({"tokenizer_class": "LlamaTokenizer", "model_max_length": 4096}, "tokenizer's settings", ""),
    ({"version": "1.0", "added_tokens": [], "model": {}}, "its tokenizer", ""),
    ({"metadata": {}, "weight_map": {}}, "the list of its weight files", "config.json beside"),
    ({"dim": 4096, "n_layers": 32, "n_heads": 32}, "in Mistral's or Llama's own form", "Hugging"),
    ({"_class_name": "FluxPipeline"}, "a diffusion model", ""),
    ({"image_processor_type": "CLIPImageProcessor"}, "its preprocessor's settings", ""),
    (MODELOPT | {"quantization": {"quant_algo": "FP8"}}, "the format of its weights alone", ""),
    (GPTQ, "the format of its weights alone", "config.json beside"),
    ({"hidden_size": 4096}, "it has no model_type", "config.json beside"),
)


def test_other_files_of_a_model_are_named_with_the_way_out(read):
    """Each says what the file is, and which one to take."""

    def check(content, what, hint):
        with pytest.raises(UsageError, match=what) as caught:
            read(content)
        assert hint in str(caught.value.hint)

    assert_each(check, OTHER_FILES)


def test_a_folder_without_a_configuration_is_told_by_what_it_holds(tmp_path):
    """An adapter's folder has no config.json."""
    (tmp_path / "adapter_config.json").write_text(json.dumps(OTHER_FILES[0][0]))
    with pytest.raises(UsageError, match=r"adapter_config\.json is no config\.json"):
        language_model_of_config(tmp_path)


HUB = "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0123abc"


def test_a_model_is_called_as_its_checkpoint_never_as_a_makers_folder(tmp_path):
    """By the last part of its own name, else by its folder, else by the file."""
    folder = tmp_path / "my-llama"
    folder.mkdir()
    cases = (
        ("/opt/models/Llama-3.1-70B-Instruct/", "config.json", "Llama-3.1-70B-Instruct"),
        ("meta-llama/Llama-3.1-8B", "config.json", "Llama-3.1-8B"),
        ("C:\\models\\Qwen3-8B", "config.json", "Qwen3-8B"),
        (HUB, "config.json", "Qwen3-8B"),
        ("./", "config.json", "my-llama"),
        (None, "config.json", "my-llama"),
        (None, "mine.json", "mine"),
    )

    def check(written, file, name):
        (folder / file).write_text(json.dumps(LLAMA | {"_name_or_path": written}))
        assert language_model_of_config(folder / file).name == name

    assert_each(check, cases)


GRANITE = LLAMA | {
    "model_type": "granitemoehybrid",
    "layer_types": ["attention"] * 32,
    "num_local_experts": 0,
    "shared_intermediate_size": 8192,
    "mamba_d_state": 256,
}


def test_granite_whose_layers_all_have_attention_is_dense(read):
    """Granite 4.0 Micro: its feed-forward network is the shared one."""
    assert read(GRANITE).ffn == 8192
    assert read(GRANITE | {"layer_types": ["full_attention"] * 32}) == read(GRANITE)
    for layers in (["mamba"] * 31 + ["attention"], None):
        with pytest.raises(UsageError, match="state-space"):
            read(GRANITE | {"layer_types": layers})


def test_what_is_not_covered_is_refused_by_name(read):
    """Unknown architectures, other layers, and formats that no engine here serves."""
    cases = (
        ({"model_type": "qwen3_next"}, "linear attention"),
        ({"model_type": "frobnicate"}, "'frobnicate' is unknown"),
        ({"model_type": None}, "no model_type"),
        ({"layer_types": ["deepseek_sparse_attention"] * 32}, "sparse"),
        ({"layer_types": ["minimax_m3_sparse"] * 32}, "sparse"),
        ({"layer_types": ["gated_delta_net"] * 32}, "linear attention"),
        ({"layer_types": ["mamba"] * 32}, "state-space"),
        ({"layer_types": ["wonder_attention"] * 32}, "'wonder_attention' is unknown"),
        ({"model_type": "mllama"}, "attend to pictures"),
        ({"model_type": "bert"}, "no decoder"),
        ({"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, "linear attention"),
        ({"layer_types": ["conv"] * 32}, "state-space or convolutions"),
        ({"hybrid_override_pattern": "M-M*"}, "state-space"),
        ({"block_configs": [{}]}, "differ"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "bitsandbytes"),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, "does not say how"),
    )

    def check(changed, reason):
        with pytest.raises(UsageError, match=reason) as caught:
            read(LLAMA | changed)
        assert caught.value.field == "config"

    assert_each(check, cases)


def test_impossible_sizes_are_refused_with_the_key(read):
    """Missing, negative, huge, of another type, or at odds with each other."""
    cases = (
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"hidden_size": -4096}, "hidden_size"),
        ({"hidden_size": 10**30}, "no config.json"),
        ({"hidden_size": 10**12}, "hidden_size"),
        ({"hidden_size": 1e300}, "hidden_size"),
        ({"hidden_size": float("nan")}, "hidden_size"),
        ({"hidden_size": float("inf")}, "hidden_size"),
        ({"hidden_size": 4096.5}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": [4096]}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_key_value_heads": 7}, "KV heads"),
        ({"num_hidden_layers": 10**9, "hidden_size": 10**6}, "no language model"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        ({"model_type": 7}, "model_type"),
        ({"layer_types": "all"}, "layer_types"),
        ({"text_config": 3}, "text_config"),
        ({"quantization_config": []}, "quantization_config"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "9 experts of 8"),
        ({"num_experts": 8}, "num_experts_per_tok"),
    )

    def check(changed, reason):
        with pytest.raises(UsageError, match=reason):
            read(LLAMA | changed)

    assert_each(check, cases)


def test_what_is_no_json_of_a_model_is_refused(read, tmp_path):
    """Text, lists, depth, numbers beyond a double, bytes, too much, a folder without it."""
    deep = b"[" * 100_000 + b"]" * 100_000
    for content in (
        b"",
        b"hello",
        b"[]",
        b"null",
        b"\xff\xfe",
        deep,
        b'{"a": 1e999}',
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b" " * 5 * 2**20,
    ):
        with pytest.raises(UsageError, match=r"no config\.json"):
            read(content)
    with pytest.raises(UsageError, match="cannot be read"):
        language_model_of_config(tmp_path / "missing.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        language_model_of_config(tmp_path / "empty")


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    plain,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=8), one, max_size=3),
    max_leaves=6,
)
OTHER_KEYS = (
    "layer_types",
    "sliding_window",
    "vision_config",
    "text_config",
    "attn_config",
    "num_experts",
    "head_dim",
    "index_topk",
    "ffn_config",
    "expansion_ratio",
    "dtype",
)


@given(st.sampled_from((LLAMA, DEEPSEEK)), st.data())
def test_any_value_of_any_key_is_read_or_refused(tmp_path, base, data):
    """Never another error, whatever stands where."""
    key = data.draw(st.sampled_from((*base, *OTHER_KEYS)))
    config = base | {key: data.draw(json_values)}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with suppress(UsageError):
        assert language_model_of_config(path).parameters > 0
