"""True if a type can be started and run PyTorch, why not, and which resources it has.

Sources of the compute-capability limits (read 2026-11):
- x86-64: PyTorch's support matrix (RELEASE.md; pytorch/pytorch issue 172352): CUDA 12.6 builds
  hold Maxwell 5.0 to Hopper 9.0, CUDA 12.8 and 13 builds start at Turing 7.5.
- arm64: pytorch/pytorch `.ci/aarch64_linux/aarch64_ci_build.sh`: CUDA wheels are built for 8.0
  and newer only (12.6: "8.0;9.0", 12.8: "8.0;9.0;10.0;12.0", 13.0 adds 11.0), none for 7.5.

All quotas of AWS count vCPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct

from advisor.catalog.catalog import Catalog
from advisor.catalog.clouds import why_closed
from advisor.domain import Disk, Gpu, InstanceType, Market, Node, Offer, Resources, Spec
from advisor.domain.money import NotOrderable
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.quantities import read_number

OLDEST_CUDA_BUILD = 5.0
OLDEST_CUDA_13_BUILD = 7.5
OLDEST_ARM_CUDA_BUILD = 8.0
OLD_BUILD_NOTE = Message("needs a CUDA 12.6 build of PyTorch")
# AWS publishes this limit for all but a few old types; of other clouds few are known here.
UNLIMITED_NOTE = Message("an instance's own limit to network disks counts only where it is published")
_CPU_ARCHITECTURES = ("x86_64", "arm64")


class Supported(Struct, frozen=True):
    """A type that runs the work; `notes` say what the user has to know."""

    notes: tuple[Message, ...] = ()


class Rejection(Struct, frozen=True):
    """Why a type is not ranked: `not_offered`, `unsupported` or `facts_missing`, and the reason in words."""

    reason: str
    detail: Message


def check(
    instance: InstanceType, gpu: Gpu | None, *, needs_gpu: bool, closed: NotOrderable | None = None
) -> Supported | Rejection:
    """Judge a type; `gpu` is its data sheet (None: no GPU, or no known sheet).

    `closed` says why the type cannot be ordered. A type that can never run is judged so first: `not_offered`
    means that it would run and cannot be ordered."""
    verdict: Supported | Rejection | None = _check_host(instance)
    if verdict is None and needs_gpu:
        verdict = _check_card(instance) or _check_sheet(instance, gpu)
    if isinstance(verdict, Rejection):
        return verdict
    if closed is not None:
        return Rejection("not_offered", why_closed(closed))
    unlimited = instance.ebs_baseline_mib_per_second is None
    notes = verdict.notes if verdict else ()
    return Supported((*notes, UNLIMITED_NOTE) if unlimited else notes)


BURSTABLE = Rejection("facts_missing", Message("burstable, and its sustained share of the vCPUs is unknown"))


def _check_host(instance: InstanceType) -> Rejection | None:
    if instance.cpu.architecture not in _CPU_ARCHITECTURES:
        return Rejection(
            "unsupported", Message("its CPU is {arch}: a macOS host", arch=instance.cpu.architecture)
        )
    if instance.burstable:
        return BURSTABLE
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
        why = Message("all rates are of PyTorch on CUDA, which its {card} does not run", card=card)
        return Rejection("unsupported", why)
    if instance.gpu_fraction < 1:
        return Rejection(
            "facts_missing",
            Message(
                "its GPU is a {share:g} share of one {gpu}; how fast that is, is not published",
                share=instance.gpu_fraction,
                gpu=instance.gpu_name,
            ),
        )
    return None


def _check_sheet(instance: InstanceType, gpu: Gpu | None) -> Supported | Rejection:
    if gpu is None or gpu.compute_capability is None:
        return Rejection("facts_missing", Message("no data sheet for its {gpu}", gpu=instance.gpu_name))
    capability = gpu.capability
    card = Message(
        "{card} (compute capability {capability})", card=gpu.name, capability=gpu.compute_capability
    )
    if capability is None or capability < OLDEST_CUDA_BUILD:
        return Rejection("unsupported", Message("no maintained PyTorch build runs on its {card}", card=card))
    if instance.cpu.architecture == "arm64" and capability < OLDEST_ARM_CUDA_BUILD:
        return Rejection(
            "unsupported",
            Message(
                "PyTorch's CUDA builds for arm64 start at {capability}, and it has a {card}",
                capability=OLDEST_ARM_CUDA_BUILD,
                card=card,
            ),
        )
    return Supported((OLD_BUILD_NOTE,) if capability < OLDEST_CUDA_13_BUILD else ())


CLOUD = "aws"
# (quota code, vCPUs that an account may still run); a code without a pair has no limit.
VcpuQuota = tuple[tuple[str, float], ...]


class _Quota(Struct, frozen=True):
    """Instance families that share a quota, with its codes; commitments count as on demand."""

    name: str
    families: tuple[str, ...]
    on_demand: str
    spot: str
    spot_name: str = ""


# Codes as in dstack `backends/aws/compute.py` and three further public files (2024 to 2026).
_QUOTAS = (
    _Quota("G and VT", ("g", "vt"), "L-DB2E81BA", "L-3819A6DF"),
    _Quota("P", ("p",), "L-417A185B", "L-7212CCBC", "P4, P3 and P2"),
    _Quota("Inf", ("inf",), "L-1945791B", "L-B5D1601B"),
    _Quota("Trn", ("trn",), "L-2C3B7624", "L-5480EFD2"),
    _Quota("DL", ("dl",), "L-6E869C2A", "L-85EED4F7"),
    _Quota("F", ("f",), "L-74FC7D96", "L-88CF9481"),
    _Quota("X", ("x",), "L-7295265B", "L-E3A00192"),
    _Quota("Standard", tuple("acdhimrtz"), "L-1216C47A", "L-34B43A08"),
)
_QUOTA_NAMES = {kind.on_demand: f"Running On-Demand {kind.name}" for kind in _QUOTAS} | {
    kind.spot: f"All {kind.spot_name or kind.name} Spot Instance Requests" for kind in _QUOTAS
}
# P5 and later have other spot quotas; the one above covers only P4, P3 and P2.
_OWN_SPOT_QUOTA = re.compile(r"p[5-9]")


def quota_code(instance_type: str, market: Market) -> str | None:
    """The quota of a type: 'g5.xlarge' -> 'L-DB2E81BA'; None where it is not known."""
    family = instance_type.partition(".")[0]
    letters = re.match(r"[a-z]+", family)
    if letters is None or (market is Market.SPOT and _OWN_SPOT_QUOTA.match(family)):
        return None
    name = letters.group()
    kind = _quota_of_family(name) or _quota_of_family("" if name in ("mac", "hpc", "u") else name[:1])
    return _code_on_market(kind, market) if kind else None


def quota_name(code: str) -> str:
    """The name of a quota: 'L-DB2E81BA' -> 'Running On-Demand G and VT'; `KeyError` for any other text."""
    return _QUOTA_NAMES[code]


def quota_text(allowed: Iterable[tuple[str | None, float]], market: Market | None) -> str:
    """A quota as people type it: 'G=8,P=0'; a code where the family means another quota on the market."""
    markets = [market] if market else Market
    names = {_code_on_market(kind, each): kind.name.split()[0] for kind in _QUOTAS for each in markets}
    return ",".join(dict.fromkeys(f"{names.get(code or '', code)}={vcpus:g}" for code, vcpus in allowed))


def most_startable(offer: Offer, allowed: VcpuQuota) -> float:
    """The number of instances of an offer that may be started; infinite where no quota is known."""
    _, vcpus = _vcpu_limit(offer, allowed)
    return vcpus if math.isinf(vcpus) else vcpus // offer.instance.vcpus


def vcpus_of_quota(spec: Spec) -> tuple[str | None, float]:
    """The quota that a spec on AWS counts against (None: not known), and the vCPUs that it takes of it."""
    instance = spec.offer.instance
    code = quota_code(instance.name, spec.offer.market) if instance.cloud == CLOUD else None
    return code, float(spec.count * instance.vcpus)


def quota_shortfall(offer: Offer, allowed: VcpuQuota) -> str | None:
    """The reason why no instance may be started; None where no known quota forbids it."""
    code, most = _vcpu_limit(offer, allowed)
    needed = offer.instance.vcpus
    if code is None or needed <= most:
        return None
    return f"needs {needed} vCPUs of quota {code} ({quota_name(code)}), which allows {most:g}"


def _vcpu_limit(offer: Offer, allowed: VcpuQuota) -> tuple[str | None, float]:
    if not allowed or offer.instance.cloud != CLOUD:
        return None, math.inf
    code = quota_code(offer.instance.name, offer.market)
    return code, dict(allowed).get(code, math.inf) if code else math.inf


def parse_quota(text: str, market: Market) -> VcpuQuota:
    """'G=8,P=0' or 'L-DB2E81BA=8' -> pairs of code and vCPUs; a family means its quota on the market."""
    vcpus_by_code: dict[str, float] = {}
    for part in text.split(","):
        name, equals, vcpus = (piece.strip() for piece in part.partition("="))
        allowed = read_number(vcpus)
        if not (equals and 0 <= allowed < math.inf):
            raise UsageError(f"--quota takes vCPUs of 0 or more by family or code, as G=8,P=0; not '{text}'")
        code = _code_of(name, market)
        if code in vcpus_by_code:
            raise UsageError(f"--quota tells {code} ({quota_name(code)}) twice")
        vcpus_by_code[code] = allowed
    return tuple(vcpus_by_code.items())


def _code_of(name: str, market: Market) -> str:
    if name.upper() in _QUOTA_NAMES:
        return name.upper()
    by_word = {word: kind for kind in _QUOTAS for word in (*kind.families, kind.name.lower())}
    if name.lower() not in by_word:
        known = [word for kind in _QUOTAS for word in (kind.name, *map(str.upper, kind.families))]
        raise unknown_name("quota", name, {*known, *_QUOTA_NAMES}, field="quota")
    return _code_on_market(by_word[name.lower()], market)


def _quota_of_family(letters: str) -> _Quota | None:
    return next((kind for kind in _QUOTAS if letters in kind.families), None)


def _code_on_market(kind: _Quota, market: Market) -> str:
    return kind.spot if market is Market.SPOT else kind.on_demand


def used_gpus(instance: InstanceType, max_gpus: int | None = None) -> int:
    """The number of GPUs in use: all, or at most `max_gpus`; shares of a GPU count as one."""
    whole = instance.gpu_count if instance.gpu_fraction == 1 else 1
    return max(1, min(whole, max_gpus or whole))


def resources_of(
    catalog: Catalog, target: Offer | InstanceType, disk: Disk, max_gpus: int | None = None, nodes: int = 1
) -> Resources:
    """The resources of a workload on an instance and disk: all vCPUs, and all GPUs or `max_gpus` of them.
    With several `nodes` that train together, those of one of them."""
    instance = target.instance if isinstance(target, Offer) else target
    network = instance.network if nodes > 1 else None
    kind: Callable[..., Resources] = Resources
    if network is not None:
        kind = partial(Node, nodes=nodes, gbit_per_second=network.gbit_per_second)
    return kind(
        vcpus=instance.vcpus,
        physical_cores=instance.physical_cores,
        memory_mib=instance.memory_mib,
        disk=disk.rate,
        cpu=instance.cpu,
        gpu=catalog.gpu_of(instance),
        host_to_gpu_gb_per_second=instance.host_to_gpu_gb_per_second,
        gpu_count=used_gpus(instance, max_gpus),
    )
