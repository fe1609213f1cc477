"""Readers of servers under load: closed loops (a constant number of requests in flight), open loops (requests
arrive at random, however many are in flight), and maximum rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from advisor.infra.build.language_sources.naming import (
    LeftOutError,
    engine_named,
    gpu_named,
    model_named,
    precision_named,
)
from advisor.infra.build.language_sources.rows import ServingRow

_APACHE = "Apache-2.0"
_MOST_GPUS_OF_A_HOST = 8
# InferenceX draws each length uniformly from 80 to 100 % of the stated length.
_MEAN_OF_DRAWN_LENGTHS = 0.9
# Longer times to first token include queueing: the engine admits fewer requests than are in flight.
_QUEUED_SECONDS = 10.0
_QUEUED_SHARE, _SHORTEST_QUEUED_SECONDS = 0.6, 2.0
_LONGEST_OF_THAT_WEEK = 3.0
# Prompts of ree2raz's regime `short` have at most 256 tokens; other regimes' lengths are not stated.
_REE2RAZ_INPUT_TOKENS = 128.0


def inferencex(record: Mapping[str, str]) -> ServingRow:
    """A row of InferenceX, or of NVIDIA's closed loops beside it."""
    gpu, engine = gpu_named(record["system"]), engine_named(record["backend"])
    model = model_named(record["model_path"])
    precision = precision_named(record["precision"], model)
    tensor, data, doubtful = _layout(record)
    if tensor * data > _MOST_GPUS_OF_A_HOST:
        raise LeftOutError("more GPUs than a host has: the layout was misread")
    own_runs = record["origin"] == "nvidia_gap"
    # In SGLang 0.5.6, first tokens take as long as a few prompts, however many are in flight.
    in_waves = own_runs and record["backend_version"] != "0.5.6.post2"
    scale = 1.0 if own_runs else _MEAN_OF_DRAWN_LENGTHS
    ttft, tpot = float(record["ttft_ms"]) / 1e3, float(record["tpot_ms"]) / 1e3
    output = float(record["osl"]) * scale
    doubts = ["layout-doubtful"] * doubtful + ["queued"] * _is_queued(ttft, tpot, output)
    doubts += [flag for flag, stands in _UNSAID.items() if stands(record, model)]
    is_held_up = not doubts and _is_held_up(record, model, ttft)
    waits = own_runs and "3.1-8B" in model and record["backend_version"] == "1.0.0rc3"
    kept = {"first-token-disturbed": is_held_up, "kv-assumed": True, "equal-lengths": in_waves and not waits}
    flags = [*doubts, *(flag for flag, stands in kept.items() if stands), *["one-waits"] * waits]
    return ServingRow(
        source="nvidia-gap" if own_runs else "inferencex",
        licence=_APACHE,
        model=model,
        gpu=gpu,
        engine=engine,
        engine_version=record["backend_version"],
        date=record["measured"],
        precision=precision,
        kv_precision=_kv_precision(engine, precision, gpu, model),
        kind="closed",
        input_tokens=float(record["isl"]) * scale,
        output_tokens=output,
        tensor_parallel=tensor,
        attention_dp=data,
        expert_parallel=max(1, int(record["moe_ep_size"] or 1)),
        # The concurrency in `nvidia_gap` is the total over all replicas of a run.
        concurrency=float(record["batch_size"]) * data,
        ttft_seconds=math.nan if is_held_up else ttft,
        tpot_seconds=tpot,
        fit=0 if doubts else 1,
        flags=" ".join(flags),
    )


def _is_held_up(record: Mapping[str, str], model: str, ttft: float) -> bool:
    """True if first tokens take longer than prompts explain. TensorRT-LLM, 70B, fewer than eight GPUs, 1,024
    tokens in and out: about twenty steps longer than the same prompts with outputs of 8,192. SGLang,
    DeepSeek-R1 in FP4 on 2025-11-10: 5 to 9 s at most loads, but 2 s a week earlier."""
    engine, day, lengths = record["backend"], record["measured"], (record["isl"], record["osl"])
    if engine == "trtllm" and "70B" in model and day.startswith("2025-10"):
        return lengths == ("1024", "1024") and int(record["tp_size"]) < 8
    of_that_day = (engine, day, record["precision"]) == ("sglang", "2025-11-10", "fp4")
    return of_that_day and "R1" in model and ttft > _LONGEST_OF_THAT_WEEK


