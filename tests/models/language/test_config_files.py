"""Language models out of `config.json`, sane and hostile."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.words import LlmPrecision
from advisor.errors import UsageError
from advisor.models.language.config_files import language_model_of_config
from advisor.models.language.configs import bundled_language_models
from tests.models.language.test_memory import kept
from tests.rows import assert_each, table

CONFIGS = table("language_configs")
LLAMA, DEEPSEEK = CONFIGS["llama"], CONFIGS["deepseek"]


@pytest.fixture
def read(tmp_path):
    """Reads what is written into a config.json."""

    def model(content):
        path = tmp_path / "config.json"
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(text)
        return language_model_of_config(path)

    return model


def test_llama_is_read_from_file_and_folder_and_the_text_of_models_that_see_with_the_tower(read, tmp_path):
    """With its published number of weights. Qwen3-VL-2B: 2.13 thousand million weights are published, 1.72 of
    them the text's."""
    assert read(LLAMA).parameters == 8_030_261_248
    assert language_model_of_config(tmp_path).kv_heads == 8
    assert read(LLAMA).own_precision == LlmPrecision.BF16
    assert read(LLAMA | {"torch_dtype": "float16"}).own_precision == LlmPrecision.FP16
    assert read(CONFIGS["qwen3_vl"]).parameters == pytest.approx(2.1275e9, rel=0.003)


def test_old_names_of_keys_and_windows_are_read_where_they_hold(read):
    """GPT-2, Falcon with one KV head, OPT's learned positions, MPT's parts."""

    def check(config, weights, kv_heads):
        model = read(config)
        assert model.parameters == pytest.approx(weights, rel=0.003)
        assert model.kv_heads == kv_heads

    assert_each(check, CONFIGS["old_keys"])
    # Mistral in all layers, Gemma 3 in five of six, Qwen where it says so, none beyond the context.

    def check(changes, window, layers):
        model = read(with_every_layer(changes))
        assert (model.window, model.window_layers) == (window, layers)

    assert_each(check, CONFIGS["windows"])


def written_as_config(model):
    """The model's sizes by the names that most configurations have."""

    def written(part, kind):
        return {key: getattr(part, name) for key, name in CONFIGS["keys"][kind].items()}

    config = written(model, "model")
    config |= {"multi_query": model.kv_heads == 1, "new_decoder_architecture": model.kv_heads > 1}
    if model.moe:
        config |= written(model, "experts") | {"n_shared_experts": int(model.shared_experts)}
    if model.latent:
        config |= written(model.latent, "latent")
    if model.indexer:
        config |= written(model.indexer, "indexer")
    if model.window:
        full = ["full_attention"] * (model.layers - model.window_layers)
        config["layer_types"] = full + ["sliding_attention"] * model.window_layers
    return config


def test_each_bundled_model_is_the_same_out_of_a_file(read):
    """Sizes, weights but for towers, and KV; so both ways tell of one model."""

    def check(name):
        model = bundled_language_models().find(name)
        result = read(written_as_config(model))
        assert result.parameters - result.other_parameters == pytest.approx(
            model.parameters - model.other_parameters, rel=1e-12
        )
        assert result.active_parameters == pytest.approx(model.active_parameters, rel=1e-12)
        for tokens in (100, 100_000):
            entry, other = (kept(each, tokens, 2)[0] for each in (result, model))
            assert entry == other

    names = bundled_language_models().names()
    assert_each(check, [name for name in names if not bundled_language_models().find(name).mixed])


