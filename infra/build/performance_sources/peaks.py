"""Computes the GPU memory of a measured step in the way its source counts it.

A source reports tensors, what torch reserved, or the driver's figure. Sources differ in units, optimiser and
attention, and in parts that the table's network of the same name lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import MIB, Precision, Task, Workload
from advisor.models.network_columns import KINDS
from advisor.models.performance.memory.peak import gpu_peak
from advisor.models.performance.memory.steps import (
    Conditions,
    Optimizer,
    StepMemory,
    bundled_profile,
    step_memory,
)
from advisor.models.performance.networks import NetworkFacts


class Counts(StrEnum):
    """What a peak counts: tensors, all that torch reserves, or the whole process."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DRIVER = "driver"


class Meaning(Struct, frozen=True):
    """How to read a source's figures.

    `unit` is the MiB in one MiB as filed; `beside` has, for networks by pattern, extra elements per pixel
    kept for the backward pass; `buckets` says that gradients are stored a second time for the exchange
    between ranks; `searches` is a pattern of networks for which cuDNN tries all algorithms; `without` has
    patterns of networks whose figures are unusable, with the reason."""

    counts: Counts = Counts.DRIVER
    unit: float = 1.0
    optimizer: Optimizer | None = None
    beside: Mapping[str, float] = {}
    buckets: bool = False
    searches: str = "$^"
    without: Mapping[str, str] = {}


_CACHE_FILLS = "images of all sizes: the cache fills the card"
_OTHER_NETWORK = "another network than the table's of that name"
_MEANINGS = {
    # Batches that fill a GPU, where the allocator returns unused memory.
    "timm": Meaning(Counts.ALLOCATED, optimizer=Optimizer.MOMENTUM),
    # torch.cuda.max_memory_allocated() in 10^6 bytes, of forward and backward passes only.
    "hf-transformers-docs": Meaning(Counts.ALLOCATED, 1e6 / MIB, Optimizer.SGD),
    # torch.cuda.memory_reserved() in 10^9 bytes (filed as GiB), of a whole pipeline.
    "lambda-diffusers": Meaning(Counts.RESERVED, 1e9 / (1024 * MIB)),
    "detectron2": Meaning(Counts.ALLOCATED, buckets=True),
    # The scales of its norms are trained, so each norm of ResNet's layers 2 to 4 keeps its input; its focal
    # loss is one kernel, while torchvision's keeps nine more copies of all scores.
    "mmdetection": Meaning(
        Counts.ALLOCATED, beside={"rcnn": 117.5, "retinanet": 117.5 - 9 * 17}, buckets=True, searches="ssd"
    ),
    # Heads twice as wide, which keep the layers' inputs and outputs, and an auxiliary head.
    "mmsegmentation": Meaning(
        Counts.ALLOCATED,
        beside={"fcn|deeplab": 138.0},
        buckets=True,
        searches="",
        without={"lraspp": _OTHER_NETWORK},
    ),
    "flagperf": Meaning(
        buckets=True,
        without={"detr|rcnn|retinanet": _CACHE_FILLS, "vit|distil": "network or length not said"},
    ),
}
# Convolution workspaces in use at the peak of tensors, as a share of the replay's spare memory: for the
# algorithms that cuDNN expects to be fast, and for all that it tries.
_WORKSPACE, _SEARCHED = 0.7, 1.4
# Bytes kept per score of unfused attention in 16 bits, under autocast (softmax in fp32) and in fp32: the
# softmax, its values after dropout, and the dropout mask. Without dropout only the softmax, also in the width
# of what follows; GPT-NeoX always computes it in fp32.
_KEPT, _WITHOUT_DROPOUT = (5, 7, 9), (2, 6, 4)
_KEPT_BY_FAMILY = {"albert": _WITHOUT_DROPOUT, "beit": _WITHOUT_DROPOUT, "pythia": (6, 6, 8)}
# Bytes per score in the replay of networks that never fuse attention: the softmax in the usual width.
_REPLAYED = (2, 2, 4)
_FUSED, _MATH = [KINDS.index("attention"), KINDS.index("attention_masked")], KINDS.index("attention_math")
# With more images than this, lambda-diffusers decodes them one after another.
_DECODED_TOGETHER = 31


def meaning_of(source: str) -> Meaning:
    """How to read a source's peaks; by default they are the driver's figure."""
    return next((meaning for name, meaning in _MEANINGS.items() if source.startswith(name)), Meaning())


def measured_mib(source: str, filed: float) -> float:
    """MiB of a source's figure that is filed as MiB."""
    return filed * meaning_of(source).unit


def counts_in(notes: str) -> str:
    """What a peak counts according to the row's notes; '' if they do not say."""
    words = {"nvidia-smi|nvml": Counts.DRIVER, "reserved": Counts.RESERVED, "allocated": Counts.ALLOCATED}
    return next((counts for word, counts in words.items() if re.search(word, notes.lower())), "")


