"""Measured steps of the tables in the scorer's format (`rates/*.csv`), with one reader for all.

A reader's `Rules` say which rows need special treatment; SOURCES.md says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from msgspec import Struct

from advisor.infra.build.performance_sources.naming import (
    batch_of,
    find_source,
    gpu_of,
    named,
    precision_of,
    stack_of,
)

_APACHE = "Apache-2.0"


def _nothing(rows: pd.DataFrame) -> pd.Series:
    return pd.Series(data=False, index=rows.index)


class Rules(Struct, frozen=True):
    """How one table is read: which rows are left out, which are only for evaluation, and its licence.

    `large_batch` replaces batches that are not stated and are as large as the GPU holds."""

    licence: str
    left_out: Callable[[pd.DataFrame], pd.Series] = _nothing
    evaluated_only: Callable[[pd.DataFrame], pd.Series] = _nothing
    channels_last: bool = False
    tf32: str = "conv"
    large_batch: float | None = None


def _has(rows: pd.DataFrame, pattern: str, column: str = "notes") -> pd.Series:
    # A column without text is numeric.
    return rows[column].astype(object).fillna("").astype(str).str.contains(pattern, regex=True)


def _hf_left_out(rows: pd.DataFrame) -> pd.Series:
    # Whole milliseconds that do not grow with the batch; one cell printed for two GPUs; ALBERT's latency,
    # which is per token there and per pass in the tables beside it.
    misprint = (
        (rows.gpu == "T4")
        & (rows.network == "beit-base-patch16-224")
        & (rows.step_ms.sub(42.179).abs() < 1e-3)
    )
    token = (rows.network == "albert-base-v2") & (rows.task == "inference")
    return _has(rows, "SUSPECT") | misprint | token


def _hf_evaluated_only(rows: pd.DataFrame) -> pd.Series:
    # The same rows are also there with the fused kernel, which is today's default.
    return _has(rows, "attention=eager") & _has(rows, r"2\.[2-9]", "framework")


def _fastertransformer_evaluated_only(rows: pd.DataFrame) -> pd.Series:
    """PyTorch rows near the lowest time of their (network, GPU): that host takes 55 us per launch."""
    torch = rows.eager.isin(["eager", "torchscript"])
    floor = rows.groupby(["network", "framework", "gpu"]).step_ms.transform("min")
    # Longformer takes as long in fp16 as in fp32, so one of the two is mislabelled.
    return torch & ((rows.step_ms < 1.8 * floor) | _has(rows, "longformer", "network"))


def _detects_in_inference(rows: pd.DataFrame) -> pd.Series:
    """Mask R-CNN's inference: its heads run on a number of boxes that depends on the data."""
    return (rows.task == "inference") & _has(rows, "(?i)mask.?r-?cnn", "network")


def _dle_left_out(rows: pd.DataFrame) -> pd.Series:
    """All rows except those that the README's tables state with batch and unit, on one host."""
    convnets = _has(rows, r"^Classification/ConvNets/", "network") & (rows.task == "inference")
    convnets &= _has(rows, "Throughput Avg")
    boxes = rows.network.isin(["Detection/SSD", "Segmentation/MaskRCNN"])
    boxes &= _has(rows, "Throughput - |Throughput Avg|Throughput -") & ~_has(rows, "atency")
    bart = (rows.network == "LanguageModeling/BART") & (rows.task == "training")
    bart &= _has(rows, "Single-node")
    published = (convnets | boxes | bart) & rows.batch_size.notna() & (rows.gpu_count <= 8)
    return ~(published | _is_convnet_training(rows))


def _is_convnet_training(rows: pd.DataFrame) -> pd.Series:
    """Training scripts on one GPU; one table has a percentile of EfficientNet-B4 in the rate column."""
    convnets = _has(rows, r"^Classification/ConvNets/", "network") & (rows.task == "training")
    misprint = _has(rows, "b4$", "network") & (rows.gpu == "V100-32GB")
    return convnets & (rows.gpu_count == 1) & ~misprint & ~_has(rows, "quant|widese", "network")


def _flagperf_left_out(rows: pd.DataFrame) -> pd.Series:
    """All but scripts of PyTorch's networks with their loaders on one host. Longformer, T5, DistilBERT and
    EfficientNetV2 have no stated input; 1,144 images/s is implausible for ViT-B/16."""
    known = rows.network.isin(["bert_hf", "resnet50", "swin_transformer", "detr", "faster_rcnn", "retinanet"])
    return ~(known & _has(rows, "p_train") & (rows.gpu_count <= 8) & rows.batch_size.notna())