def with_every_layer(changes):
    """Llama with these changes; kinds of layers come again and again."""
    kinds = changes.get("layer_types", ())
    return LLAMA | changes | ({"layer_types": kinds * (32 // len(kinds))} if kinds else {})


def test_formats_are_read_by_module_and_differing_ones_have_the_mean_of_their_bits(read, tmp_path):
    """AWQ's group, compressed-tensors with attention left out, NVFP4 and gpt-oss's experts."""

    def check(quantization, precision, bits, sixteen):
        model = read(LLAMA | {"quantization_config": quantization})
        assert (model.own_precision, model.own_bits) == (precision, bits)
        assert list(model.sixteen_bit) == sixteen

    assert_each(check, CONFIGS["formats"])
    kimi = read(DEEPSEEK | {"quantization_config": CONFIGS["kimi_format"]})
    assert (kimi.own_precision, kimi.own_bits) == (LlmPrecision.INT4_AWQ, 4.5)
    assert set(kimi.sixteen_bit) == {"attention", "shared", "dense"}
    # Attention in fp8, experts in nvfp4, what is not named in 16 bits; in both spellings.
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


QWEN_MOE = LLAMA | CONFIGS["qwen_moe"]
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


@pytest.mark.parametrize(("name", "content", "precision", "bits", "kv"), CONFIGS["beside"])
def test_the_format_is_read_beside_the_configuration(read, tmp_path, name, content, precision, bits, kv):
    """As engines read it, of ModelOpt, old GPTQ and old AWQ; by the folder and by the file."""
    whole = MODELOPT | {"quantization": content} if name.startswith("hf_") else content
    (tmp_path / name).write_text(json.dumps(whole))
    model = read(LLAMA)
    assert (model.own_precision, model.own_bits, model.own_kv_precision) == (precision, bits, kv)
    assert language_model_of_config(tmp_path) == model
    expected = LLAMA | {"quantization_config": {"quant_method": "mxfp4"}}
    assert read(expected).own_precision == LlmPrecision.MXFP4  # its own word counts


def test_other_files_and_formats_that_no_engine_serves_are_refused_with_the_way_out(read, tmp_path):
    """Each says which file to take."""

    def check(content, what, hint):
        with pytest.raises(UsageError, match=what) as caught:
            read(content)
        assert hint in str(caught.value.hint)

    assert_each(check, CONFIGS["other_files"])
    # With their bits where these are why.
    for content, said in ((GPTQ | {"bits": 3}, "gptq.*3 bits|3 bits"), ({"bits": "four"}, "bits")):
        (tmp_path / "quantize_config.json").write_text(json.dumps(content))
        with pytest.raises(UsageError, match=said):
            read(LLAMA)
    # Text, lists, depth, numbers beyond a double, bytes, too much, a folder without it.
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


def test_a_model_is_called_as_its_checkpoint_never_as_a_makers_folder(tmp_path):
    """By the last part of its own name, else by its folder, else by the file."""
    folder = tmp_path / "my-llama"
    folder.mkdir()

    def check(written, file, name):
        (folder / file).write_text(json.dumps(LLAMA | {"_name_or_path": written}))
        assert language_model_of_config(folder / file).name == name

    assert_each(check, CONFIGS["called"])


GRANITE = LLAMA | CONFIGS["granite"] | {"layer_types": ["attention"] * 32}


def test_granite_whose_layers_all_have_attention_is_dense(read):
    """Granite 4.0 Micro: its feed-forward network is the shared one; others of its kind keep a state."""
    assert read(GRANITE).ffn == 8192
    assert read(GRANITE | {"layer_types": ["full_attention"] * 32}) == read(GRANITE)
    assert read(GRANITE | {"layer_types": ["mamba"] * 31 + ["attention"]}).mixed.state_bytes > 0


def test_what_is_not_covered_and_impossible_sizes_are_refused_by_name(read):
    """Unknown architectures, other layers, and formats that no engine here serves."""

    def check(changes, reason):
        with pytest.raises(UsageError, match=reason) as caught:
            read(with_every_layer(changes))
        assert caught.value.field == "config"

    assert_each(check, CONFIGS["uncovered"])
    # Missing, negative, huge, of another type, or at odds with each other.

    def check(changed, reason):
        with pytest.raises(UsageError, match=reason):
            read(LLAMA | changed)

    assert_each(check, CONFIGS["impossible"])


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    plain,
    lambda entry: st.lists(entry, max_size=3) | st.dictionaries(st.text(max_size=8), entry, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from((LLAMA, DEEPSEEK)), st.data())
def test_any_value_of_any_key_is_read_or_refused(tmp_path, base, data):
    """Never another error, whatever stands where."""
    key = data.draw(st.sampled_from((*base, *CONFIGS["other_keys"])))
    config = base | {key: data.draw(json_values)}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with suppress(UsageError):
        assert language_model_of_config(path).parameters > 0
