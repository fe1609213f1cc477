"""What is told of the GPU memory of a measured step, counted as its source counts it.

A source prints what tensors take, what torch has reserved, or what the driver shows; in units of its own;
with its optimiser, its way to write attention, and parts that the table's network of that name has not."""

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
from advisor.models.performance.memory.steps import Conditions, Optimizer, StepMemory, step_memory
from advisor.models.performance.memory.table import bundled_profile
from advisor.models.performance.networks import NetworkFacts


class Counts(StrEnum):
    """What a peak is made of: tensors, all that torch keeps, or the whole process."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DRIVER = "driver"


class Meaning(Struct, frozen=True):
    """How a source's figures are to be read.

    `unit` is the MiB of what is filed as one MiB; `beside` are elements a pixel that networks of a name keep
    for the backward pass beside the table's; `buckets` whether gradients lie once more in those that ranks
    exchange; `searches` names networks for which cuDNN tries all its algorithms; `without` those whose figure
    is not what it says, with the reason."""

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
    # Batches that fill a card, where the allocator gives back what it has spare.
    "timm": Meaning(Counts.ALLOCATED, optimizer=Optimizer.MOMENTUM),
    # torch.cuda.max_memory_allocated() in 10^6 bytes, of forward and backward passes alone.
    "hf-transformers-docs": Meaning(Counts.ALLOCATED, 1e6 / MIB, Optimizer.SGD),
    # torch.cuda.memory_reserved() in 10^9 bytes (filed as GiB), of a whole pipeline.
    "lambda-diffusers": Meaning(Counts.RESERVED, 1e9 / (1024 * MIB)),
    "detectron2": Meaning(Counts.ALLOCATED, buckets=True),
    # Scales of its norms are trained, so that each norm of ResNet's layers 2 to 4 keeps its input; its
    # focal loss is one kernel, where torchvision's keeps nine more copies of all scores.
    "mmdetection": Meaning(
        Counts.ALLOCATED, beside={"rcnn": 117.5, "retinanet": 117.5 - 9 * 17}, buckets=True, searches="ssd"
    ),
    # Heads twice as wide, with the layers' input beside their output, and an auxiliary head.
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
# Workspaces of convolutions that live at the peak of tensors, as a share of what the replay has spare:
# of the algorithms that cuDNN expects to be quick, and of all that it tries.
_WORKSPACE, _SEARCHED = 0.7, 1.4
# Bytes that unfused attention keeps of each score in 16 bits, under autocast (whose softmax is fp32) and in
# fp32: the softmax, what is left of it after dropout, and which is. Without dropout that is the softmax,
# in the width of what follows too; GPT-NeoX takes it in fp32 always.
_KEPT, _WITHOUT_DROPOUT = (5, 7, 9), (2, 6, 4)
_KEPT_BY_FAMILY = {"albert": _WITHOUT_DROPOUT, "beit": _WITHOUT_DROPOUT, "pythia": (6, 6, 8)}
# What a replay has of those whose attention is never one kernel: the softmax in the width of the rest.
_REPLAYED = (2, 2, 4)
_FUSED, _MATH = [KINDS.index("attention"), KINDS.index("attention_masked")], KINDS.index("attention_math")
# From so many images on lambda-diffusers decodes one after another.
_DECODED_TOGETHER = 31


def meaning_of(source: str) -> Meaning:
    """How a source's peaks are read; one that nobody described shows what the driver does."""
    return next((meaning for name, meaning in _MEANINGS.items() if source.startswith(name)), Meaning())


def measured_mib(source: str, filed: float) -> float:
    """MiB of what is filed of a source as MiB."""
    return filed * meaning_of(source).unit


def counts_in(notes: str) -> str:
    """What a row's own notes say that its peak counts; '' where they do not."""
    words = {"nvidia-smi|nvml": Counts.DRIVER, "reserved": Counts.RESERVED, "allocated": Counts.ALLOCATED}
    return next((counts for word, counts in words.items() if re.search(word, notes.lower())), "")


def reason_against(source: str, network: str) -> str | None:
    """Why a source's peak of a network is nothing to compare with; None where it is."""
    without = meaning_of(source).without
    return next((reason for names, reason in without.items() if re.search(names, network)), None)


def peak_of(
    source: str, facts: NetworkFacts, workload: Workload, confidence: float, counts: str = ""
) -> tuple[float, float, float]:
    """MiB of a workload's peak under a source's protocol, as the row or else its source counts them: lower
    bound, median, upper bound."""
    mib, beside_context = step_mib(source, facts, workload, counts)
    peak = gpu_peak(
        bundled_profile(facts.name, facts.input), _conditions(source, facts, workload), confidence
    )
    mib += beside_context * peak.context_mib
    share = mib / peak.median_mib
    return share * peak.lower_mib, mib, share * peak.upper_mib


def step_mib(source: str, facts: NetworkFacts, workload: Workload, counts: str = "") -> tuple[float, bool]:
    """MiB of a workload's step as `peak_of` counts them, without what CUDA takes, and whether that counts."""
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
    """Whether a network has attention, fused or not."""
    return bool(np.isin(facts.kernels[Task.INFERENCE]["kind"], [*_FUSED, _MATH]).any())


def unfused_mib(facts: NetworkFacts, workload: Workload) -> float:
    """MiB of attention's scores where they are tensors: in training those of all layers, each with what is
    made of it; in inference the largest layer's twice."""
    rows = facts.kernels[Task.INFERENCE]
    fused, math = rows[np.isin(rows["kind"], _FUSED)], rows[rows["kind"] == _MATH]
    head = fused["reduction"].astype(float)
    scores = fused["flops"] / (4 * head)
    causal = fused["sample_elements"] / (4 * head) * fused["width"]  # half of them are not computed
    scores = np.where(np.isclose(causal, 2 * scores, rtol=0.01), causal, scores)
    width = {Precision.FP32: 2, Precision.AMP: 1}.get(workload.precision, 0)
    if workload.task is Task.INFERENCE:
        return float(scores.max(initial=0.0)) * (8 if width == 2 else 4) * workload.batch_size / MIB
    kept = _KEPT_BY_FAMILY.get(facts.family, _KEPT)[width] * float((scores * fused["count"]).sum())
    # Two products of a layer, each over a head's size, which is less than the keys.
    each = math["flops"] / (4.0 * np.minimum(math["reduction"], math["width"]).clip(min=1))
    kept += (_WITHOUT_DROPOUT[width] - _REPLAYED[width]) * float((each * math["count"]).sum())
    return kept * workload.batch_size / MIB


def _pipeline_mib(unet: StepMemory, conditions: Conditions, saved: float) -> float:
    """All weights of a text-to-image pipeline, with the larger of its denoising and its decoding: guidance
    denoises each image twice."""
    images = conditions.batch_size // 2
    together = images if images <= _DECODED_TOGETHER else 1
    vae = step_memory(bundled_profile("stable-diffusion-1.5-vae"), replace(conditions, batch_size=together))
    text = step_memory(bundled_profile("stable-diffusion-1.5-text"), replace(conditions, batch_size=1))
    steps = (unet.reserved_mib - unet.weights_mib + saved, vae.reserved_mib - vae.weights_mib)
    return unet.weights_mib + vae.weights_mib + text.weights_mib + max(steps)
