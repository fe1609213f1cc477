"""Whether a maintained PyTorch runs on an instance type, and the reason when it does not.

Sources of the compute-capability limits (read 2026-11):
- x86-64: PyTorch's support matrix (RELEASE.md; pytorch/pytorch issue 172352): CUDA 12.6 builds
  hold Maxwell 5.0 to Hopper 9.0, CUDA 12.8 and 13 builds start at Turing 7.5.
- arm64: pytorch/pytorch `.ci/aarch64_linux/aarch64_ci_build.sh`: CUDA wheels are built for 8.0
  and newer only (12.6: "8.0;9.0", 12.8: "8.0;9.0;10.0;12.0", 13.0 adds 11.0), none for 7.5.
"""

from __future__ import annotations

from advisor.domain import Gpu, InstanceType
from advisor.messages import Message
from advisor.records import dataclass

OLDEST_CUDA_BUILD = 5.0
OLDEST_CUDA_13_BUILD = 7.5
OLDEST_ARM_CUDA_BUILD = 8.0
OLD_BUILD_NOTE = "needs a CUDA 12.6 build of PyTorch"
# AWS publishes this limit for every type but a few old ones; of others few are known here.
UNLIMITED_NOTE = "what the instance passes on to network disks counts only where that is published"
_CPU_ARCHITECTURES = ("x86_64", "arm64")


@dataclass(frozen=True, slots=True)
class Supported:
    """It runs; `note` says what the user must mind, or is empty."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """It is not ranked: `not_offered`, `unsupported` or `facts_missing`, and why in words."""

    reason: str
    detail: Message


def check(
    instance: InstanceType, gpu: Gpu | None, *, needs_gpu: bool, offered: bool = True
) -> Supported | Rejection:
    """Judge a type; `gpu` is its data sheet (None: no GPU, or no sheet known).

    `offered` says whether the region in question has the type at all. What can never run comes
    first, so that `not_offered` means: it would run, and cannot be had.
    """
    verdict: Supported | Rejection | None = _check_host(instance)
    if verdict is None and needs_gpu:
        verdict = _check_card(instance) or _check_sheet(instance, gpu)
    if isinstance(verdict, Rejection):
        return verdict
    if not instance.current:
        return Rejection(
            "not_offered",
            Message("retired: facts of {date}, no region offers it", date=instance.as_of),
        )
    if not offered:
        return Rejection("not_offered", Message("not offered in this region"))
    unlimited = instance.ebs_baseline_mib_per_second is None
    notes = [verdict.note if verdict else "", UNLIMITED_NOTE if unlimited else ""]
    return Supported("; ".join(note for note in notes if note))


def _check_host(instance: InstanceType) -> Rejection | None:
    if instance.cpu.architecture not in _CPU_ARCHITECTURES:
        return Rejection(
            "unsupported",
            Message("its CPU is {arch}: a macOS host", arch=instance.cpu.architecture),
        )
    if instance.burstable:
        return Rejection(
            "facts_missing",
            Message("burstable, and the share of its vCPUs it may use for ever is unknown"),
        )
    if instance.ebs_baseline_mib_per_second is None and instance.cloud == "aws":
        return Rejection("facts_missing", Message("its own limit to network disks is unknown"))
    return None


def _check_card(instance: InstanceType) -> Rejection | None:
    if instance.gpu_name is None:
        what = Message("has no GPU")
        if instance.accelerator:
            what = Message("its accelerator ({name}) does not run CUDA", name=instance.accelerator)
        return Rejection("unsupported", what)
    if instance.gpu_vendor != "NVIDIA":
        card = f"{instance.gpu_vendor} {instance.gpu_name}"
        return _no_build(card)
    if instance.gpu_fraction < 1:
        return Rejection(
            "facts_missing",
            Message(
                "its GPU is a {share:g} share of one {gpu}; how fast that is, is not published",
                share=instance.gpu_fraction, gpu=instance.gpu_name,
            ),
        )  # fmt: skip
    return None


def _check_sheet(instance: InstanceType, gpu: Gpu | None) -> Supported | Rejection:
    if gpu is None or gpu.compute_capability is None:
        return Rejection(
            "facts_missing", Message("no data sheet for its {gpu}", gpu=instance.gpu_name)
        )
    capability = gpu.capability
    card = Message(
        "{card} (compute capability {capability})",
        card=gpu.name, capability=gpu.compute_capability,
    )  # fmt: skip
    if capability is None or capability < OLDEST_CUDA_BUILD:
        return _no_build(card)
    if instance.cpu.architecture == "arm64" and capability < OLDEST_ARM_CUDA_BUILD:
        return Rejection(
            "unsupported",
            Message(
                "PyTorch's CUDA builds for arm64 start at {capability}, and it has a {card}",
                capability=OLDEST_ARM_CUDA_BUILD,
                card=card,
            ),
        )
    return Supported(OLD_BUILD_NOTE if capability < OLDEST_CUDA_13_BUILD else "")


def _no_build(card: Message | str) -> Rejection:
    return Rejection(
        "unsupported", Message("no maintained PyTorch build runs on its {card}", card=card)
    )
