"""Translates the sources' names of models, GPUs, engines and formats into the names in our tables."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[4]
_GPUS_PATH = _ROOT / "advisor/data/catalog/gpus.csv"

# The sources' names of GPUs, in lower case; other GPUs are looked up by their original name.
_GPUS = {
    "a100_sxm": "A100-SXM4-80GB",
    "b200_sxm": "B200-SXM-180GB",
    "b300_sxm": "B300-SXM-270GB",
    "gb200": "GB200-186GB",
    "gb200_sxm": "GB200-186GB",
    "gb300": "GB300-279GB",
    "gh200": "GH200-96GB",
    "h100_sxm": "H100-SXM5-80GB",
    "h200_sxm": "H200-SXM-141GB",
    "rtx_pro_6000": "RTX PRO 6000 Blackwell Server",
    "nvidia a100 gpu": "A100-SXM4-40GB",  # Argonne's Polaris
    "nvidia h100 gpu": "H100-SXM5-80GB",
    "nvidia gh200 gpu": "GH200-96GB",
    "nvidia gh200": "GH200-96GB",
    "h100": "H100-SXM5-80GB",
    "h200": "H200-SXM-141GB",
    "b200": "B200-SXM-180GB",
    "b300": "B300-SXM-270GB",
    "a100": "A100-SXM4-80GB",
    "a100-40gb": "A100-SXM4-40GB",
    "gh200-96gb": "GH200-96GB",
    "rtx pro 6000 blackwell server edition": "RTX PRO 6000 Blackwell Server",
    "rtx-pro-6000": "RTX PRO 6000 Blackwell Server",
    "rtx pro 6000": "RTX PRO 6000 Blackwell Server",
    "nvidia-h100-pcie": "H100-PCIE-80GB",
    "nvidia-geforce-rtx-4090": "RTX 4090",
    "a100_40gb": "A100-SXM4-40GB",
    "a100_80gb": "A100-SXM4-80GB",
    "h100_80gb": "H100-SXM5-80GB",
    "dgx-h100": "H100-SXM5-80GB",
    "dgx-b200": "B200-SXM-180GB",
    "dgx-b300": "B300-SXM-270GB",
    "dgx-gb200": "GB200-186GB",
    "dgx-gb300": "GB300-279GB",
    "nvidia h100-sxm5-80gb": "H100-SXM5-80GB",
    "nvidia h100-sxm-80gb": "H100-SXM5-80GB",
    "nvidia h100 80gb hbm3": "H100-SXM5-80GB",
    "nvidia h100-pcie-80gb": "H100-PCIE-80GB",
    "nvidia h200-sxm5-141gb": "H200-SXM-141GB",
    "nvidia h200-sxm-141gb": "H200-SXM-141GB",
    "nvidia h200-nvl-141gb": "H200-NVL-141GB",
    "nvidia blackwell gpu (b200-sxm-180gb)": "B200-SXM-180GB",
    "nvidia b200-sxm-180gb": "B200-SXM-180GB",
    "nvidia a100-sxm4-80gb": "A100-SXM4-80GB",
    "nvidia a100 - pcie - 80 gb": "A100-PCIE-80GB",
    "nvidia l40s": "L40S",
    "nvidia geforce rtx 4090": "RTX 4090",
    "a5000 24gb": "RTX A5000",
    "a6000 ada 48gb": "RTX 6000 Ada",
    "a100 40gb smx": "A100-SXM4-40GB",
    "h100 80gb sxm": "H100-SXM5-80GB",
    "dual 3090": "RTX 3090",
    "dual 4090": "RTX 4090",
}

_LLAMA_31_8B = "meta-llama/Meta-Llama-3.1-8B"
_LLAMA_31_70B = "meta-llama/Meta-Llama-3.1-70B"
_R1 = "deepseek-ai/DeepSeek-R1"
# Names of one checkpoint in several formats, and names without an owner; in lower case.
_MODELS = {
    "meta-llama/llama-3.1-8b": _LLAMA_31_8B,
    "meta-llama/llama-3.1-8b-instruct": _LLAMA_31_8B,
    "meta-llama/meta-llama-3.1-8b-instruct": _LLAMA_31_8B,
    "nvidia/llama-3.1-8b-instruct-fp8": _LLAMA_31_8B,
    "meta-llama/llama-3.1-70b": _LLAMA_31_70B,
    "meta-llama/llama-3.1-70b-instruct": _LLAMA_31_70B,
    "meta-llama/meta-llama-3.1-70b-instruct": _LLAMA_31_70B,
    "nvidia/llama-3.1-70b-instruct-fp8": _LLAMA_31_70B,
    "meta-llama/llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "meta-llama/meta-llama-3.1-405b-instruct": "meta-llama/Meta-Llama-3.1-405B",
    # Runs of one checkpoint that are filed under either name.
    "deepseek-ai/deepseek-v3": _R1,
    "nvidia/deepseek-r1-nvfp4": _R1,
    "nvidia/deepseek-v3.1-nvfp4": _R1,
    "llama-3.1-8b": _LLAMA_31_8B,
    "llama-3.1-70b": _LLAMA_31_70B,
    "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "llama-3.3-70b": "meta-llama/Llama-3.3-70B-Instruct",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "meta-llama-3-8b-instruct": "meta-llama/Meta-Llama-3-8B",
    "meta-llama-3-70b-instruct": "meta-llama/Meta-Llama-3-70B",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "llama2-13b": "meta-llama/Llama-2-13b-hf",
    "llama2-70b": "meta-llama/Llama-2-70b-hf",
    "llama 7b": "meta-llama/Llama-2-7b-hf",  # the same shape as the first LLaMA
    "llama 13b": "meta-llama/Llama-2-13b-hf",
    "llama 70b": "meta-llama/Llama-2-70b-hf",
    "huggyllama/llama-7b": "meta-llama/Llama-2-7b-hf",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral 7b": "mistralai/Mistral-7B-v0.1",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "falcon 180b": "tiiuae/falcon-180B",
    "qwen/qwen2-7b": "Qwen/Qwen2.5-7B",  # the same shape
    "qwen2-7b": "Qwen/Qwen2.5-7B",
    "qwen/qwen2-72b": "Qwen/Qwen2.5-72B",
    "qwen2-72b": "Qwen/Qwen2.5-72B",
    "qwen2.5-7b-instruct": "Qwen/Qwen2.5-7B",
    "qwen2.5-72b": "Qwen/Qwen2.5-72B",
    "qwen3-8b": "Qwen/Qwen3-8B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen/qwen3-235b-a22b-fp8": "Qwen/Qwen3-235B-A22B",
    "nvidia/qwen3-235b-a22b-nvfp4": "Qwen/Qwen3-235B-A22B",
    "qwen/qwen3-30b-a3b-fp8": "Qwen/Qwen3-30B-A3B",
    "qwen/qwen3-32b-fp8": "Qwen/Qwen3-32B",
    "nvidia/qwen3-32b-nvfp4": "Qwen/Qwen3-32B",
    "nvidia/kimi-k2.5-nvfp4": "moonshotai/Kimi-K2.5",
    "nvidia/minimax-m2.5-nvfp4": "MiniMaxAI/MiniMax-M2.5",
    "nvidia/glm-5-nvfp4": "zai-org/GLM-5",
    "zai-org/glm-5-fp8": "zai-org/GLM-5",
    "acemath-7b-instruct": "Qwen/Qwen2.5-7B",  # fine-tuned from these, in their shapes
    "deepseek-r1-distill-qwen-1.5b": "Qwen/Qwen2.5-1.5B",
    "deepseek-r1-distill-qwen-7b": "Qwen/Qwen2.5-7B",
    "deepseek-r1-distill-qwen-14b": "Qwen/Qwen2.5-14B",
    "deepseek-r1-distill-qwen-32b": "Qwen/Qwen2.5-32B",
    "deepseek-r1-distill-llama-8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "deepseek-r1-distill-llama-70b": "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
    "gemma-2-9b-it": "google/gemma-2-9b",
    "yi-34b": "01-ai/Yi-1.5-34B",
    "yi-1.5-34b-chat": "01-ai/Yi-1.5-34B",
}

_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm": "trtllm",
    "tensorrt-llm": "trtllm",
    "llama.cpp": "llama.cpp",
    "deepspeed-mii": "deepspeed-mii",
    "tgi": "tgi",
}

_PRECISIONS = {
    "": "bf16",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
    "fp4": "nvfp4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "int4": "int4-awq",
    "int4(awq)": "int4-awq",
}


class LeftOutError(Exception):
    """The reason why a row of a source is not in our table."""


def model_named(text: str) -> str:
    """The model's name in the facts table; a name that is not listed is returned unchanged."""
    return _MODELS.get(text.strip().lower(), text.strip())


