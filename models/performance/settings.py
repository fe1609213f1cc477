"""The gain of another stack, memory format or precision on a GPU, where measured rows show it.

A gain is a difference of two steps under one posterior: effects that both share (the network's, the card's
clock, the source's) cancel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Gpu, MemoryFormat, Precision, Span, Stack, Task, Tf32, Workload
from advisor.models.bayes import gaussian_multiplier
from advisor.models.performance.networks import NetworkFacts
from advisor.models.performance.step_parameters import AMPERE
from advisor.models.performance.step_times import ROW_SIGMA, StepTimes, cell_of, chip

COMPILE, CHANNELS_LAST, SIXTEEN_BITS, TF32 = "compile", "channels_last", "16 bits", "tf32"
# Triton (for torch.compile) and 16-bit tensor cores need Volta or later; TF32 needs Ampere or later.
_VOLTA = 7.0
# Chips on which PyTorch rows exist with and without a change, by task and by the bits of the
# arithmetic before it; a test compares this with the rows. Other gains are not reported.
MEASURED_ON: Mapping[tuple[str, Task, int], frozenset[str]] = {
    (COMPILE, Task.INFERENCE, 32): frozenset({"A100", "H100", "L4", "T4", "V100"}),
    (COMPILE, Task.INFERENCE, 16): frozenset({"A100", "RTX 3090", "RTX 4090", "T4", "V100"}),
    (CHANNELS_LAST, Task.INFERENCE, 16): frozenset({"RTX 3090", "RTX 4090"}),
    (CHANNELS_LAST, Task.TRAINING, 16): frozenset({"RTX 3090"}),
    (SIXTEEN_BITS, Task.INFERENCE, 32): frozenset(
        {"A10", "A100", "RTX 2080 Ti", "T4", "TITAN RTX", "TITAN V", "V100"}
    ),
    (SIXTEEN_BITS, Task.TRAINING, 32): frozenset({"A100", "RTX 2080 Ti", "TITAN RTX", "TITAN V"}),
}
# Log standard deviations that are added to the posterior's: where rows have both network and card with
# the change, and elsewhere, since gains differ between networks and cards. With them the bounds hold
# about as often as they should (`python -m benchmarks.truth --gains`).
_DOUBT: Mapping[str, tuple[float, float]] = {
    COMPILE: (0.03, 0.2),
    CHANNELS_LAST: (0.03, 0.05),
    SIXTEEN_BITS: (0.1, 0.2),
    TF32: (0.2, 0.2),
}
# Effects of a network that can only be learned from rows with the change.
_TAUGHT_BY: Mapping[str, tuple[str, ...]] = {
    COMPILE: ("stack/compile",),
    CHANNELS_LAST: ("format/channels_last",),
    SIXTEEN_BITS: ("bits/16", "bits/32"),
}
# TF32 leaves a network without matrix products as it is.
_LEAST_TF32 = 0.02


# Families that were trained in bf16 and overflow in fp16, as the documentation of transformers says.
OVERFLOWS_IN_FP16 = ("t5", "mt5", "pegasus", "gemma")
# Tensor cores do 16 bits at least this much faster than the other units do 32.
_TENSOR_CORES = 3.0


def usual_settings(
    times: StepTimes,
    workload: Workload,
    gpus: Sequence[Gpu],
    facts: NetworkFacts,
    *,
    precision: bool,
    memory_format: bool,
    needed_mib: Callable[[Workload], float],
) -> list[Workload]:
    """The workload on each GPU as people run it there; `precision` and `memory_format` say which are open.

    The precision is autocast where tensor cores support it: bf16 from Ampere on, fp16 before. It is fp32 for
    networks that overflow in fp16, and for those that fit the GPU in fp32 only, since autocast keeps weights
    in both formats. The layout is the faster one in 16 bits, and unchanged in fp32, where no rows compare
    layouts. `needed_mib` returns the memory that the smallest batch needs."""
    if workload.task not in facts.kernels:
        return [workload] * len(gpus)

    taken = []
    for gpu in gpus:
        fast = replace(workload, precision=_autocast(gpu, facts)) if precision else workload
        fits_plain_alone = needed_mib(workload) <= gpu.memory_mib < needed_mib(fast)
        taken.append(workload if fits_plain_alone else fast)
    mixed = [place for place, each in enumerate(taken) if _bits(each) == 16]
    if not (memory_format and facts.has_channels and mixed):
        return taken
    others = {place: replace(taken[place], memory_format=MemoryFormat.CHANNELS_LAST) for place in mixed}
    cells = [(each[place], gpus[place]) for each in (taken, others) for place in mixed]
    contiguous, channels_last = times.estimates(cells, facts).mean.reshape(2, -1)
    for place, is_shorter in zip(mixed, channels_last < contiguous, strict=True):
        taken[place] = others[place] if is_shorter else taken[place]
    return taken


def _autocast(gpu: Gpu, facts: NetworkFacts) -> Precision:
    """The format of 16 bits that the GPU's tensor cores compute, mixed with fp32; fp32 without one."""
    capability = gpu.capability or 0.0
    if capability >= AMPERE and gpu.bf16_tflops:
        return Precision.BF16
    has_cores = capability >= _VOLTA and (gpu.fp16_tflops or 0.0) >= _TENSOR_CORES * gpu.fp32_tflops
    return Precision.AMP if has_cores and not facts.name.startswith(OVERFLOWS_IN_FP16) else Precision.FP32


