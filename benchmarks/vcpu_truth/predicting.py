"""The product's own host stage on other vCPUs: the same columns, the same function, no shortcut."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.domain import Cpu, DiskRate, InstanceType, Resources, Task, Workload
from advisor.models.bayes import Floats
from advisor.models.performance import load_model
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import PipelineRequest, host_rate, pipeline_columns

_WORKLOAD = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)
_MEMORY_MIB = 1024.0


def host_rates(resources: Sequence[Resources]) -> Floats:
    """Samples per second (n,) of the bundled model's host stage; only ratios are used here."""
    columns = pipeline_columns(
        [PipelineRequest(_WORKLOAD, one, on_cpu=False) for one in resources], bundled_networks()
    )
    pipeline = load_model().pipeline
    return host_rate(columns, pipeline.parameters, pipeline.reference.score)


def whole_instance(instance: InstanceType, single: float, second_thread: float) -> Resources:
    """All of an instance, with the mark measured on it and a given yield of second threads."""
    return _resources(instance.vcpus, instance.physical_cores, instance.cpu, single, second_thread)


def some_threads(instance: InstanceType, threads: int, second_thread: float) -> Resources:
    """The first `threads` threads of an instance, one a core as long as there are cores."""
    cores = min(threads, instance.physical_cores)
    return _resources(threads, cores, instance.cpu, instance.cpu.single_thread_score, second_thread)


def _resources(vcpus: float, cores: float, cpu: Cpu, single: float | None, second_thread: float) -> Resources:
    # A yield of exactly 0 means that nobody knows it.
    known = replace(cpu, single_thread_score=single, second_thread_yield=max(second_thread, 1e-9))
    return Resources(
        vcpus=vcpus, physical_cores=cores, memory_mib=_MEMORY_MIB, disk=DiskRate(type="unlimited"), cpu=known
    )