def _is_speculative(record: Mapping[str, str], model: str) -> bool:
    """True if a run used DeepSeek's draft tokens: its steps take half as long as in runs some days earlier
    whose published settings are the same."""
    version = record["backend_version"]
    return model == "deepseek-ai/DeepSeek-R1" and (
        version == "1.2.0rc6.post3" or (version == "1.1.0rc2.post2" and record["measured"] >= "2026-01-14")
    )


def _is_of_vllm_0_12_on_h200(record: Mapping[str, str]) -> bool:
    return (record["origin"], record["backend_version"], record["system"], record["backend"]) == (
        "nvidia_gap",
        "0.12.0",
        "h200_sxm",
        "vllm",
    )


def _has_cached_prompts(record: Mapping[str, str], model: str) -> bool:
    """True if most prompts were cached: computing them besides the steps would take up to the GPU's peak."""
    return _is_of_vllm_0_12_on_h200(record) and "8B" in model


def _is_eager(record: Mapping[str, str], model: str) -> bool:
    """True if kernels are launched one by one: a step takes as long with 4 sequences as with 28, and three
    times as long as in SGLang."""
    return _is_of_vllm_0_12_on_h200(record) and "235B" in model


# Flags of runs that the table does not state, but that follow from its figures.
_UNSAID: Mapping[str, Callable[[Mapping[str, str], str], bool]] = {
    "speculative": _is_speculative,
    "prompts-cached": _has_cached_prompts,
    "eager": _is_eager,
}


