"""The part `gpu` of a probe: facts from NVML, sysfs and torch, state under load, copy rates."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from advisor.domain import MIB
from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import text_of
from advisor.sweeps.machine.gpu import Facts, gpu_states, gpus
from advisor.sweeps.probe import session as probing

_DEVICES = Path("/sys/bus/pci/devices")
_TIMEOUT_SECONDS = 10
# Classes: 03xx displays (VGA, 3D controllers), 12xx processing accelerators.
_ACCELERATOR_CLASSES = ("03", "12")
# PCI Express generation by transfer rate of a lane in GT/s.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def parse_generation(speed: str) -> int | None:
    """The PCI Express generation of a speed: '16.0 GT/s PCIe' -> 4; None for an unknown one."""
    match = re.match(r"([\d.]+) GT/s", speed)
    return _GENERATIONS.get(float(match.group(1))) if match else None


def accelerators(root: Path = _DEVICES) -> list[dict[str, object]]:
    """Display and processing accelerators with their PCI Express links, in the order of slots.

    Names come from lspci if it is installed, codes and links from sysfs."""
    named = dict[str, Sequence[str]]()
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        command = ["lspci", "-D", "-mm"]  # lines of slot, class, vendor, device ..
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        lines = map(shlex.split, done.stdout.splitlines())
        named = {fields[0]: fields[2:4] for fields in lines if len(fields) > 3}
    result: list[dict[str, object]] = []
    for entry in sorted(root.glob("*")):
        code = text_of(entry / "class").removeprefix("0x")
        if code[:2] not in _ACCELERATOR_CLASSES:
            continue
        vendor, name = named.get(entry.name, (None, None))
        result.append(
            {
                "slot": entry.name,
                "class_code": code[:4],
                "vendor_code": text_of(entry / "vendor").removeprefix("0x"),
                "device_code": text_of(entry / "device").removeprefix("0x"),
                "vendor": vendor,
                "name": name,
                # The present link and its maximum: idle GPUs slow their links down.
                "pcie_generation": parse_generation(text_of(entry / "current_link_speed")),
                "pcie_width": _lanes(text_of(entry / "current_link_width")),
                "max_pcie_generation": parse_generation(text_of(entry / "max_link_speed")),
                "max_pcie_width": _lanes(text_of(entry / "max_link_width")),
            }
        )
    return result


def _lanes(text: str) -> int | None:
    # The kernel writes 255 for a width that the device does not report.
    return int(text) if text.isdigit() and 0 < int(text) < 255 else None


_BUSY_PERCENT = 5
_MODULE = Path("/proc/driver/nvidia/version")
# Properties that only some versions of torch have.
_OPTIONAL_PROPERTIES = {
    "L2_cache_size": "l2_cache_bytes",
    "memory_bus_width": "memory_bus_bits",
    "clock_rate": "max_sm_clock_khz",
    "max_threads_per_multi_processor": "max_threads_per_multiprocessor",
    "shared_memory_per_multiprocessor": "shared_memory_bytes_per_multiprocessor",
}


def probe_gpu(session: probing.ProbeSession) -> probing.Document:
    """Facts of all GPUs, and rates of torch's device 0. Raises `MeasuringError` if there is no GPU."""
    on_bus = accelerators()
    answer = session.attempt(lambda: {"gpus": gpus()})
    existing = answer.get("gpus", [])
    if not existing and not probing.has_cuda():
        why = answer.get("skipped", "NVML lists none")
        if not on_bus:
            raise MeasuringError(f"no GPU: none on a PCI bus; {why}")
        # Name a card that lacks its driver.
        cards = (str(card["name"] or f"{card['vendor_code']}:{card['device_code']}") for card in on_bus)
        raise MeasuringError(f"on the PCI bus: {', '.join(cards)}; but {why}")
    result: probing.Document = {
        "driver": session.attempt(partial(_driver, existing)),
        "pci": on_bus or probing.skipped("sysfs shows no accelerator on a PCI bus"),
        "nvidia_smi": answer if "skipped" in answer else {"gpus": len(existing)},
    }
    if not probing.has_cuda():
        return result | {"devices": existing, "rates": session.attempt(probing.need_cuda)}
    session.ends_at += session.budget.total / 2  # CUDA's libraries take seconds to load
    result["before"] = session.attempt(lambda: {"gpus": gpu_states()})
    session.warnings += busy_gpus(result["before"].get("gpus", []))
    cuda = probing.load_torch().cuda
    seen = [_torch_facts(n, cuda.get_device_properties(n)) for n in range(cuda.device_count())]
    result["devices"] = merge_devices(existing, seen)
    result["under_load"] = session.attempt(lambda: state_under_load(session.budget))
    return result | copy_rates(session)


def _driver(known: list[Facts]) -> probing.Document:
    return {
        "newest_cuda": next((facts["newest_cuda"] for facts in known), None),
        "cuda_of_torch": probing.load_torch().version.cuda if probing.has_cuda() else None,
        "kernel_module": _MODULE.read_text().splitlines()[0] if _MODULE.exists() else None,
    }