def reason_against(source: str, network: str) -> str | None:
    """The reason why a source's peak of a network cannot be compared; None if it can."""
    without = meaning_of(source).without
    return next((reason for names, reason in without.items() if re.search(names, network)), None)


def peak_of(
    source: str, facts: NetworkFacts, workload: Workload, confidence: float, counts: str = ""
) -> tuple[float, float, float]:
    """MiB of a workload's peak under a source's protocol, counted as in the row or else as in its source:
    lower bound, median, upper bound."""
    mib, beside_context = step_mib(source, facts, workload, counts)
    peak = gpu_peak(
        bundled_profile(facts.name, facts.input), _conditions(source, facts, workload), confidence
    )
    mib += beside_context * peak.context_mib
    share = mib / peak.median_mib
    return share * peak.lower_mib, mib, share * peak.upper_mib


def step_mib(source: str, facts: NetworkFacts, workload: Workload, counts: str = "") -> tuple[float, bool]:
    """MiB of a workload's step as `peak_of` counts it, without CUDA's part; whether that part counts."""
    meaning, protocol = meaning_of(source), dict(workload.conditions)
    conditions = _conditions(source, facts, workload)
    step = step_memory(bundled_profile(facts.name, facts.input), conditions)
    saved = _beside_mib(meaning, facts, workload)
    if protocol.get("unfused_attention"):
        saved += unfused_mib(facts, workload)
    if meaning.buckets and protocol.get("script"):
        saved += step.gradients_mib
    if source == "lambda-diffusers":
        return _pipeline_mib(step, conditions, saved), False
    kind = Counts(counts or meaning.counts)
    searched = re.search(meaning.searches, facts.name) is not None
    spare = (_SEARCHED if searched else _WORKSPACE) if kind is Counts.ALLOCATED else 1.0
    return saved + step.tensors_mib + spare * step.spare_mib, kind is Counts.DRIVER


def _conditions(source: str, facts: NetworkFacts, workload: Workload) -> Conditions:
    return Conditions(
        task=workload.task,
        batch_size=workload.batch_size,
        precision=workload.precision,
        optimizer=meaning_of(source).optimizer or (Optimizer.ADAM if attends(facts) else Optimizer.MOMENTUM),
    )


def _beside_mib(meaning: Meaning, facts: NetworkFacts, workload: Workload) -> float:
    width = 4 if workload.precision is Precision.FP32 else 2
    elements = sum(size for names, size in meaning.beside.items() if re.search(names, facts.name))
    return elements * facts.pixels * width * workload.batch_size / MIB


def attends(facts: NetworkFacts) -> bool:
    """True if a network has attention, fused or not."""
    return bool(np.isin(facts.kernels[Task.INFERENCE]["kind"], [*_FUSED, _MATH]).any())


def unfused_mib(facts: NetworkFacts, workload: Workload) -> float:
    """MiB of attention scores stored as tensors: in training those of all layers with what is derived from
    them; in inference twice the largest layer's."""
    rows = facts.kernels[Task.INFERENCE]
    fused, math = rows[np.isin(rows["kind"], _FUSED)], rows[rows["kind"] == _MATH]
    head = fused["reduction"].astype(float)
    scores = fused["flops"] / (4 * head)
    causal = fused["sample_elements"] / (4 * head) * fused["width"]  # only half of the scores are computed
    scores = np.where(np.isclose(causal, 2 * scores, rtol=0.01), causal, scores)
    width = {Precision.FP32: 2, Precision.AMP: 1}.get(workload.precision, 0)
    if workload.task is Task.INFERENCE:
        return float(scores.max(initial=0.0)) * (8 if width == 2 else 4) * workload.batch_size / MIB
    kept = _KEPT_BY_FAMILY.get(facts.family, _KEPT)[width] * float((scores * fused["count"]).sum())
    # A layer has two products over the head size, which is smaller than the number of keys.
    each = math["flops"] / (4.0 * np.minimum(math["reduction"], math["width"]).clip(min=1))
    kept += (_WITHOUT_DROPOUT[width] - _REPLAYED[width]) * float((each * math["count"]).sum())
    return kept * workload.batch_size / MIB


def _pipeline_mib(unet: StepMemory, conditions: Conditions, saved: float) -> float:
    """All weights of a text-to-image pipeline, plus the larger of its denoising and decoding steps; guidance
    denoises each image twice."""
    images = conditions.batch_size // 2
    together = images if images <= _DECODED_TOGETHER else 1
    vae = step_memory(bundled_profile("stable-diffusion-1.5-vae"), replace(conditions, batch_size=together))
    text = step_memory(bundled_profile("stable-diffusion-1.5-text"), replace(conditions, batch_size=1))
    steps = (unet.reserved_mib - unet.weights_mib + saved, vae.reserved_mib - vae.weights_mib)
    return unet.weights_mib + vae.weights_mib + text.weights_mib + max(steps)
