"""CPUs by name: the kernel, hypervisors and benchmarks write the same one differently."""

from __future__ import annotations


def plain_cpu_name(name: str) -> str:
    """'Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz' -> 'Intel Xeon Platinum 8259CL'."""
    name = name.partition(" @")[0].replace("(R)", "")
    name = name.replace("INTEL XEON PLATINUM", "Intel Xeon Platinum")
    words = [w for w in name.split() if w not in ("CPU", "Processor", "0") and "-Core" not in w]
    return " ".join(words)
