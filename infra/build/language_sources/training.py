"""Makes training.csv.gz: `python -m advisor.infra.build.language_sources.training --data DIR`, in the
repository.

DIR holds the public tables named in SOURCES.md. Needed only when a source is added: the compact rows are
committed. Models with recurrent or sparse layers, 4-bit training and runs that drop tokens are left out."""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.infra.build.language_sources.naming import gpu_named
from advisor.infra.build.language_sources.rows import TRAINING_PATH, TrainingRow, write_table

_APACHE, _BSD = "Apache-2.0", "BSD-3-Clause"


class _Sizes(NamedTuple):
    """A decoder's sizes, in the order of the row's columns."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: int
    vocab: int
    tied: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0


def _gpt(layers: int, hidden: int, heads: int, vocab: int, tied: int = 1) -> _Sizes:
    """A decoder like GPT-3's: no gate, an inner size of four hidden sizes, and one KV head per head."""
    return _Sizes(layers, hidden, heads, heads, hidden // heads, 4 * hidden, 0, vocab, tied)


# MPT: llm-foundry's configurations; their totals are within 0.2 % of the source's `NumParams`.
_MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
_LLAMA_2_7B, _LLAMA_2_70B = "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-70b-hf"
_LLAMA_8B, _LLAMA_70B = "meta-llama/Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-70B"
_LLAMA_3B = "meta-llama/Llama-3.2-3B"
_LLAMA_405B = "meta-llama/Meta-Llama-3.1-405B"
_SIZES: Mapping[str, _Sizes] = {
    **{f"mosaicml/mpt-{name}": _gpt(*sizes, vocab=50368) for name, sizes in _MPT.items()},
    _LLAMA_2_7B: _Sizes(32, 4096, 32, 32, 128, 11008, 1, 32000, 0),
    _LLAMA_2_70B: _Sizes(80, 8192, 64, 8, 128, 28672, 1, 32000, 0),
    _LLAMA_3B: _Sizes(28, 3072, 24, 8, 128, 8192, 1, 128256, 1),
    _LLAMA_8B: _Sizes(32, 4096, 32, 8, 128, 14336, 1, 128256, 0),
    _LLAMA_70B: _Sizes(80, 8192, 64, 8, 128, 28672, 1, 128256, 0),
    _LLAMA_405B: _Sizes(126, 16384, 128, 8, 128, 53248, 1, 128256, 0),
    "01-ai/Yi-1.5-34B": _Sizes(60, 7168, 56, 8, 128, 20480, 1, 64000, 0),
    "openai/gpt-oss-120b": _Sizes(36, 2880, 64, 8, 64, 2880, 1, 201088, 0, 128, 4, 2880),
    "Qwen/Qwen3-30B-A3B": _Sizes(48, 2048, 32, 4, 128, 6144, 1, 151936, 0, 128, 8, 768),
    "Qwen/Qwen3-235B-A22B": _Sizes(94, 4096, 64, 4, 128, 12288, 1, 151936, 0, 128, 8, 1536),
    "nvidia/gpt3-5b": _Sizes(24, 4096, 32, 32, 128, 16384, 0, 51200, 1),
    "nvidia/gpt3-20b": _gpt(44, 6144, 48, 51200),
    "nvidia/gpt3-175b": _gpt(96, 12288, 96, 51200),
    "nvidia/nemotron-8b": _gpt(32, 4096, 32, 256000, tied=0),
    "nvidia/nemotron-22b": _gpt(40, 6144, 48, 256000, tied=0),
    "nvidia/nemotron-340b": _Sizes(96, 18432, 96, 8, 192, 73728, 0, 256000, 0),
}
_NVIDIA_NAMES = {
    "LLAMA2-7B": _LLAMA_2_7B,
    "LLAMA2-70B": _LLAMA_2_70B,
    "LLAMA3_8B": _LLAMA_8B,
    "LLAMA3-8B": _LLAMA_8B,
    "LLAMA3_70B": _LLAMA_70B,
    "LLAMA3-70B": _LLAMA_70B,
    "LLAMA3.1_405B": _LLAMA_405B,
    "GPT OSS 120B": "openai/gpt-oss-120b",
    "Qwen3_30B_a3B": "Qwen/Qwen3-30B-A3B",
    "Qwen3_235B_a22B": "Qwen/Qwen3-235B-A22B",
    "GPT3-5B": "nvidia/gpt3-5b",
    "GPT3-20B": "nvidia/gpt3-20b",
    "GPT3-175B": "nvidia/gpt3-175b",
    "Nemotron-8B": "nvidia/nemotron-8b",
    "Nemotron-22B": "nvidia/nemotron-22b",
    "Nemotron-340B": "nvidia/nemotron-340b",
}


def _row(model: str, **values: Any) -> TrainingRow:
    return TrainingRow(model=model, **_SIZES[model]._asdict(), **values)


def mpt_rows(directory: Path) -> Iterator[TrainingRow]:
    """MosaicML's llm-foundry, 2023: PyTorch's FSDP with llm-foundry's attention kernel."""
    for record in _records(directory / "mpt_training.csv"):
        yield _row(
            f"mosaicml/mpt-{record['Model']}",
            source="mpt",
            licence=_APACHE,
            framework="fsdp",
            released="2023-07",
            method="full",
            gpu=gpu_named(record["GPU"]),
            gpus=int(record["# GPUs"]),
            precision="fp8" if "fp8" in record["Precision"] else "bf16",
            sequence=int(record["SeqLen (T)"]),
            micro_batch=int(record["MicroBatchSize"]),
            accumulation=int(record["GradAccum"]),
            checkpointing="full" if record["Activation Checkpointing"] == "True" else "none",
            sharding="all" if record["Sharding Strategy"] == "FULL_SHARD" else "gradients",
            tokens_per_second_per_gpu=float(record["Throughput (T/s/GPU)"]),
        )


def bridge_rows(directory: Path) -> Iterator[TrainingRow]:
    """NVIDIA's Megatron-Bridge; of equal configurations, only the newest release."""
    seen = set()
    for record in _lists(directory / "megatron_bridge_training.csv"):
        system, name = record[3], record[2]
        if not system.startswith("DGX"):  # older releases name the system in another column
            system, name = record[2].removeprefix("System: "), record[17]
        precision = _BRIDGE_PRECISIONS.get(record[5])
        variants = "(" in record[9] or "token" in name
        if precision is None or variants or name not in _NVIDIA_NAMES:
            continue
        sharded = record[16] not in ("", "0")
        numbers = tuple(record[place] for place in (4, 7, 8, 9, 10, 11, 13))
        key = (system, name, record[1], precision, sharded, *numbers)
        if key in seen:
            continue
        seen.add(key)
        gpus, batch, sequence, tensor, pipeline, context, experts = (_whole(n) for n in numbers)
        yield _row(
            _NVIDIA_NAMES[name],
            source="megatron-bridge",
            licence=_APACHE,
            framework="megatron",
            released=f"20{record[0][:5].replace('.', '-')}",
            method="lora" if record[1].startswith("LoRA") else "full",
            gpu=gpu_named(system),
            gpus=gpus,
            precision=precision,
            sequence=sequence,
            micro_batch=batch,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            context_parallel=context,
            expert_parallel=experts,
            switched=72 if "GB" in system else 8,
            sharding="all" if sharded else "none",
            tokens_per_second_per_gpu=_number(record[14]),
        )


_BRIDGE_PRECISIONS = {
    "BF16": "bf16",
    "": "fp8",
    "FP8": "fp8",
    "MXFP8": "fp8",
    "FP8-CS": "fp8",
    "FP8-MX": "fp8",
    "FP8-CS (FP8-MX)": "fp8",
}


def nemo_rows(directory: Path) -> Iterator[TrainingRow]:
    """NVIDIA's NeMo on H100, FP8; of equal configurations, only the newest page."""
    seen = set()
    for record in _lists(directory / "nemo_training_h100.csv"):
        if record[2].startswith("Long"):  # its columns are in another order
            if not record[3].isdigit():
                continue
            name, sequence, method = "LLAMA3-8B", int(record[3]) * 1024, "full"
            places = (15, 5, 6, 16, 8, 13)
        else:
            name, sequence = record[3], int(record[7] or record[16])
            method = "lora" if record[15] == "LoRA" else "full"
            places = (4, 6, 8, 9, 10, 12)
        key = (name, sequence, method, *(record[place] for place in places[:-1]))
        if key in seen:
            continue
        seen.add(key)
        gpus, batch, tensor, pipeline, context, rate = (_whole(record[place]) for place in places)
        yield _row(
            _NVIDIA_NAMES[name],
            source="nemo",
            licence=_APACHE,
            framework="megatron",
            released=record[1][:7],
            method=method,
            gpu="H100-SXM5-80GB",
            gpus=gpus,
            precision="fp8",
            sequence=sequence,
            micro_batch=batch,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            context_parallel=context,
            tokens_per_second_per_gpu=rate,
        )


# No source states how the 70B was split. The assumed split leaves at least 40 % of a GPU's memory free; the
# H200 is split like the H100, whose containers it runs.
_LORA_SPLIT = {"H100-SXM5-80GB": 4, "H200-SXM-141GB": 4, "H200-NVL-141GB": 4, "B200-SXM-180GB": 2, "L40S": 8}
_MLPERF = {
    "llama2_70b_lora": (_LLAMA_2_70B, "lora", {}),
    "llama31_405b": (
        _LLAMA_405B,
        "full",
        {"tensor_parallel": 8, "pipeline_parallel": 8, "context_parallel": 2},
    ),
    "llama31_8b": (_LLAMA_8B, "full", {}),
}
_ROUNDS = {"v4.0": "2024-06", "v4.1": "2024-11", "v5.0": "2025-06", "v5.1": "2025-11"}
_MLPERF_SEQUENCE = 8192


def mlperf_rows(directory: Path) -> Iterator[TrainingRow]:
    """MLCommons' rounds 4.0 to 5.1: NVIDIA GPUs, FP8, runs whose log has a rate."""
    for record in _records(directory / "mlperf_training_llm.csv"):
        task = _MLPERF.get(record["benchmark"])
        if not (task and record["throughput_samples_s"] and "NVIDIA" in record["accelerator"]):
            continue
        model, method, split = task
        gpu = gpu_named(record["accelerator"])
        gpus = int(record["accel_per_node"]) * int(record["nodes"])
        if method == "lora":
            split = {"tensor_parallel": _LORA_SPLIT[gpu]}
        rate = float(record["throughput_samples_s"]) * _MLPERF_SEQUENCE / gpus
        yield _row(
            model,
            source="mlperf",
            licence=_APACHE,
            framework="megatron",
            released=_ROUNDS[record["round"]],
            method=method,
            gpu=gpu,
            gpus=gpus,
            precision="fp8",
            sequence=_MLPERF_SEQUENCE,
            micro_batch=1,
            link="pcie" if gpu == "L40S" else "nvlink",
            tokens_per_second_per_gpu=rate,
            flags="split_assumed",
            **split,
        )


# torchtitan's H100 has 96 GB at 2.4 TB/s and 500 W; sizes and lengths are stated in captions.
_TITAN_H100 = {"gpu": "H100-SXM5-96GB", "gpu_watts": 500.0, "gpu_gb_per_second": 2400.0}


def torchtitan_rows(directory: Path) -> Iterator[TrainingRow]:
    """PyTorch's torchtitan: FSDP2; some settings are in the tables' captions, not in columns."""
    for record in _records(directory / "torchtitan_training.csv"):
        caption, techniques = record["caption"], record["Techniques"]
        rate = _number(record["TPS/GPU"] or record["Vanilla TP tokens/sec"])
        match = re.search(r"(\d+)b on (\d+) H100s.*local batch size (\d+)", caption)
        table = re.search(r"Llama 3.1 8B model. (\d+) GPUs. Local batch size (\d+)", caption)
        if match and record["Quantization"]:
            size, gpus, batch = match.groups()
            yield _titan(size, gpus, batch, "8192", record["Quantization"], rate, 8)
        elif table and record["Sequence Length"]:
            yield _titan(
                "8",
                table[1],
                table[2],
                record["Sequence Length"],
                "Float8",
                rate,
                context=int(record["Parallelism"].rpartition(" ")[2]),
                checkpointing="full",
                peak_memory_gib=_number(record["Memory(GiB)"]),
            )
        elif table and techniques:
            yield _titan(
                "8",
                table[1],
                table[2],
                "8192",
                techniques,
                rate,
                eager=int("compile" not in techniques),
                peak_memory_gib=_number(record["Memory(GiB)"]),
            )


def _titan(
    size: str,
    gpus: str,
    batch: str,
    sequence: str,
    format_: str,
    rate: float,
    tensor: int = 1,
    context: int = 1,
    **values: Any,
) -> TrainingRow:
    model = _LLAMA_70B if size == "70" else _LLAMA_8B
    return _row(
        model,
        source="torchtitan",
        licence=_BSD,
        framework="fsdp",
        method="full",
        gpus=int(gpus),
        released="2025-06" if tensor > 1 else "2024-12",
        precision="fp8" if "loat8" in format_ else "bf16",
        sequence=int(sequence),
        micro_batch=int(batch),
        accumulation=1,
        sharding="all",
        tensor_parallel=tensor,
        context_parallel=context,
        tokens_per_second_per_gpu=rate,
        **_TITAN_H100,
        **{"checkpointing": "full" if size == "70" else "selective", **values},
    )


_QLORA_CARDS = {
    "A5000 24GB": "RTX A5000",
    "A6000 Ada 48GB": "RTX 6000 Ada",
    "A100 40GB SMX": "A100-SXM4-40GB",
    "H100 80GB SXM": "H100-SXM5-80GB",
}


def qlora_rows(directory: Path) -> Iterator[TrainingRow]:
    """Answer.AI's FSDP with QLoRA: peak memory, and seconds of one job with unknown tokens, on two GeForce
    GPUs with 7B and 34B and on servers with 70B. Runs that offload to the CPU and repeated memory figures are
    left out."""
    seen = set()
    for record in _records(directory / "fsdp_qlora_finetune.csv"):
        section, card = record["section"], record["Accelerator"]
        if "True" in (record["CPU Offload"], record["CPU+Activation Offload"]):
            continue
        model = _LLAMA_2_70B if card else _LLAMA_2_7B
        if "Yi 34B" in record["caption"] or section.endswith("Yi 34B"):
            model = "01-ai/Yi-1.5-34B"
        batch = int(record["Batch Size"] or 1)
        # A single sequence is as long as its text, whatever the limit; batches are padded.
        sequence = int((record["Context Length"] or "2048").replace(",", ""))
        if batch == 1 and sequence > 512 and not card:
            continue
        method, shared = (record["Train Type"] or "QLoRA").lower(), record["DDP"] == "True"
        memory = _number(record["Peak Memory (GiB)"] or "-")
        repeated = (model, batch, sequence, method, shared) in seen
        seen.add((model, batch, sequence, method, shared))
        gpu = _QLORA_CARDS.get(card) or ("RTX 4090" if "4090" in section else "RTX 3090")
        yield _row(
            model,
            source="fsdp_qlora",
            licence=_APACHE,
            framework="fsdp",
            released="2024-03",
            method=method,
            gpu=gpu,
            gpus=int(record["GPUs"] or 2),
            precision="bf16",
            sequence=sequence,
            micro_batch=batch,
            checkpointing="full",
            eager=1,
            link="nvlink" if "SXM" in gpu else "pcie",
            sharding="none" if shared else "all",
            peak_memory_gib=math.nan if repeated else memory,
            job_seconds=math.nan if batch == 1 and not card else _number(record["Time (s)"]),
        )


# PEFT methods that questions call LoRA, by rank and trained layers; and full fine-tuning.
_PEFT = re.compile(
    r"Llama-3.2-3B (lora (?:rank32|rank64|rank64-rslora|rank10-target-mlp)|full-finetuning .*)$"
)
_PEFT_RATE = re.compile(r"tokens/s median (\d+).*; (\d{4}-\d\d)-\d\d;")
_PEFT_BATCH = 4
# In older runs, the seconds of a step include evaluations.
_PEFT_SINCE = "2026"


def peft_rows(directory: Path) -> Iterator[TrainingRow]:
    """Hugging Face's comparison of PEFT methods: a whole script with its loader, on one L40S. Texts vary in
    length; a sequence has the mean length that follows from the rate of a step."""
    for record in _records(directory / "peft_l40s.csv"):
        method, figures = _PEFT.search(record["network"]), _PEFT_RATE.search(record["notes"])
        if not method or not figures or figures[2] < _PEFT_SINCE:
            continue
        rate = float(figures[1])
        yield _row(
            _LLAMA_3B,
            source="peft",
            licence=_APACHE,
            framework="fsdp",
            released=figures[2],
            method="lora" if method[1].startswith("lora") else "full",
            gpu="L40S",
            gpus=1,
            precision="bf16",
            sequence=round(rate * float(record["step_ms"]) / 1000 / _PEFT_BATCH),
            micro_batch=_PEFT_BATCH,
            accumulation=1,
            eager=1,
            script=1,
            link="none",
            tokens_per_second_per_gpu=rate,
        )


_FLAGPERF = re.compile(r"fix_hp=MPE=(\d+) LBS=(\d+)(?: GAS=(\d+))?;")


def flagperf_rows(directory: Path) -> Iterator[TrainingRow]:
    """FlagPerf's script for Llama-2 with DeepSpeed, for rows that state a GPU's batch. How the state was
    sharded is not published; it is assumed so that the memory used fits."""
    for record in _records(directory / "flagperf.csv"):
        sizes = _FLAGPERF.search(record["notes"])
        if record["network"] != "llama2_7b" or not sizes:
            continue
        gpus = int(record["gpu_count"])
        yield _row(
            _LLAMA_2_7B,
            source="flagperf",
            licence=_APACHE,
            framework="fsdp",
            released="2023-10",
            method="full",
            gpu=record["gpu"],
            gpus=gpus,
            precision="bf16",
            sequence=int(sizes[1]),
            micro_batch=int(sizes[2]),
            accumulation=int(sizes[3] or 1),
            sharding="gradients",
            eager=1,
            script=1,
            tokens_per_second_per_gpu=float(record["samples_per_second"]) / gpus,
            flags="split_assumed",
        )


_READERS: Sequence[Callable[[Path], Iterator[TrainingRow]]] = (
    mpt_rows,
    bridge_rows,
    nemo_rows,
    mlperf_rows,
    torchtitan_rows,
    qlora_rows,
    peft_rows,
    flagperf_rows,
)


def training_rows(directory: Path) -> list[TrainingRow]:
    """All rows of the tables in a directory."""
    return [row for reader in _READERS for row in reader(directory)]


def _records(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _lists(path: Path) -> Iterator[list[str]]:
    """Lines without the header: two tables have a column name twice."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from list(csv.reader(file))[1:]


def _number(text: str) -> float:
    """The number at the start of a cell such as '6,288' or '29994 (29388)'; nan if there is none."""
    match = re.match(r"[\d,.]+", text.strip())
    return float(match[0].replace(",", "")) if match else math.nan


def _whole(text: str) -> int:
    """The number at the start of a cell as an integer; 1 if there is none ('n/a')."""
    number = _number(text)
    return 1 if math.isnan(number) else int(number)


def main() -> None:
    """Write the committed table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of public tables")
    rows = training_rows(parser.parse_args().data)
    write_table(rows, TRAINING_PATH)
    sys.stdout.write(f"{len(rows)} rows in {TRAINING_PATH}\n")


if __name__ == "__main__":
    main()
