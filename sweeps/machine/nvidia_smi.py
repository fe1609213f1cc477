"""What nvidia-smi reports. The parsers take its text; one function starts it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

from advisor.errors import MeasuringError

# Fields of `nvidia-smi --help-query-gpu`, and what they are called here.
FACT_FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "pci.bus_id": "pci_slot",
    "name": "name",
    "driver_version": "driver",
    "compute_cap": "compute_capability",
    "memory.total": "memory_mib",
    "clocks.max.sm": "max_sm_clock_mhz",
    "clocks.max.memory": "max_memory_clock_mhz",
    "power.limit": "power_limit_watts",
    "pcie.link.gen.max": "max_pcie_generation",
    "pcie.link.width.max": "max_pcie_width",
    "mig.mode.current": "mig_mode",
    "ecc.mode.current": "ecc_mode",
    "persistence_mode": "persistence_mode",
}
STATE_FIELDS = {
    "uuid": "uuid",
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "power.draw": "power_watts",
    "temperature.gpu": "temperature_celsius",
    "utilization.gpu": "utilization_percent",
    "memory.used": "used_memory_mib",
    "pcie.link.gen.current": "pcie_generation",
    "pcie.link.width.current": "pcie_width",
}
_COUNTERS = "clocks_event_reasons_counters"
# What held the clocks back: now (a set of bits; drivers before 535 call it throttle), and in
# microseconds since the driver was loaded (newer drivers only).
PACE_FIELDS = {
    "uuid": "uuid",
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "temperature.gpu": "temperature_celsius",
    "power.draw": "power_watts",
    "clocks_throttle_reasons.active": "held_back_bits",
    "clocks_event_reasons.active": "held_back_bits_now",
    f"{_COUNTERS}.sw_power_cap": "power_cap_us",
    f"{_COUNTERS}.sw_thermal_slowdown": "driver_thermal_us",
    f"{_COUNTERS}.hw_thermal_slowdown": "hardware_thermal_us",
    f"{_COUNTERS}.hw_power_brake_slowdown": "power_brake_us",
}
_TEXT_FIELDS = frozenset(
    {"uuid", "pci_slot", "name", "driver", "compute_capability", "mig_mode", "ecc_mode",
     "persistence_mode", "held_back_bits", "held_back_bits_now"}
)  # fmt: skip
_TIMEOUT_SECONDS = 20
NOT_INSTALLED = "no_nvidia_smi"  # the code of the error where the program is not here
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
_CUDA_VERSION = re.compile(r"CUDA (?:[A-Z]+ )?Version\s*:\s*(\d+(?:\.\d+)*)")

Run = Callable[[Sequence[str]], str]
Facts = dict[str, str | float | None]


def query(fields: dict[str, str], run: Run | None = None) -> list[Facts]:
    """The asked fields of every GPU; what this driver does not know is left out, what it does
    not report is None. Raises `MeasuringError` where nvidia-smi is missing or fails."""
    run = run or run_nvidia_smi
    wanted = dict(fields)
    while wanted:
        text = run([f"--query-gpu={','.join(wanted)}", "--format=csv,noheader,nounits"])
        unknown = unknown_field(text)
        if unknown is None:
            return parse_query(text, list(wanted.values()))
        if wanted.pop(unknown, None) is None:
            raise MeasuringError(
                "nvidia-smi refuses the field '{unknown}', which was not asked", unknown=unknown
            )
    return []


def parse_query(text: str, names: Sequence[str]) -> list[Facts]:
    """Lines of `--format=csv,noheader,nounits`, one a GPU, as facts by name.

    Lines with another number of values (messages) are passed over. `[N/A]` and its kin are
    None; numbers are floats but for names that stand for text.
    """
    rows = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    return [
        {name: _value(name, cell) for name, cell in zip(names, row, strict=True)}
        for row in rows
        if len(row) == len(names)
    ]


def unknown_field(text: str) -> str | None:
    """The field that this version of nvidia-smi says it does not have."""
    match = _UNKNOWN_FIELD.search(text)
    return match.group(1) if match else None


def parse_cuda_version(banner: str) -> str | None:
    """The newest CUDA that the driver runs, from nvidia-smi's first screen."""
    match = _CUDA_VERSION.search(banner)
    return match.group(1) if match else None


def run_nvidia_smi(arguments: Sequence[str]) -> str:
    """nvidia-smi's stdout, also when it refuses a field (it says so there)."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise MeasuringError(
            "nvidia-smi is not installed",
            hint="install the NVIDIA driver, or start the container with its GPUs",
            code=NOT_INSTALLED,
        )
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise MeasuringError(
            "nvidia-smi did not answer in {timeout_seconds} s", timeout_seconds=_TIMEOUT_SECONDS
        ) from error
    except OSError as error:
        raise MeasuringError(
            "nvidia-smi cannot be started ({strerror})", strerror=error.strerror
        ) from error
    message = done.stdout + done.stderr
    if done.returncode and unknown_field(message) is None:
        raise MeasuringError(
            "nvidia-smi failed: {message}", message=" ".join(message.split())[:200]
        )
    return message if done.returncode else done.stdout


def _value(name: str, cell: str) -> str | float | None:
    if not cell or cell.startswith("[") or cell == "N/A":
        return None
    if name in _TEXT_FIELDS:
        return cell
    try:
        return float(cell)
    except ValueError:
        return None
