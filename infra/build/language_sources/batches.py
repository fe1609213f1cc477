"""Readers of static batches: all sequences start together, and the whole batch is timed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from advisor.infra.build.language_sources.naming import (
    LeftOutError,
    engine_named,
    gpu_named,
    model_named,
    precision_named,
)
from advisor.infra.build.language_sources.rows import ServingRow

_BSD, _APACHE = "BSD-3-Clause", "Apache-2.0"
_LEAST_WARM_SEQUENCES = 64
# TurboMind computes first tokens of its longest prompts at batch 64 in half this time; above it, sequences
# wait for cache that others use.
_TURBOMIND_QUEUED_SECONDS = 20.0


def argonne(record: Mapping[str, str]) -> ServingRow:
    """LLM-Inference-Bench: inputs and outputs have the same length; its rates count both."""
    batch, tokens = float(record["batch"]), float(record["in_out_len"])
    gpu, engine = gpu_named(record["gpu"]), engine_named(record["engine"])
    gpus = int(record["n_gpu"])
    row = ServingRow(
        source="argonne",
        licence=_BSD,
        model=model_named(record["model"]),
        gpu=gpu,
        engine=engine,
        date="2024-08",
        precision="fp16",
        kind="static",
        input_tokens=tokens,
        output_tokens=tokens,
        tensor_parallel=gpus,
        concurrency=batch,
        output_tokens_per_second=batch * tokens / float(record["latency_s"]),
    )
    return _one_after_another(row, batch) if engine == "llama.cpp" else row


def _one_after_another(row: ServingRow, batch: float) -> ServingRow:
    """llama.cpp ran a batch's sequences one after another: the stated latency is one sequence's mean,
    including a second of warm-up in the first, which matters least at 64. Its GPUs divide the layers."""
    if batch < _LEAST_WARM_SEQUENCES:
        raise LeftOutError("llama.cpp: warming up is a large part of it")
    return row._replace(
        tensor_parallel=1,
        pipeline_parallel=row.tensor_parallel,
        concurrency=1.0,
        output_tokens_per_second=row.output_tokens_per_second / batch,
    )


def argonne_formats(record: Mapping[str, str]) -> ServingRow:
    """LLM-Inference-Bench with FP8 weights or caches on one GPU."""
    weights, cache = (part.split("= ")[1] for part in record["kv_cache_dtype"].split(","))
    if "int8" in (weights, cache):
        raise LeftOutError("8-bit integers")
    if weights == cache == "fp16":
        raise LeftOutError("again in the main table")
    plain = _argonne_names(record, "Input Output Length", "latency", "Num of Hardware")
    row = argonne(plain)
    emulated = cache == "fp8" and row.gpu.startswith("A100")
    return row._replace(
        source="argonne-formats",
        precision=precision_named(weights),
        kv_precision="fp8" if cache == "fp8" else "bf16",
        fit=0 if emulated else 1,
        flags="cache-emulated" if emulated else "",
    )


def argonne_pipelines(record: Mapping[str, str]) -> ServingRow:
    """LLM-Inference-Bench with the model split into pipeline stages."""
    split = record["Parallelism Type"]
    if split in ("TP", "Tensor Parallelism"):
        raise LeftOutError("again in the main table")
    gpus = int(record["Num of Hardware"])
    if gpus == 1:
        raise LeftOutError("again in the main table")
    tensor = 2 if split.startswith("Hyb") else 1
    row = argonne(_argonne_names(record, "Input Output Length", "Latency", "Num of Hardware"))
    return row._replace(source="argonne-pipelines", tensor_parallel=tensor, pipeline_parallel=gpus // tensor)


def argonne_first_tokens(record: Mapping[str, str]) -> ServingRow:
    """LLM-Inference-Bench: first tokens of sixteen prompts that start together."""
    row = argonne(_argonne_names(record, "Input Length", "TTFT Latency", "Num of Hardware"))
    return row._replace(
        source="argonne-first-tokens",
        output_tokens=float(record["Output Length"]),
        ttft_seconds=float(record["TTFT Latency"]),
        output_tokens_per_second=math.nan,
    )


def _argonne_names(record: Mapping[str, str], tokens: str, seconds: str, gpus: str) -> dict[str, str]:
    """A figure's record, with the column names of the main table."""
    return {
        "gpu": record["Hardware"],
        "engine": record["Framework"],
        "model": record["Model"],
        "in_out_len": record[tokens],
        "batch": record["Batch Size"],
        "n_gpu": record[gpus],
        "latency_s": record[seconds],
    }


def lmdeploy(record: Mapping[str, str]) -> ServingRow:
    """TurboMind on the A100-80GB."""
    first = float(record["ftl_avg_s"])
    queued = first > _TURBOMIND_QUEUED_SECONDS
    return ServingRow(
        source="lmdeploy",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine="lmdeploy",
        engine_version="0.1.0a1",
        date="2023-11",
        precision="fp16",
        kind="static",
        input_tokens=float(record["isl"]),
        output_tokens=float(record["osl"]),
        tensor_parallel=int(record["tp"]),
        concurrency=float(record["batch"]),
        ttft_seconds=first,
        output_tokens_per_second=float(record["output_tok_s"]),
        fit=0 if queued else 1,
        flags="queued" if queued else "",
    )


def tensorrt_batches(record: Mapping[str, str]) -> ServingRow:
    """TensorRT-LLM 0.9; the table's rate is that of one GPU."""
    tensor = int(record["tp"])
    return _tensorrt(record)._replace(
        output_tokens=float(record["osl"]),
        output_tokens_per_second=float(record["output_tok_s_per_gpu"]) * tensor,
    )


def tensorrt_first_tokens(record: Mapping[str, str]) -> ServingRow:
    """TensorRT-LLM 0.9: first token of a single prompt."""
    return _tensorrt(record)._replace(output_tokens=1.0, ttft_seconds=float(record["first_token_ms"]) / 1e3)


def _tensorrt(record: Mapping[str, str]) -> ServingRow:
    precision = precision_named(record["precision"])
    return ServingRow(
        source="tensorrt-llm-0.9",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine="trtllm",
        engine_version=record["trtllm_version"],
        date="2024-04",
        precision=precision,
        kv_precision="fp8" if precision == "fp8" else "bf16",
        kind="static",
        input_tokens=float(record["isl"]),
        output_tokens=math.nan,
        tensor_parallel=int(record["tp"]),
        concurrency=float(record["batch"]),
    )
