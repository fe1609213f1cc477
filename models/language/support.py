"""Formats of weights and of the KV cache that each engine supports on each GPU.

Compute capabilities: 7.0 V100, 7.5 T4, 8.0 A100, 8.6 A10G, 8.9 L4 and L40S, 9.0 H100 and H200, 10.0 B200,
10.3 B300, 12.0 RTX PRO 6000. Sources: NVIDIA's tuning guides by architecture (no bf16 before 8.0, fp8 matrix
units from 8.9 on, fp4 from 10.0 on), and the tables of supported formats in the documentation of vLLM,
SGLang, TensorRT-LLM and llama.cpp (2026).

Seconds until an engine serves are fitted on Run:ai's benchmark (infra/build/language_sources/model_loads.csv:
15 GB to an A10G from two EBS disks): a load is as long as its bytes over the slower of the disk and of what
the GPUs' processes take in. Not counted: renting the machine, booting it and pulling the container image."""

from __future__ import annotations

import math
from typing import NamedTuple

from advisor.domain.words import KvPrecision, LlmEngine, LlmPrecision
from advisor.messages import Message
from advisor.models.language.deployments import GpuFacts
from advisor.models.language.language_model import LanguageModel

TURING, AMPERE, ADA, HOPPER, BLACKWELL = 7.5, 8.0, 8.9, 9.0, 10.0
# The oldest GPU that an engine's releases of 2026 are built for.
_OLDEST = {
    LlmEngine.VLLM: TURING,
    LlmEngine.SGLANG: TURING,
    LlmEngine.TRTLLM: AMPERE,
    LlmEngine.LLAMA_CPP: 5.0,
}
# From which GPU on there are kernels (Marlin, Triton) that unpack weights to 16 bits, where the GPU
# has no units for their format.
_MARLIN = {
    LlmPrecision.INT4_AWQ: TURING,
    LlmPrecision.FP8: TURING,
    LlmPrecision.NVFP4: AMPERE,
    LlmPrecision.MXFP4: AMPERE,
}
_UNPACKED_FROM = {
    LlmEngine.VLLM: _MARLIN,
    LlmEngine.SGLANG: _MARLIN,
    LlmEngine.TRTLLM: {LlmPrecision.INT4_AWQ: AMPERE, LlmPrecision.MXFP4: HOPPER},
}


def supported(
    precision: LlmPrecision,
    kv_precision: KvPrecision,
    engine: LlmEngine,
    gpu: GpuFacts,
    model: LanguageModel | None = None,
) -> Message | None:
    """The reason why the engine cannot serve weights and KV of these formats on the GPU; None where it can.

    `model` decides where only some models have a format."""
    return (
        _of_gpu(engine, gpu)
        or _of_weights(precision, engine, gpu)
        or _of_llama_cpp(precision, kv_precision, engine, model)
        or _of_kv(kv_precision, engine, gpu)
    )


def weight_only(precision: LlmPrecision, gpu: GpuFacts) -> bool:
    """True if the GPU has no units for this format, so that weights take less room and bandwidth, and the
    arithmetic is that of 16 bits.

    So it is with fp8 before Ada (A100, A10G, T4), with 4-bit floats before Blackwell, and with 4-bit integers
    on every GPU."""
    if precision == LlmPrecision.FP8:
        return gpu.compute_capability < ADA
    if precision in (LlmPrecision.NVFP4, LlmPrecision.MXFP4):
        return gpu.compute_capability < BLACKWELL
    return precision == LlmPrecision.INT4_AWQ


def _of_gpu(engine: LlmEngine, gpu: GpuFacts) -> Message | None:
    if gpu.vendor != "NVIDIA" or not gpu.compute_capability:
        return Message("{engine} is modelled on NVIDIA's GPUs alone", engine=engine.product)
    if gpu.compute_capability < _OLDEST[engine]:
        return Message(
            "{engine} starts at compute capability {oldest}, and {gpu} has {capability}",
            engine=engine.product,
            oldest=_OLDEST[engine],
            gpu=gpu.name,
            capability=gpu.compute_capability,
        )
    return None