def gpu_named(text: str) -> str:
    """The catalogue's name of the GPU; `LeftOutError` if the catalogue has no data sheet of it."""
    name = _GPUS.get(text.strip().lower(), text.strip())
    if name not in _links():
        raise LeftOutError(f"no data sheet of {text or 'an unnamed GPU'}")
    return name


def engine_named(text: str) -> str:
    """An engine that rows may have; `LeftOutError` for others."""
    found = _ENGINES.get(text.strip().lower())
    if found is None:
        raise LeftOutError(f"engine {text}")
    return found


def precision_named(text: str, model: str = "") -> str:
    """The format of the weights. gpt-oss is published in MXFP4, so any 4-bit name stands for that.
    `LeftOutError` for formats that questions do not have."""
    found = _PRECISIONS.get(text.strip().lower())
    if found is None:
        raise LeftOutError(f"format {text}")
    return "mxfp4" if found == "nvfp4" and model.startswith("openai/gpt-oss") else found


def link_of(gpu: str, gpus: int) -> str:
    """The link between GPUs of one host, from the GPU's data sheet; bridges between two PCIe GPUs are sold
    separately, so they are not assumed."""
    if gpus == 1:
        return "none"
    return "nvlink" if _links()[gpu].startswith("NVLink") else "pcie"


@cache
def _links() -> dict[str, str]:
    with _GPUS_PATH.open(newline="") as file:
        return {row["name"]: row["link"] for row in csv.DictReader(file)}