def merge_devices(reported: list[Facts], seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """NVML's GPUs with torch's facts of the same devices; then devices that only torch sees (a MIG slice,
    another vendor)."""
    merged = [dict(facts) for facts in reported]
    by_uuid = {facts["uuid"]: facts for facts in merged}
    for device in seen:
        same = by_uuid.get(f"GPU-{device['uuid']}")
        if same is None:
            merged.append(device)
        else:
            same |= {name: value for name, value in device.items() if same.get(name) is None}
    return merged


def busy_gpus(states: list[Facts]) -> list[str]:
    """A warning for each GPU that other processes already use."""
    shares = [(number, state.get("utilization_percent")) for number, state in enumerate(states)]
    return [
        f"gpu: GPU {number} was {share:.0f} % busy before anything was measured; its figures may be too low"
        for number, share in shares
        if isinstance(share, (int, float)) and share > _BUSY_PERCENT
    ]


def _torch_facts(number: int, properties: Any) -> dict[str, Any]:
    optional = {
        ours: getattr(properties, theirs)
        for theirs, ours in _OPTIONAL_PROPERTIES.items()
        if hasattr(properties, theirs)
    }
    return {
        "torch_index": number,
        "uuid": str(properties.uuid),
        "name": properties.name,
        "memory_mib": properties.total_memory / MIB,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        **optional,
    }


_SIDE = 8192
_SMALL_SIDE = 2048
_SMALL_MEMORY_BYTES = 4 * 2**30
_LOAD_FIGURES = 4  # the load lasts as long as so many transfer figures
_MOST_QUEUED = 900  # after about 1,000 queued launches the host would wait for the device


def state_under_load(budget: probing.ProbeBudget) -> probing.Document:
    """The state of every GPU, read while device 0 multiplies matrices.

    Raises `MeasuringError` if the work ended before the driver answered, since the state would be that of an
    idle GPU."""
    torch = probing.load_torch()
    free, _ = torch.cuda.mem_get_info()
    side = _SIDE if free > _SMALL_MEMORY_BYTES else _SMALL_SIDE
    left = probing.CUDA.random(side, side, dtype=torch.float16)
    product = torch.empty_like(left)
    once = min(probing.CUDA.time_calls(lambda: torch.mm(left, left, out=product), 0.0))
    wanted = budget.transfer_figure * _LOAD_FIGURES
    launches = max(1, min(_MOST_QUEUED, int(wanted / once)))
    for _ in range(launches):
        torch.mm(left, left, out=product)
    done = torch.cuda.Event()
    done.record()
    time.sleep(min(wanted, launches * once) / 4)  # clocks take a moment to rise
    state = gpu_states()
    idle_already = done.query()
    probing.CUDA.synchronize()
    probing.CUDA.free()
    if idle_already:
        raise MeasuringError("the GPU was idle again before the driver had answered")
    return {"gpus": state, "work": f"fp16 products of {side}x{side} matrices on device 0"}


_TRANSFER_BYTES = 128 * MIB
_COPY_BYTES = 1024 * MIB
_SHARE_OF_FREE_MEMORY = 0.2


def copy_rates(session: probing.ProbeSession) -> probing.Document:
    """GB/s (10**9 bytes) of copies over the bus, with pinned and pageable memory, and within the device."""
    seconds = session.budget.transfer_figure
    document: probing.Document = {
        way: {
            memory: session.attempt(partial(_transfer, memory == "pinned", to_host, seconds))
            for memory in ("pinned", "pageable")
        }
        for way, to_host in (("host_to_device", False), ("device_to_host", True))
    }
    document["device_copy"] = session.attempt(partial(_device_copy, seconds))
    probing.CUDA.free()
    return document


def _transfer(pinned: bool, to_host: bool, seconds: float) -> probing.Document:
    torch, size = probing.load_torch(), _fitting_bytes(_TRANSFER_BYTES)
    host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
    device = torch.ones(size, dtype=torch.uint8, device="cuda")
    target, source = (host, device) if to_host else (device, host)
    times = probing.CUDA.time_calls(partial(target.copy_, source, non_blocking=pinned), seconds)
    method = f"torch copies {size // MIB} MiB, {'pinned' if pinned else 'pageable'} host memory"
    return probing.figure([size / time_ / 1e9 for time_ in times], "GB/s", method)


def _device_copy(seconds: float) -> probing.Document:
    torch, size = probing.load_torch(), _fitting_bytes(_COPY_BYTES)
    source, target = (torch.ones(size // 4, dtype=torch.float32, device="cuda") for _ in range(2))
    times = probing.CUDA.time_calls(partial(target.copy_, source), seconds)
    method = f"torch copies {size // MIB} MiB within the GPU, bytes read and written counted"
    return probing.figure([2 * size / time_ / 1e9 for time_ in times], "GB/s", method)


def _fitting_bytes(wanted: int) -> int:
    """The wanted bytes, but at most a fifth of the GPU's free memory, in whole MiB."""
    free, _ = probing.load_torch().cuda.mem_get_info()
    return max(MIB, min(wanted, int(free * _SHARE_OF_FREE_MEMORY)) // MIB * MIB)
