"""The closed lists of words that questions about language models use: tasks, number
formats, engines, ways of fine-tuning, links of GPUs, and what holds serving back."""

from __future__ import annotations

from enum import StrEnum


class LanguageTask(StrEnum):
    """The task of a language model: serving it, or tuning it further."""

    GENERATION = "generation"
    FINETUNING = "finetuning"


class LlmPrecision(StrEnum):
    """Number format of a language model's weights.

    `int4-awq` stands for 4-bit weights with 16-bit arithmetic (AWQ, GPTQ, compressed-tensors
    W4A16), `nvfp4` and `mxfp4` for 4-bit floats with a scale for 16 or 32 of them. Which modules
    keep 16 bits, `advisor.models.language.formats` says.
    """

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT4_AWQ = "int4-awq"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"


class KvPrecision(StrEnum):
    """Number format of the keys and values that are kept for each token; measured rows write
    `bf16` for any 16 bits."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"


class LlmEngine(StrEnum):
    """The engine that serves a language model."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMA_CPP = "llama.cpp"

    @property
    def product(self) -> str:
        """The engine's name as its makers write it."""
        return _PRODUCTS.get(self.value, self.value)


_PRODUCTS = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


class LlmMethod(StrEnum):
    """The weights that fine-tuning trains: every one, or adapters over frozen 16-bit or 4-bit weights."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class Link(StrEnum):
    """The link between the GPUs that share a model; `none` for one GPU."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NONE = "none"


class ServingBind(StrEnum):
    """The bound of a serving rate.

    Of a step: reading the weights, reading the KV cache, arithmetic, the all-reduce of tensor
    parallelism, launching kernels, prompts that are read between steps. Of the whole: GPU memory
    that holds no more sequences, requests that arrive faster than they are answered.
    """

    WEIGHTS = "weights"
    KV = "kv"
    ARITHMETIC = "arithmetic"
    ALL_REDUCE = "all_reduce"
    OVERHEAD = "overhead"
    PREFILL = "prefill"
    MEMORY = "memory"
    LOAD = "load"


# Parts of a hundred requests whose times are told, and may be limited.
PERCENTILES = (50, 90, 95, 99)


class StepKind(StrEnum):
    """One thing that may be done differently on the chosen instance."""

    FP8 = "fp8"
    FP8_KV = "fp8_kv"
    TENSOR_PARALLEL = "tensor_parallel"
    REPLICA = "replica"
    DISK = "disk"
