"""What the fetched table of configurations lacks or has otherwise than the published files."""

from __future__ import annotations

from collections.abc import Mapping

# litgpt has the tokenizer's vocabulary; these are the rows of the published embeddings.
PADDED_VOCABULARY: Mapping[int, int] = {
    128000: 128256,
    151643: 151936,
    50254: 50304,
    50257: 51200,
    50280: 50304,
    100278: 100352,
    200019: 200064,
    32000: 32064,
}
# Of the last, only Microsoft's Phi-3 is padded so; GPT-2 is not padded, phi is.
PADDED_FOR: Mapping[int, tuple[str, ...]] = {32000: ("microsoft/",), 50257: ("microsoft/",)}
# Other cells, by name, as the models' published configuration files have them.
CELLS: Mapping[str, Mapping[str, str]] = {
    "Qwen/Qwen2.5-7B": {"vocab": "152064"},
    "Qwen/Qwen2.5-14B": {"vocab": "152064"},
    "Qwen/Qwen2.5-32B": {"vocab": "152064"},
    "Qwen/Qwen2.5-72B": {"vocab": "152064"},
    "Qwen/Qwen2.5-Coder-32B": {"vocab": "152064"},
    "Qwen/QwQ-32B": {"vocab": "152064"},
    "EleutherAI/pythia-6.9b": {"vocab": "50432"},
    "EleutherAI/pythia-12b": {"vocab": "50688"},
    "tiiuae/falcon-40b": {"tied": "True"},
    "mistralai/Mistral-7B-v0.1": {"max_context": "32768"},
    "mistralai/mathstral-7B-v0.1": {"window": "", "full_attn_layers": ""},
    "google/gemma-2b": {"max_context": "8192"},
    "google/gemma-7b": {"max_context": "8192"},
    "google/codegemma-7b-it": {"max_context": "8192"},
    "microsoft/Phi-3.5-mini-instruct": {"max_context": "131072"},
    "moonshotai/Kimi-K2.5": {"model_type": "kimi_k2"},
    "bigscience/bloom-7b1": {"max_context": "2048"},
}
# Llama 4 attends to chunks of 8,192 tokens in three of four layers.
CHUNKED = {"llama4_text": ("8192", 0.75)}
# DeepSeek's sparse attention: heads, bytes of a key, tokens that are picked.
INDEXERS = {"deepseek_v32": ("64", "128", "2048"), "glm_moe_dsa": ("32", "128", "2048")}
# Architectures whose rows the fetched table marks as not covered by its formula, and ours covers;
# of GLM-5.2 the configuration tells of other layers.
COVERED = ("glm_moe_dsa",)
NOT_COVERED = ("zai-org/GLM-5.2", "zai-org/GLM-5.2-FP8", "nvidia/GLM-5.2-NVFP4")
# Families of litgpt's rows by how the names of their models begin, else by its class of networks.
FAMILY_OF_NAME: Mapping[str, str] = {
    "falcon-": "falcon",
    "phi-1": "phi",
    "phi-2": "phi",
    "phi-3": "phi3",
    "phi-4": "phi3",
    "gemma-2-": "gemma2",
    "gemma-3-": "gemma3_text",
    "mistral": "mistral",
    "mathstral": "mistral",
    "qwen2": "qwen2",
    "qwq": "qwen2",
    "qwen3": "qwen3",
    "olmo-2": "olmo2",
    "olmo-": "olmo",
    "stablelm-3b": "stablelm",
}
FAMILY_OF_CLASS: Mapping[str, str] = {
    "litgpt:LLaMAMLP": "llama",
    "litgpt:GptNeoxMLP": "gpt_neox",
    "litgpt:GemmaMLP": "gemma",
}
# Towers for pictures with their projections, by the formula of `advisor.models.language.config_values`
# from the
# sizes of the published configurations: (layers, width, width of the network, mergers, patch).
TOWERS: Mapping[str, tuple[int, int, int, int, int]] = {
    "Qwen/Qwen3-VL-2B-Instruct": (24, 1024, 4096, 4, 16),
    "Qwen/Qwen3-VL-4B-Instruct": (24, 1024, 4096, 4, 16),
    **dict.fromkeys(
        (
            "Qwen/Qwen3-VL-8B-Instruct",
            "Qwen/Qwen3-VL-32B-Instruct",
            "Qwen/Qwen3-VL-32B-Thinking",
            "Qwen/Qwen3-VL-30B-A3B-Instruct",
            "Qwen/Qwen3-VL-235B-A22B-Instruct",
        ),
        (27, 1152, 4304, 4, 16),
    ),
    **dict.fromkeys(
        ("google/gemma-3-4b-it", "google/gemma-3-12b-it", "google/gemma-3-27b-it"), (27, 1152, 4304, 0, 14)
    ),
    **dict.fromkeys(
        (
            "moonshotai/Kimi-K2.5",
            "nvidia/Kimi-K2.5-NVFP4",
            "nvidia/Kimi-K2.6-NVFP4",
            "nvidia/Kimi-K2.7-Code-NVFP4",
        ),
        (27, 1152, 4304, 1, 14),
    ),
    **dict.fromkeys(
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        (34, 1408, 5632, 1, 14),
    ),
}
# Checkpoints of the sizes and format of another one.
SAME_AS: Mapping[str, tuple[str, ...]] = {
    "moonshotai/Kimi-K2.5": ("moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.7-Code")
}
# Shapes that no published checkpoint has.
NO_CHECKPOINT = ("bloom-175b", "megatron-lm-175b", "megatron-lm-530b")
# Checkpoints of the class defaults' architectures stand in `added.csv` with their own sizes.
REPLACED = ("databricks/dbrx-base", "allenai/OLMoE-1B-7B", "stabilityai/stablelm-3b", "microsoft/Phi-3.5-MoE")
