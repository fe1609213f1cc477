"""Accelerators on the PCI bus, by lspci or sysfs: found without any driver or package."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

_DEVICES = Path("/sys/bus/pci/devices")
# Classes: 03xx displays (VGA, 3D controllers), 12xx processing accelerators.
_ACCELERATOR_CLASSES = ("03", "12")
_TIMEOUT_SECONDS = 10
_NAME_AND_CODE = re.compile(r"^(.*?)\s*\[([0-9a-f]{4})\]$")
# Transfer rate a lane of each PCI Express generation, in GT/s.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


class PciDevice(Struct, frozen=True):
    """A device as lspci names it; codes are hexadecimal, four digits."""

    slot: str
    class_code: str
    vendor: str
    name: str
    vendor_code: str
    device_code: str


def parse_lspci(text: str) -> list[PciDevice]:
    """The lines of `lspci -D -mm -nn`; those of another shape are passed over."""
    devices = []
    for line in text.splitlines():
        try:
            fields = shlex.split(line)
        except ValueError:
            continue
        named = [_NAME_AND_CODE.match(word) for word in fields[1:4]]
        if len(named) == 3 and all(named):
            (_, kind), (vendor, vendor_code), (name, code) = (m.groups() for m in named if m)
            devices.append(PciDevice(fields[0], kind, vendor, name, vendor_code, code))
    return devices


def parse_generation(speed: str) -> int | None:
    """'16.0 GT/s PCIe' -> 4; None for what is no known speed."""
    match = re.match(r"([\d.]+) GT/s", speed)
    return _GENERATIONS.get(float(match.group(1))) if match else None


def accelerators(root: Path = _DEVICES) -> list[dict[str, object]]:
    """Display and processing accelerators with their PCI Express links, in the order of slots.

    Names come from lspci where it is installed; sysfs has the codes and the links.
    """
    names = {device.slot: device for device in parse_lspci(_lspci())}
    result = []
    for place in sorted(root.glob("*")):
        code = _text(place / "class").removeprefix("0x")
        if code[:2] not in _ACCELERATOR_CLASSES:
            continue
        existing = names.get(place.name)
        result.append(
            {
                "slot": place.name,
                "class_code": code[:4],
                "vendor_code": _text(place / "vendor").removeprefix("0x"),
                "device_code": _text(place / "device").removeprefix("0x"),
                "vendor": existing.vendor if existing else None,
                "name": existing.name if existing else None,
                **read_link(place),
            }
        )
    return result


def read_link(device: Path) -> dict[str, object]:
    """Generation and lanes of the link now and at most. Idle GPUs slow their links down."""
    return {
        "pcie_generation": parse_generation(_text(device / "current_link_speed")),
        "pcie_width": _lanes(_text(device / "current_link_width")),
        "max_pcie_generation": parse_generation(_text(device / "max_link_speed")),
        "max_pcie_width": _lanes(_text(device / "max_link_width")),
    }


def _lanes(text: str) -> int | None:
    # 255 is how the kernel writes a width that the device does not report.
    return int(text) if text.isdigit() and 0 < int(text) < 255 else None


def _lspci() -> str:
    program = shutil.which("lspci")
    if program is None:
        return ""
    command = [program, "-D", "-mm", "-nn"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
