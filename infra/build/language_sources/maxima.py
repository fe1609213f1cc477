"""Unlimited load: the KV cache and the engine's own limit decide how much is in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from advisor.infra.build.language_sources.naming import LeftOutError, gpu_named, model_named, precision_named
from advisor.infra.build.language_sources.rows import ServingRow

_APACHE = "Apache-2.0"
_TENSORRT_DATES = {"0.17": "2025-02", "1.0": "2025-09"}
# QServe's comparison, by the caption: 1,024 tokens in, 512 out.
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
    """The tables of TensorRT-LLM 0.17 and 1.0: output tokens a second of the whole group."""
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
    """QServe's measurements of TensorRT-LLM: a row of formats, a column a model. The heads of the
    two cards' tables share columns: the device stands in the first, or in the last."""
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