def _of_weights(precision: LlmPrecision, engine: LlmEngine, gpu: GpuFacts) -> Message | None:
    if precision == LlmPrecision.BF16 and gpu.compute_capability < AMPERE:
        return Message("{gpu} has no bf16; take fp16", gpu=gpu.name)
    if engine == LlmEngine.LLAMA_CPP or not weight_only(precision, gpu):
        return None
    oldest = _UNPACKED_FROM[engine].get(precision)
    if oldest is not None and gpu.compute_capability >= oldest:
        return None
    return Message(
        "{engine} has no kernels for {precision} weights on {gpu}",
        engine=engine.product,
        precision=precision.value,
        gpu=gpu.name,
    )


def _of_llama_cpp(
    precision: LlmPrecision, kv_precision: KvPrecision, engine: LlmEngine, model: LanguageModel | None
) -> Message | None:
    """GGUF's formats: 16 bits, Q4_K_M (for `int4-awq`), and MXFP4 of gpt-oss's experts."""
    if engine != LlmEngine.LLAMA_CPP:
        return None
    of_others = model is not None and model.family != "gpt_oss" and precision == LlmPrecision.MXFP4
    if precision in (LlmPrecision.FP8, LlmPrecision.NVFP4) or of_others:
        return Message("llama.cpp has no {precision}; take int4-awq (its Q4_K_M)", precision=precision.value)
    if kv_precision == KvPrecision.FP8:
        return Message("llama.cpp keeps no fp8 keys and values")
    return None


def _of_kv(kv_precision: KvPrecision, engine: LlmEngine, gpu: GpuFacts) -> Message | None:
    if kv_precision == KvPrecision.BF16 and gpu.compute_capability < AMPERE:
        return Message("{gpu} has no bf16; take fp16", gpu=gpu.name)
    if kv_precision != KvPrecision.FP8:
        return None
    # vLLM's attention converts fp8 KV from Ampere on; TensorRT-LLM's has it from Ada on.
    oldest = ADA if engine == LlmEngine.TRTLLM else AMPERE
    if gpu.compute_capability >= oldest:
        return None
    return Message(
        "{engine} has fp8 keys and values from compute capability {oldest} on, not on {gpu}",
        engine=engine.product,
        oldest=oldest,
        gpu=gpu.name,
    )


# The share of a disk's rate that reads reach, several streams at once, and the MiB/s that the process of one
# GPU takes in: less than the streams bring (312 each from a network disk, of 16 or so).
DISK_SHARE, PROCESS_MIB_PER_SECOND = 0.97, 1900.0
# Loads lay within this of the formula: 23 % for one of 21 rows, 15 % for the others.
_LOAD_DOUBT = 0.15


class Seconds(NamedTuple):
    """Lower bound, median and upper bound."""

    lower: float
    median: float
    upper: float

    def plus(self, other: Seconds) -> Seconds:
        """The sum of two durations; bounds add up, as if both went well or both badly."""
        return Seconds(*(seconds + more for seconds, more in zip(self, other, strict=True)))


# vLLM 0.5.5 on an A10G, start to ready less the load: 15.7 to 20.8 s. Since 0.6 engines compile
# kernels at their first start: vLLM 0.20 had read 15 GB and was ready 131 s after its container
# began (ree2raz/inference-bench, A100-40GB), which is the most that a start is taken to last.
START = Seconds(15.7, 20.0, 110.0)


def load_seconds(weights_mib: float, disk_mib_per_second: float = math.inf, gpus: int = 1) -> Seconds:
    """Seconds to read weights that the processes of `gpus` GPUs share, by several streams at once (vLLM's
    `--load-format runai_streamer`). `disk_mib_per_second` is the lower of the volume's and the instance's
    sustained limit."""
    median = weights_mib / min(disk_mib_per_second * DISK_SHARE, PROCESS_MIB_PER_SECOND * gpus)
    return Seconds(median * (1 - _LOAD_DOUBT), median, median * (1 + _LOAD_DOUBT))
