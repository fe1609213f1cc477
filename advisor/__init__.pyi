"""The Python API, with types.

Written by `python -m advisor.infra.build.documents`, out of the questions.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, overload

from advisor.api.modules import ModelConfig, Module

from advisor.api.functions import networks as networks
from advisor.api.functions import objective as objective
from advisor.api.functions import Objective as Objective
from advisor.api.modules import network as network
from advisor.api.measuring import anchor as anchor
from advisor.api.measuring import measure as measure
from advisor.api.measuring import Measuring as Measuring
from advisor.api.answers import Answer as Answer
from advisor.api.answers import Recommendation as Recommendation
from advisor.api.answers import Prediction as Prediction
from advisor.api.answers import Comparison as Comparison
from advisor.api.answers import Memory as Memory
from advisor.api.answers import Listing as Listing
from advisor.api.answers import Record as Record
from advisor.errors import AdvisorError as AdvisorError
from advisor.errors import UsageError as UsageError
from advisor.errors import NoOfferError as NoOfferError
from advisor.errors import NoIntervalError as NoIntervalError
from advisor.errors import StalePriceError as StalePriceError
from advisor.errors import DataError as DataError
from advisor.errors import MeasuringError as MeasuringError
from advisor.errors import LiveError as LiveError

@overload
def recommend(
    *,
    task: Literal['training', 'inference', 'preprocessing'],
    model: str | Module,
    batch_size: int | None = None,
    precision: Literal['fp32', 'amp', 'bf16', 'fp16', 'auto'] | None = None,
    input: str | None = None,
    stack: Literal['eager', 'compile'] | None = None,
    memory_format: Literal['contiguous', 'channels_last', 'auto'] | None = None,
    tf32: Literal['convolutions', 'on', 'off'] | None = None,
    dataset: str | None = None,
    data_format: Literal['files', 'tar', 'recordio', 'lmdb'] | None = None,
    dataset_samples: int | None = None,
    steps: int | None = None,
    protocol: Literal['script', 'bench'] | None = None,
    guidance: bool | None = None,
    confidence: float | None = None,
    max_gpus: int | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible', 'any'] = 'on-demand',
    anchor: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    epochs: float | None = None,
    samples: int | None = None,
    start_minutes: float | None = None,
    target_throughput: float | None = None,
    max_latency_ms: float | None = None,
    max_hours: float | None = None,
    max_cost: float | None = None,
    max_first_epoch_hours: float | None = None,
    accelerated_only: bool = False,
    max_count: int | None = None,
    max_nodes: int = 1,
    explain: bool = False,
    pareto: bool = False,
    live: bool = False,
    price_kind: str | float | Sequence[str] | None = None,
    gpu: str | float | Sequence[str] | None = None,
    vcpus: str | float | Sequence[str] | None = None,
    memory: str | float | Sequence[str] | None = None,
    max_price: float | None = None,
    quota: str | None = None,
    max_results: int | None = None,
    horizon_hours: float = 730.0,
    explain_rejected: bool = False,
    strict: bool = False,
    allow_extrapolation: bool = False,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Recommendation:
    """The cheapest instance and disk that will really reach a throughput."""
@overload
def recommend(
    *,
    task: Literal['generation'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    precision: Literal['bf16', 'fp16', 'fp8', 'int4-awq', 'nvfp4', 'mxfp4'] | None = None,
    kv_precision: Literal['bf16', 'fp16', 'fp8'] | None = None,
    engine: Literal['vllm', 'sglang', 'trtllm', 'llama.cpp'] = 'vllm',
    tensor_parallel: int | Literal['auto'] | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    traffic: str | None = None,
    images_per_request: float | None = None,
    image_size: str | float | Sequence[str] | None = None,
    prefix_share: float | None = None,
    anchor: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    confidence: float | None = None,
    target_requests_per_s: float | None = None,
    users: int | None = None,
    burstiness: float = 1.0,
    think_seconds: float = 0.0,
    api_usd_per_million: str | float | Sequence[str] | None = None,
    draft_acceptance: str | float | Sequence[str] | None = None,
    draft_model: str | ModelConfig | None = None,
    target_throughput: float | None = None,
    max_ttft_ms: float | str | None = None,
    max_tpot_ms: float | str | None = None,
    max_e2e_s: float | str | None = None,
    max_context: int | None = None,
    max_ready_s: float | None = None,
    max_count: int = 8,
    explain: bool = False,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible', 'any'] = 'on-demand',
    price_kind: str | float | Sequence[str] | None = None,
    gpu: str | float | Sequence[str] | None = None,
    vcpus: str | float | Sequence[str] | None = None,
    memory: str | float | Sequence[str] | None = None,
    max_price: float | None = None,
    quota: str | None = None,
    max_gpus: int | None = None,
    max_results: int | None = None,
    horizon_hours: float = 730.0,
    explain_rejected: bool = False,
    strict: bool = False,
    allow_extrapolation: bool = False,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Recommendation:
    ...
@overload
def recommend(
    *,
    task: Literal['finetuning'],
    tokens: float,
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    method: Literal['full', 'lora', 'qlora'] = 'lora',
    sequence: int = 2048,
    micro_batch: int | None = None,
    protocol: Literal['script', 'bench'] = 'script',
    start_minutes: float | None = None,
    confidence: float | None = None,
    max_hours: float | None = None,
    max_cost: float | None = None,
    target_throughput: float | None = None,
    explain: bool = False,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible', 'any'] = 'on-demand',
    price_kind: str | float | Sequence[str] | None = None,
    gpu: str | float | Sequence[str] | None = None,
    vcpus: str | float | Sequence[str] | None = None,
    memory: str | float | Sequence[str] | None = None,
    max_price: float | None = None,
    quota: str | None = None,
    max_gpus: int | None = None,
    max_results: int | None = None,
    horizon_hours: float = 730.0,
    explain_rejected: bool = False,
    strict: bool = False,
    allow_extrapolation: bool = False,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Recommendation:
    ...
@overload
def predict(
    *,
    task: Literal['training', 'inference', 'preprocessing'],
    model: str | Module,
    batch_size: int | None = None,
    precision: Literal['fp32', 'amp', 'bf16', 'fp16', 'auto'] | None = None,
    input: str | None = None,
    stack: Literal['eager', 'compile'] | None = None,
    memory_format: Literal['contiguous', 'channels_last', 'auto'] | None = None,
    tf32: Literal['convolutions', 'on', 'off'] | None = None,
    dataset: str | None = None,
    data_format: Literal['files', 'tar', 'recordio', 'lmdb'] | None = None,
    dataset_samples: int | None = None,
    steps: int | None = None,
    protocol: Literal['script', 'bench'] | None = None,
    guidance: bool | None = None,
    confidence: float | None = None,
    max_gpus: int | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    anchor: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    epochs: float | None = None,
    samples: int | None = None,
    start_minutes: float | None = None,
    target_throughput: float | None = None,
    max_latency_ms: float | None = None,
    max_price: float | None = None,
    instance: str | None = None,
    gpu: str | None = None,
    vcpus: int | None = None,
    memory: str | float | Sequence[str] | None = None,
    explain: bool = False,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Prediction:
    """The throughput of one instance or GPU, with its interval and its bottleneck."""
@overload
def predict(
    *,
    task: Literal['generation'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    precision: Literal['bf16', 'fp16', 'fp8', 'int4-awq', 'nvfp4', 'mxfp4'] | None = None,
    kv_precision: Literal['bf16', 'fp16', 'fp8'] | None = None,
    engine: Literal['vllm', 'sglang', 'trtllm', 'llama.cpp'] = 'vllm',
    tensor_parallel: int | Literal['auto'] | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    traffic: str | None = None,
    images_per_request: float | None = None,
    image_size: str | float | Sequence[str] | None = None,
    prefix_share: float | None = None,
    anchor: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    confidence: float | None = None,
    target_requests_per_s: float | None = None,
    users: int | None = None,
    burstiness: float = 1.0,
    think_seconds: float = 0.0,
    api_usd_per_million: str | float | Sequence[str] | None = None,
    draft_acceptance: str | float | Sequence[str] | None = None,
    draft_model: str | ModelConfig | None = None,
    instance: str | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    max_ttft_ms: float | str | None = None,
    max_tpot_ms: float | str | None = None,
    max_e2e_s: float | str | None = None,
    max_price: float | None = None,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Prediction:
    ...
@overload
def predict(
    *,
    task: Literal['finetuning'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    method: Literal['full', 'lora', 'qlora'] = 'lora',
    sequence: int = 2048,
    micro_batch: int | None = None,
    protocol: Literal['script', 'bench'] = 'script',
    tokens: float = 1000000.0,
    start_minutes: float | None = None,
    confidence: float | None = None,
    instance: str | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    max_hours: float | None = None,
    max_cost: float | None = None,
    max_price: float | None = None,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Prediction:
    ...
@overload
def compare(
    *,
    task: Literal['training', 'inference', 'preprocessing'],
    model: str | Module,
    batch_size: int | None = None,
    precision: Literal['fp32', 'amp', 'bf16', 'fp16', 'auto'] | None = None,
    input: str | None = None,
    stack: Literal['eager', 'compile'] | None = None,
    memory_format: Literal['contiguous', 'channels_last', 'auto'] | None = None,
    tf32: Literal['convolutions', 'on', 'off'] | None = None,
    dataset: str | None = None,
    data_format: Literal['files', 'tar', 'recordio', 'lmdb'] | None = None,
    dataset_samples: int | None = None,
    steps: int | None = None,
    protocol: Literal['script', 'bench'] | None = None,
    guidance: bool | None = None,
    confidence: float | None = None,
    max_gpus: int | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    epochs: float | None = None,
    samples: int | None = None,
    start_minutes: float | None = None,
    target_throughput: float | None = None,
    max_latency_ms: float | None = None,
    max_price: float | None = None,
    instance: str | Sequence[str] | None = None,
    gpu: str | float | Sequence[str] | None = None,
    baseline: str | None = None,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Comparison:
    """Instances, or GPUs by themselves, against a baseline; `model` may be several networks."""
@overload
def compare(
    *,
    task: Literal['generation'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    precision: Literal['bf16', 'fp16', 'fp8', 'int4-awq', 'nvfp4', 'mxfp4'] | None = None,
    kv_precision: Literal['bf16', 'fp16', 'fp8'] | None = None,
    engine: Literal['vllm', 'sglang', 'trtllm', 'llama.cpp'] = 'vllm',
    tensor_parallel: int | Literal['auto'] | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    traffic: str | None = None,
    images_per_request: float | None = None,
    image_size: str | float | Sequence[str] | None = None,
    prefix_share: float | None = None,
    anchor: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    confidence: float | None = None,
    target_requests_per_s: float | None = None,
    users: int | None = None,
    burstiness: float = 1.0,
    think_seconds: float = 0.0,
    api_usd_per_million: str | float | Sequence[str] | None = None,
    draft_acceptance: str | float | Sequence[str] | None = None,
    draft_model: str | ModelConfig | None = None,
    instance: str | Sequence[str] | None = None,
    baseline: str | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    max_ttft_ms: float | str | None = None,
    max_tpot_ms: float | str | None = None,
    max_e2e_s: float | str | None = None,
    max_price: float | None = None,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Comparison:
    ...
@overload
def compare(
    *,
    task: Literal['finetuning'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    method: str | float | Sequence[str] = 'lora',
    sequence: int = 2048,
    micro_batch: int | None = None,
    protocol: Literal['script', 'bench'] = 'script',
    tokens: float = 1000000.0,
    start_minutes: float | None = None,
    confidence: float | None = None,
    instance: str | Sequence[str] | None = None,
    baseline: str | None = None,
    disk: str | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    max_hours: float | None = None,
    max_cost: float | None = None,
    max_price: float | None = None,
    performance_model: str | PathLike[str] | None = None,
    cny_per_usd: float | None = None,
) -> Comparison:
    ...
@overload
def memory(
    *,
    model: str | Module,
    task: Literal['training', 'inference'] = 'training',
    batch_size: int = 32,
    precision: Literal['fp32', 'amp', 'bf16', 'fp16', 'auto'] | None = None,
    optimizer: Literal['sgd', 'momentum', 'adam'] | None = None,
    checkpointing: bool = False,
    keep_graph: bool = False,
    input_size: int | None = None,
    input: str | None = None,
    gpu: str | float | Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Memory:
    """Peak GPU memory and its parts, the GPUs that it fits, and the largest batch on each."""
@overload
def memory(
    *,
    task: Literal['generation'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    precision: Literal['bf16', 'fp16', 'fp8', 'int4-awq', 'nvfp4', 'mxfp4'] | None = None,
    kv_precision: Literal['bf16', 'fp16', 'fp8'] | None = None,
    engine: Literal['vllm', 'sglang', 'trtllm', 'llama.cpp'] = 'vllm',
    tensor_parallel: int | Literal['auto'] | None = None,
    max_context: int | None = None,
    gpu: str | float | Sequence[str] | None = None,
) -> Memory:
    ...
@overload
def memory(
    *,
    task: Literal['finetuning'],
    model: str | ModelConfig | None = None,
    config: str | PathLike[str] | None = None,
    method: Literal['full', 'lora', 'qlora'] = 'lora',
    sequence: int = 2048,
    micro_batch: int | None = None,
    gpu: str | float | Sequence[str] | None = None,
) -> Memory:
    ...
def gpus(
    *,
    gpu: str | float | Sequence[str] | None = None,
    cloud: str = 'aws',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible'] = 'on-demand',
    sort_by: Literal['usd_per_gpu_hour', 'usd_per_fp32_tflop_hour', 'memory_mib', 'memory_gb_per_second', 'fp32_tflops', 'fp16_tflops', 'name'] = 'usd_per_gpu_hour',
) -> Answer:
    """GPUs by rate, memory, bandwidth, link, power and price."""
def offers(
    *,
    cloud: str = 'any',
    region: str | None = None,
    market: Literal['on-demand', 'spot', 'commitment-1y', 'commitment-3y', 'commitment-1y-convertible', 'commitment-3y-convertible', 'any'] = 'any',
    gpu: str | float | Sequence[str] | None = None,
    vcpus: str | float | Sequence[str] | None = None,
    memory: str | float | Sequence[str] | None = None,
    instance: str | Sequence[str] | None = None,
    max_price: float | None = None,
    cny_per_usd: float | None = None,
) -> Answer:
    """Priced offers, cheapest first; `str()` has the first 40."""