def _vision_left_out(rows: pd.DataFrame) -> pd.Series:
    """Networks that are in no table; of FFCV's runs of a network, only the middle one is kept."""
    usual = _has(rows, "^ghostnet|^convnext_atto$|^convnext_tiny$|^inceptionnext|^resnet50$|^Swin", "network")
    middle = (rows.source == "ffcv-imagenet") & rows.samples_per_second.isin([23808.0, 9931.53])
    # Slower than its training, so not in the table's precision.
    doubted = (rows.source == "vmamba") & (rows.task == "inference")
    return doubted | ~((usual & (rows.source != "ffcv-imagenet")) | middle)


def _model_zoo_left_out(rows: pd.DataFrame) -> pd.Series:
    return _has(rows, "unusable") | rows.batch_size.isna()


def _mm_evaluated_only(rows: pd.DataFrame) -> pd.Series:
    """Rates of one image with heads that depend on the data mostly measure launches. Segmenters run on whole
    images, whose size is known only for Cityscapes."""
    boxes = rows.source.str.contains("mmdet|detectron")
    return (rows.task == "inference") & (boxes | ~_has(rows, "Cityscapes", "input"))


def _of_an_image(rows: pd.DataFrame) -> pd.Series:
    return (rows.task == "inference") & (rows.batch_size == 1)


TABLES = {
    "hf_transformers.csv": Rules(_APACHE, _hf_left_out, _hf_evaluated_only),
    "diffusers_torch2.csv": Rules(_APACHE, channels_last=True),
    "diffusion.csv": Rules("MIT / Apache-2.0", lambda rows: rows.batch_size.isna()),
    "fastertransformer.csv": Rules(_APACHE, evaluated_only=_fastertransformer_evaluated_only, tf32="none"),
    "aitemplate.csv": Rules(_APACHE, lambda rows: _has(rows, "MI250", "gpu"), _detects_in_inference),
    "model_zoos.csv": Rules("MIT / Apache-2.0", _model_zoo_left_out),
    "model_zoos2.csv": Rules("MIT / Apache-2.0", _model_zoo_left_out),
    "openmmlab.csv": Rules(_APACHE, evaluated_only=_mm_evaluated_only),
    "detectron2.csv": Rules(
        _APACHE, lambda rows: _has(rows, "LSJ|Large-Scale|LVIS", "network"), _of_an_image
    ),
    "nvidia_dle_pytorch.csv": Rules(
        "BSD-3 / Apache-2.0",
        _dle_left_out,
        _detects_in_inference,
        tf32="all",
        channels_last=True,
        large_batch=128,
    ),
    "mlperf_training.csv": Rules(_APACHE, lambda rows: rows.network == "r-gat", tf32="all"),
    "tensorrt_bert.csv": Rules(_APACHE),
    "flagperf.csv": Rules(_APACHE, _flagperf_left_out, tf32="all"),
    "vision_a100.csv": Rules(_APACHE, _vision_left_out, channels_last=True),
    # The precision is not stated, and the step includes the real loader.
    "sia.csv": Rules("none seen", lambda rows: _has(rows, "ratios only")),
}
# Figures of AGPL and GPL projects are facts; the sources below have a different licence from the rest.
_OTHER_LICENCES = {
    "ultralytics-yolov5": "AGPL-3.0 (figures)",
    "yolov7": "GPL-3.0 (figures)",
    "yolov6": "GPL-3.0 (figures)",
    "yolov10": "AGPL-3.0 (figures)",
    "yolox": _APACHE,
    "pycls": "MIT",
    "swin-transformer": "MIT",
    "lambda-diffusers": "MIT",
    "stable-fast": "MIT",
    "onediff": _APACHE,
    "mosaicml-diffusion": _APACHE,
    "vmamba": "MIT",
}


def rates(folder: Path, left_out: dict[str, int]) -> pd.DataFrame:
    """The rows of all tables in the folder; `left_out` counts rows that were not used, by table."""
    result = []
    for name, rules in TABLES.items():
        try:
            path = find_source(folder, name)
        except FileNotFoundError:
            left_out[f"{name}: not there"] = 0
            continue
        result.append(_table(pd.read_csv(path), rules, name, left_out))
    return pd.concat(result, ignore_index=True)


