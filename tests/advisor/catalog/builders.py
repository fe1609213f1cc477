"""Records with defaults: a test shows only what matters to it."""

from __future__ import annotations

from datetime import date

from advisor.domain import Cpu, Gpu, InstanceType, Market, Offer, Price


def make_instance(**changes) -> InstanceType:
    facts = {
        "cloud": "aws",
        "name": "g9.xlarge",
        "vcpus": 4,
        "physical_cores": 2,
        "memory_mib": 16384,
        "cpu": Cpu(model="some", architecture=changes.pop("architecture", "x86_64")),
        "gpu_name": "T4",
        "gpu_vendor": "NVIDIA",
        "gpu_count": 1,
        "gpu_memory_mib": 15360,
        "ebs_baseline_mib_per_second": 100.0,
        "ebs_baseline_iops": 3000.0,
        "as_of": date(2026, 1, 2),
        "source": "test",
    }
    return InstanceType(**(facts | changes))


def make_cpu_instance(**changes) -> InstanceType:
    no_gpu = {"gpu_name": None, "gpu_vendor": None, "gpu_count": 0, "gpu_memory_mib": None}
    return make_instance(**(no_gpu | {"name": "c9.xlarge"} | changes))


def make_offer(instance: InstanceType | None = None, usd: float = 0.5, **changes) -> Offer:
    price = Price(usd_per_hour=usd, kind="list", as_of=date(2026, 1, 2), source="test")
    facts = {"region": "us-east-1", "market": Market.ON_DEMAND, "price": price}
    return Offer(instance=instance or make_instance(), **(facts | changes))


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
