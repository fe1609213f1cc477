"""Open loops: requests arrive at random at an offered rate, whatever is still in flight."""

from __future__ import annotations

import math
from collections.abc import Mapping

from advisor.infra.build.language_sources.naming import gpu_named, model_named, precision_named
from advisor.infra.build.language_sources.rows import ServingRow

_APACHE = "Apache-2.0"
# Requests a second up to which first tokens on several RTX 4090 take longer than above.
_SLOW_FIRST_REQUESTS = 4.0


def tensorrt_open(record: Mapping[str, str]) -> ServingRow:
    """TensorRT-LLM 0.14; milliseconds are whole ones, rates of one digit or two."""
    return ServingRow(
        source="tensorrt-llm-0.14",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine="trtllm",
        engine_version=record["trtllm_version"],
        date="2024-11",
        precision=precision_named(record["precision"]),
        kind="open",
        input_tokens=float(record["isl"]),
        output_tokens=float(record["osl"]),
        tensor_parallel=int(record["tp"]),
        requests_per_second_offered=float(record["qps_offered"]),
        requests=float(record["n_requests"]),
        ttft_seconds=float(record["mean_ttft_ms"]) / 1e3,
        tpot_seconds=float(record["mean_itl_ms"]) / 1e3,
        output_tokens_per_second=float(record["output_tok_s"]),
        requests_per_second=float(record["req_s"]),
    )


def iog(record: Mapping[str, str]) -> ServingRow:
    """vLLM 0.8.5, two hundred conversations of ShareGPT; several cards reach each other by PCIe.
    On several RTX 4090 the slowest arrivals have the longest first tokens, by seconds: that is no
    prompt's time, so it is not taken."""
    requests = float(record["completed"])
    cards = int(record["n_gpu"])
    offered = float(record["qps_offered"])
    slow_first = "4090" in record["gpu"] and cards > 1 and offered <= _SLOW_FIRST_REQUESTS
    return ServingRow(
        source="iog",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine="vllm",
        engine_version=record["engine"].partition(" ")[2],
        date="2025-05",
        precision="bf16",
        kind="open",
        input_tokens=float(record["total_input_tokens"]) / requests,
        output_tokens=float(record["total_output_tokens"]) / requests,
        tensor_parallel=cards,
        requests_per_second_offered=offered,
        requests=requests,
        ttft_seconds=math.nan if slow_first else float(record["mean_ttft_ms"]) / 1e3,
        tpot_seconds=float(record["mean_tpot_ms"]) / 1e3,
        output_tokens_per_second=float(record["output_throughput"]),
        requests_per_second=float(record["request_throughput"]),
        flags="first-token-disturbed" if slow_first else "",
    )