def _table(rows: pd.DataFrame, rules: Rules, name: str, left_out: dict[str, int]) -> pd.DataFrame:
    dropped = rules.left_out(rows)
    left_out[name] = int(dropped.sum())
    rows = rows[~dropped].reset_index(drop=True)
    said = zip(rows.source, rows.network, rows.task, rows.batch_size, strict=True)
    rows["batch_size"] = [batch_of(*each) for each in said]
    if rules.large_batch:
        rows["batch_size"] = rows.batch_size.fillna(rules.large_batch)
    names = [
        named(source, network, text, task)
        for source, network, text, task in zip(
            rows.source, rows.network, rows.input.fillna("").astype(str), rows.task, strict=True
        )
    ]
    made = pd.DataFrame(
        {
            "source": rows.source,
            "network": [entry.network for entry in names],
            "task": rows.task,
            "stack": [stack_of(e, f) for e, f in zip(rows.eager, rows.framework, strict=True)],
            "framework": rows.framework,
            "memory_format": "channels_last" if rules.channels_last else "contiguous",
            "variant": [_variant(note, e) for note, e in zip(rows.notes, rows.eager, strict=True)],
            "precision": rows.precision.map(precision_of).mask(_is_mm_half(rows), "amp"),
            "tf32": [rules.tf32 if "tf32" not in p else "all" for p in rows.precision],
            "gpu": rows.gpu.map(gpu_of),
            "gpu_count": rows.gpu_count,
            "batch_size": rows.batch_size * [entry.batch_factor for entry in names],
            "input": [entry.input for entry in names],
            "step_seconds": _step(rows) / [entry.steps for entry in names],
            "sigma": _rounding(rows),
            "peak_memory_mib": _memory(rows),
            "host": rows.source + "/" + rows.gpu.map(gpu_of),
            "licence": [_OTHER_LICENCES.get(source, rules.licence) for source in rows.source],
        }
    )
    made["fit"] = (~rules.evaluated_only(rows) & (made.licence != "none seen")).astype(int)
    return pd.concat([made, _training_memory(rows, made)], ignore_index=True)


def _is_mm_half(rows: pd.DataFrame) -> pd.Series:
    """fp16 of mm* keeps weights in fp32, as autocast does; mmdetection marks it by the row's name only."""
    named = (rows.source == "mmdetection-v2") & _has(rows, "^fp16 ", "network")
    return named | (rows.source.str.startswith("mm") & (rows.precision == "fp16"))


def _variant(note: str, eager: str) -> str:
    match = re.search(r"attention=(\w+)", str(note))
    return match[0] if match else "xformers" if "xformers" in eager else ""


def _step(rows: pd.DataFrame) -> pd.Series:
    """Seconds of one step of one GPU's batch: as stated, else from the rate."""
    rate = rows.batch_size * rows.gpu_count / rows.samples_per_second
    return (rows.step_ms / 1000).where(rows.step_ms.notna(), rate)


def _rounding(rows: pd.DataFrame) -> pd.Series:
    """Relative rounding error: half of the last digit that the source prints, at least 2 %."""
    value = rows.step_ms.where(rows.step_ms.notna(), rows.samples_per_second)
    whole = (value % 1 == 0) & (value > 0)
    return (0.3 / value.where(whole)).fillna(0.02).clip(0.02, 0.3)


def _memory(rows: pd.DataFrame) -> pd.Series:
    """MiB, if it belongs to the row's step (mm* prints training memory beside inference rates)."""
    memory = rows.peak_memory_mib.where(rows.peak_memory_mib < 200_000)
    return memory.where(~_has(rows, "memory is the TRAINING peak") & ~_has(rows, "unusable"))


def _training_memory(rows: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Rows without a step, with the training memory that mm* prints beside the rate of inference."""
    value = _has(rows, "memory is the TRAINING peak") & rows.peak_memory_mib.notna()
    # With more classes than the table's segmenters, at the size of the image: scores take gigabytes.
    value &= ~_has(rows, "ADE20K|Pascal Context", "input")
    more = made[value].copy()
    crop = _has(rows, "crop")[value]
    city = _has(rows, "Cityscapes", "input")[value]
    more["task"] = "training"
    more["batch_size"] = [2 if not c or town else 4 for c, town in zip(crop, city, strict=True)]
    more["input"] = [
        named(source, network, text, task="training").input
        for source, network, text in zip(
            rows.source[value], rows.network[value], rows.input[value].fillna(""), strict=True
        )
    ]
    more["step_seconds"] = float("nan")
    more["peak_memory_mib"] = rows.peak_memory_mib[value]
    more["fit"] = 1
    return more
