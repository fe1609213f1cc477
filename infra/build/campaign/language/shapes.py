"""Shapes that stand for a dense model and one of experts, as config.json has them.

Weights are random: what a step takes depends on shapes and formats, not on values. Of a model of
experts, random weights spread tokens evenly over them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

Config = Mapping[str, Any]

# https://huggingface.co/meta-llama/Llama-3.1-8B and Qwen/Qwen3-30B-A3B, config.json.
SHAPES: Mapping[str, Config] = MappingProxyType(
    {
        "meta-llama/Llama-3.1-8B": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": False,
        },
        "Qwen/Qwen3-30B-A3B": {
            "architectures": ["Qwen3MoeForCausalLM"],
            "model_type": "qwen3_moe",
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "max_position_embeddings": 40960,
            "tie_word_embeddings": False,
        },
    }
)
# A trial run of the campaign itself, on any CPU; no row of it is data.
TINY_SHAPES: Mapping[str, Config] = MappingProxyType(
    {
        "tiny-dense": {
            **SHAPES["meta-llama/Llama-3.1-8B"],
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
        },
        "tiny-experts": {
            **SHAPES["Qwen/Qwen3-30B-A3B"],
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "moe_intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "num_experts": 8,
            "num_experts_per_tok": 2,
        },
    }
)
# A token for each byte, so that any text is a prompt.
_BYTES = 256


def write_model_folder(config: Config, folder: Path) -> Path:
    """What a server loads, weights excepted: configuration and a tokenizer with as many tokens as
    the model. No token ends an answer."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    whole = {**config, **ends, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "generation_config.json").write_text(json.dumps(ends))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(config["vocab_size"])))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


def _tokenizer(size: int) -> dict[str, Any]:
    """The format of Hugging Face's tokenizers, version 1.0: BPE over bytes without a merge; the
    tokens above 255 are words that no text has."""
    words = [*_byte_letters(), *(f"<{number}>" for number in range(_BYTES, size))]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: n for n, word in enumerate(words)},
            "merges": [],
        },
    }


def _byte_letters() -> list[str]:
    """A printable letter for each byte, as byte-level BPE has them since GPT-2."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(_BYTES) if byte not in shown]
    return [chr(byte) if byte in shown else chr(_BYTES + hidden.index(byte)) for byte in range(_BYTES)]
