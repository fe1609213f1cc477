"""Records with defaults: a test shows only what matters to it."""

from advisor.domain import Cpu, DiskChoice, Gpu, InstanceType, Market, Offer
from tests.builders import instance, price


def make_instance(**changes) -> InstanceType:
    cpu = Cpu(model="some", architecture=changes.pop("architecture", "x86_64"))
    disks = {"ebs_baseline_mib_per_second": 100.0, "ebs_baseline_iops": 3000.0}
    return instance(**({"name": "g9.xlarge", "cpu": cpu} | disks | changes))


def make_cpu_instance(**changes) -> InstanceType:
    no_gpu = {"gpu_name": None, "gpu_vendor": None, "gpu_count": 0, "gpu_memory_mib": None}
    return make_instance(**(no_gpu | {"name": "c9.xlarge"} | changes))


def make_offer(instance: InstanceType | None = None, usd: float = 0.5, **changes) -> Offer:
    facts = {"region": "us-east-1", "market": Market.ON_DEMAND, "price": price(usd, "test")}
    return Offer(instance=instance or make_instance(), **(facts | changes))


def order(disk_type: str, size_gib: float, **provisioned) -> DiskChoice:
    return DiskChoice(type=disk_type, size_gib=size_gib, **provisioned)


def make_gpu(capability: str | None = "7.5", name: str = "T4", **changes) -> Gpu:
    facts = {
        "name": name,
        "vendor": "NVIDIA",
        "architecture": "Turing",
        "compute_capability": capability,
        "memory_mib": 16384,
        "memory_gb_per_second": 320.0,
        "fp32_tflops": 8.1,
    }
    return Gpu(**(facts | changes))
