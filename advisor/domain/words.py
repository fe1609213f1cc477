"""The closed lists of names that records and questions use."""

from __future__ import annotations

from enum import StrEnum


class Task(StrEnum):
    """The task of a network."""

    TRAINING = "training"
    INFERENCE = "inference"
    PREPROCESSING = "preprocessing"


class AcceleratorKind(StrEnum):
    """The kinds of accelerator that compute a trial's steps; `cuda` is a real GPU."""

    CUDA = "cuda"
    EMULATED = "emulated"
    CPU = "cpu"


class Precision(StrEnum):
    """Number format of the network's arithmetic. `amp` is mixed fp16/fp32, `bf16` the same with bf16; `fp16`
    has its weights in fp16 too."""

    FP32 = "fp32"
    AMP = "amp"
    BF16 = "bf16"
    FP16 = "fp16"


# Precisions that sweeps, `measure` and `verify` can run.
MEASURABLE_PRECISIONS = (Precision.FP32, Precision.AMP, Precision.BF16)


class Stack(StrEnum):
    """The way PyTorch runs a network: operation by operation, or compiled by `torch.compile`."""

    EAGER = "eager"
    COMPILE = "compile"


class MemoryFormat(StrEnum):
    """The layout of images and feature maps in memory: `torch.contiguous_format` or channels last."""

    CONTIGUOUS = "contiguous"
    CHANNELS_LAST = "channels_last"


class Tf32(StrEnum):
    """The fp32 arithmetic that may round to TF32, on Ampere and later; PyTorch's default: convolutions."""

    CONVOLUTIONS = "convolutions"
    ON = "on"
    OFF = "off"


class Protocol(StrEnum):
    """The training step that is meant: a typical script's of today, or the bare step of a benchmark."""

    SCRIPT = "script"
    BENCH = "bench"


class DataKind(StrEnum):
    """The kinds of data that networks take and data sets hold."""

    IMAGE = "image"
    TOKENS = "tokens"
    TENSOR = "tensor"


class Stage(StrEnum):
    """The stages that a sample passes through; the slowest one is the bottleneck."""

    ACCELERATOR = "accelerator"
    HOST = "host"
    STORAGE = "storage"
    TRANSFER = "transfer"
    NETWORK = "network"  # between nodes that train together


class Provenance(StrEnum):
    """The sources of a rate, best first. A worse source never passes for a better one."""

    MEASURED = "measured"
    PUBLISHED = "published"
    ANCHORED = "anchored"  # modelled, corrected by the user's own measurements
    MODELLED = "modelled"


class Market(StrEnum):
    """The ways to pay for an instance; a convertible commitment may be exchanged for another type."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    COMMITMENT_1Y = "commitment-1y"
    COMMITMENT_3Y = "commitment-3y"
    COMMITMENT_1Y_CONVERTIBLE = "commitment-1y-convertible"
    COMMITMENT_3Y_CONVERTIBLE = "commitment-3y-convertible"


# The word of a question for all markets.
ANY_MARKET = "any"


class CloseCallKind(StrEnum):
    """The spec that a close call is about: a rejected one, the chosen one, or the nearest one."""

    CHEAPER_MAY_REACH = "cheaper_may_reach"
    CHOSEN_MAY_MISS = "chosen_may_miss"
    NEAREST_MAY_REACH = "nearest_may_reach"


class CacheState(StrEnum):
    """The page cache at the start of a trial; each state is another trial."""

    WARM = "warm"
    COLD = "cold"


class LimitedBy(StrEnum):
    """The mechanisms that limited a trial to its resources. `host`: the trial asked for the whole machine.
    `none`: a limit was not enforced; such a measurement is stored and never fitted."""

    CGROUP_V1 = "cgroup-v1"
    CGROUP_V2 = "cgroup-v2"
    AFFINITY = "affinity"
    HOST = "host"
    NONE = "none"


class Status(StrEnum):
    """How a trial ended. A failed trial is a measurement too."""

    OK = "ok"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CONTAMINATED = "contaminated"
    FAILED = "failed"


class LanguageTask(StrEnum):
    """The task of a language model: serving, or further tuning."""

    GENERATION = "generation"
    FINETUNING = "finetuning"


class LlmPrecision(StrEnum):
    """Number format of a language model's weights. `int4-awq` stands for 4-bit weights with 16-bit arithmetic
    (AWQ, GPTQ, compressed-tensors W4A16), `nvfp4` and `mxfp4` for 4-bit floats with one scale for 16 or 32 of
    them. `advisor.models.language.formats` says which modules stay at 16 bits."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT4_AWQ = "int4-awq"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"


# An engine can compute weights of one of these formats in the other.
SIXTEEN_BIT = (LlmPrecision.BF16, LlmPrecision.FP16)
# Formats that vLLM and SGLang make from 16-bit weights while loading; others need such a checkpoint.
MADE_ON_LOAD = (LlmPrecision.FP8,)


class KvPrecision(StrEnum):
    """Number format of cached keys and values; measured rows use `bf16` for any 16 bits."""

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
        return ENGINES.get(self.value, self.value)


ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


class LlmMethod(StrEnum):
    """The weights that fine-tuning trains: all, or adapters over frozen 16-bit or 4-bit weights."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class Link(StrEnum):
    """The link between the GPUs that share a model; `none` for one GPU."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NONE = "none"


class ServingBind(StrEnum):
    """What limits a serving rate. In a step: reading the weights, reading the KV cache, arithmetic, the
    all-reduce of tensor parallelism, launching kernels, or prompts that are read between steps. Overall: GPU
    memory that holds no more sequences, or requests that arrive faster than they are answered."""

    WEIGHTS = "weights"
    KV = "kv"
    ARITHMETIC = "arithmetic"
    ALL_REDUCE = "all_reduce"
    OVERHEAD = "overhead"
    PREFILL = "prefill"
    MEMORY = "memory"
    LOAD = "load"


# Percentiles of request times that answers show and questions may limit.
PERCENTILES = (50, 90, 95, 99)
# Times of a request, as predictions and documents name them.
REQUEST_TIMES = ("ttft", "tpot", "e2e")


class StepKind(StrEnum):
    """One setting that may be changed on the chosen instance."""

    FP8 = "fp8"
    INT4 = "int4-awq"
    FP8_KV = "fp8_kv"
    TENSOR_PARALLEL = "tensor_parallel"
    REPLICA = "replica"
    DISK = "disk"