class Setting(Struct, frozen=True):
    """A way to run PyTorch; `option` is its command-line option, `kind` what it changes."""

    name: str
    kind: str
    option: str
    field: str
    value: Any


_SETTINGS = (
    Setting("compile", COMPILE, "--stack compile", "stack", Stack.COMPILE),
    Setting(
        "channels_last",
        CHANNELS_LAST,
        "--memory-format channels_last",
        "memory_format",
        MemoryFormat.CHANNELS_LAST,
    ),
    Setting("amp", SIXTEEN_BITS, "--precision amp", "precision", Precision.AMP),
    Setting("tf32", TF32, "--tf32 on", "tf32", Tf32.ON),
)


class Gain(Struct, frozen=True):
    """The factor by which steps are faster; `measured` if rows have both network and card with the change."""

    factor: Span
    measured: bool


class SettingGain(Struct, frozen=True):
    """A workload under another setting, and its gain on a GPU."""

    setting: Setting
    workload: Workload
    gain: Gain


def setting_gains(
    times: StepTimes, workload: Workload, gpu: Gpu, facts: NetworkFacts, confidence: float
) -> list[SettingGain]:
    """The gain of each other setting that the workload could have and that measured rows cover."""
    gains = []
    for setting in _SETTINGS:
        if setting.kind == CHANNELS_LAST and not facts.has_channels:
            continue
        other = replace(workload, **{setting.field: setting.value})
        if other != workload and (gain := gain_of(times, workload, other, gpu, facts, confidence)):
            gains.append(SettingGain(setting, other, gain))
    return gains


def gain_of(
    times: StepTimes, workload: Workload, changed: Workload, gpu: Gpu, facts: NetworkFacts, confidence: float
) -> Gain | None:
    """The gain of the `changed` workload over `workload`, of the same batch size, on a GPU, with one-sided
    bounds; None if no rows cover it."""
    kind = _kind_of(workload, changed)
    measured = _is_measured(times, workload, gpu, facts, kind)
    if workload.task not in facts.kernels or measured is None:
        return None
    cells = [[cell_of(each, gpu, facts)] for each in (workload, changed)]
    result = times.posterior.differences(*cells)
    mean, variance = float(result.mean[0]), float(result.variance[0])
    if kind == TF32 and abs(mean) < _LEAST_TF32:
        return None
    doubt = _DOUBT[kind][0 if measured else 1]
    width = gaussian_multiplier(confidence) * math.sqrt(variance + 2 * ROW_SIGMA**2 + doubt**2)
    factor = Span(lower=math.exp(mean - width), median=math.exp(mean), upper=math.exp(mean + width))
    return Gain(factor, measured)


def _is_measured(
    times: StepTimes, workload: Workload, gpu: Gpu, facts: NetworkFacts, kind: str
) -> bool | None:
    """True if rows have the network and the card with the change; None where the card cannot do it, or no
    row tells more than the median gain of all networks."""
    capability = gpu.capability or 0.0
    if kind == TF32:
        able = workload.precision is Precision.FP32 and capability >= AMPERE and gpu.tf32_tflops is not None
        return False if able else None
    chips = MEASURED_ON.get((kind, workload.task, _bits(workload)))
    if chips is None or capability < _VOLTA:
        return None
    of_network = times.knows(facts, workload) and all(
        times.posterior.has_effect(facts.key, group) for group in _TAUGHT_BY[kind]
    )
    on_card = chip(gpu.name) in chips and bool(times.measured_in(gpu))
    # In 32 bits, or on another card, the median gain predicted other networks' gains better than the model.
    if kind == COMPILE and not of_network and not (on_card and _bits(workload) == 16):
        return None
    return of_network and on_card


def _kind_of(workload: Workload, changed: Workload) -> str:
    if workload.stack is not changed.stack:
        return COMPILE
    if workload.memory_format is not changed.memory_format:
        return CHANNELS_LAST
    return SIXTEEN_BITS if workload.precision is not changed.precision else TF32


def _bits(workload: Workload) -> int:
    return 32 if workload.precision is Precision.FP32 else 16