def _layout(record: Mapping[str, str]) -> tuple[int, int, bool]:
    """Tensor and attention-data parallelism, and whether the table contradicts itself."""
    tensor = int(record["tp_size"])
    if record["attention_dp_size"]:
        return tensor, int(record["attention_dp_size"]), False
    experts = max(1, int(record["moe_tp_size"] or 1)) * max(1, int(record["moe_ep_size"] or 1))
    in_flight = record["concurrency"] or record["batch_size"]
    return tensor, max(1, experts // tensor), experts > tensor or in_flight != record["batch_size"]


def _is_queued(ttft: float, tpot: float, output: float) -> bool:
    share = ttft / (ttft + output * tpot)
    return ttft > _QUEUED_SECONDS or (share > _QUEUED_SHARE and ttft > _SHORTEST_QUEUED_SECONDS)


def _kv_precision(engine: str, precision: str, gpu: str, model: str) -> str:
    """The KV cache's precision, which the tables do not state. TensorRT-LLM's 8- and 4-bit checkpoints have
    an FP8 cache. Otherwise figures show it: on Blackwell, and for the 70B in vLLM, more sequences ran without
    waiting than fit in a 16-bit cache, and gpt-oss read it faster than memory allows."""
    if engine == "trtllm":
        return "fp8" if precision in ("fp8", "nvfp4") else "bf16"
    small = precision in ("fp8", "nvfp4", "mxfp4")
    shown = _is_blackwell(gpu) or (engine == "vllm" and "70B" in model)
    return "fp8" if small and shown else "bf16"


def _is_blackwell(gpu: str) -> bool:
    return gpu.startswith(("B200", "B300", "GB200", "GB300"))


def small_gpus(record: Mapping[str, str]) -> ServingRow:
    """A10G, L4 and A100-40GB in closed loops that two people measured."""
    return _llmperf(record) if record["source"].startswith("philschmid") else _ree2raz(record)


def _llmperf(record: Mapping[str, str]) -> ServingRow:
    """llmperf divides an answer's whole duration by its tokens, including the first. Answers of Yi were not
    streamed, so only their whole duration is known."""
    engine, _, version = record["engine"].partition(" ")
    tokens, each = float(record["osl"]), float(record["itl_ms"]) / 1e3
    rate, ttft = float(record["output_tok_s"]), float(record["ttft_ms"]) / 1e3
    streamed = not record["model"].startswith("Yi")
    return ServingRow(
        source="philschmid-llmperf",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine=engine_named(engine),
        engine_version=version,
        date="2024-06",
        precision=precision_named(record["precision"]),
        kind="closed",
        input_tokens=float(record["isl"]),
        output_tokens=tokens,
        tensor_parallel=int(record["tp"]),
        concurrency=_in_flight(rate, each),
        ttft_seconds=ttft if streamed else math.nan,
        tpot_seconds=(tokens * each - ttft) / (tokens - 1) if streamed else math.nan,
        output_tokens_per_second=rate,
        flags="" if streamed else "not-streamed",
    )


def _in_flight(tokens_per_second: float, seconds_per_token: float) -> float:
    """The mean number in flight by Little's law, rounded; short runs begin and end with fewer requests than
    they have clients."""
    return max(1.0, round(tokens_per_second * seconds_per_token))


def _ree2raz(record: Mapping[str, str]) -> ServingRow:
    if record["precision"] == "?":
        raise LeftOutError("format not stated (its rates are those of the rows in AWQ)")
    if record["regime"] != "short":
        raise LeftOutError("prompt length not stated")
    doubts = ["gpu-doubtful"] * ("/80GB" in record["gpu"])
    gpu = gpu_named("A100-40GB" if "A100" in record["gpu"] else record["gpu"])
    version = record["engine_version"].partition("-")[2].lstrip("v")
    ttft, tpot = float(record["ttft_ms"]) / 1e3, float(record["itl_ms"]) / 1e3
    tokens, rate = float(record["osl"]), float(record["output_tok_s"])
    return ServingRow(
        source="ree2raz",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu,
        engine="sglang" if "sglang" in record["engine"] else "vllm",
        engine_version="" if version == "latest" else version,
        date="2026",
        precision=precision_named(record["precision"]),
        kind="closed",
        input_tokens=_REE2RAZ_INPUT_TOKENS,
        output_tokens=tokens,
        concurrency=_in_flight(rate, (ttft + (tokens - 1) * tpot) / tokens),
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        output_tokens_per_second=rate,
        fit=0 if doubts else 1,
        flags=" ".join([*doubts, "input-assumed"]),
    )


# Requests per second up to which first tokens on several RTX 4090 take longer than at higher rates.
_SLOW_FIRST_REQUESTS = 4.0


def tensorrt_open(record: Mapping[str, str]) -> ServingRow:
    """TensorRT-LLM 0.14; times are in whole milliseconds, rates have one or two digits."""
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
    """vLLM 0.8.5 on two hundred conversations of ShareGPT; several GPUs are connected by PCIe. On several RTX
    4090, the lowest rates have the longest first tokens, by seconds. Prompts do not explain that, so these
    times are not used."""
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


_TENSORRT_DATES = {"0.17": "2025-02", "1.0": "2025-09"}
# QServe's comparison; by its caption, 1,024 tokens in and 512 out.
_QSERVE_TOKENS = (1024.0, 512.0)
_QSERVE_FORMATS = {"TRT-LLM-FP16": "fp16", "TRT-LLM-W4A16": "int4-awq"}
_QSERVE_MODELS = {
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "Mistral-7B": "mistralai/Mistral-7B-v0.1",
    "Llama-2-13B": "meta-llama/Llama-2-13b-hf",
    "Yi-34B": "01-ai/Yi-1.5-34B",
    "Llama-2-70B": "meta-llama/Llama-2-70b-hf",
}


def tensorrt_maximum(record: Mapping[str, str]) -> ServingRow:
    """Tables of TensorRT-LLM 0.17 and 1.0: output tokens per second of the whole group of GPUs."""
    precision = precision_named(record["precision"])
    version = record["trtllm_version"]
    return ServingRow(
        source=f"tensorrt-llm-{version}",
        licence=_APACHE,
        model=model_named(record["model"]),
        gpu=gpu_named(record["gpu"]),
        engine="trtllm",
        engine_version=version,
        date=_TENSORRT_DATES.get(version, ""),
        precision=precision,
        kv_precision="bf16" if precision in ("fp16", "bf16") else "fp8",
        kind="maximum",
        input_tokens=float(record["isl"]),
        output_tokens=float(record["osl"]),
        tensor_parallel=int(record["tp"]),
        pipeline_parallel=int(record["pp"]),
        output_tokens_per_second=float(record["output_tok_s"]),
    )


def qserve(record: Mapping[str, str]) -> Iterator[ServingRow]:
    """QServe's measurements of TensorRT-LLM: a row per format, a column per model. The tables of the two GPUs
    are merged: rows of the A100 have the format in the first column, rows of the L40S in the last."""
    device = "A100-SXM4-80GB" if record["A100 (80G)"] else "L40S"
    name = record["A100 (80G)"] or record["L40S (48G)"]
    if name not in _QSERVE_FORMATS:
        raise LeftOutError("formats of four bits with integer activations, and ratios")
    for column, model in _QSERVE_MODELS.items():
        if record[column].replace(".", "").isdigit():
            yield ServingRow(
                source="qserve",
                licence=_APACHE,
                model=model,
                gpu=device,
                engine="trtllm",
                date="2024-05",
                precision=_QSERVE_FORMATS[name],
                kind="maximum",
                input_tokens=_QSERVE_TOKENS[0],
                output_tokens=_QSERVE_TOKENS[1],
                output_tokens_per_second=float(record[column]),
            )
