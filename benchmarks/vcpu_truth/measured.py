"""Measured servers and thread curves of infra/sources/sparecores (CC BY-SA 4.0, SpareCores), and what the
product's own host stage says of their vCPUs: the same columns, the same function, no shortcut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.bundle import DATA_FOLDER
from advisor.catalog.catalog import Catalog
from advisor.catalog.instances import plain_cpu_name
from advisor.domain import Cpu, DiskRate, InstanceType, Resources, Task, Workload
from advisor.errors import AdvisorError
from advisor.infra.build.catalog.second_threads import usual_yield
from advisor.infra.build.catalog.tables import read_source
from advisor.models.bayes import Floats
from advisor.models.performance import load_model
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import PipelineRequest, host_rate, pipeline_columns

# Guests of 2006 to 2008 and fractions of a GPU's server: their vCPUs are shares of a core.
_SHARED_CORES = ("t1.", "m1.", "m2.", "c1.", "g6f.", "gr6f.")

_WORKLOAD = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)
_MEMORY_MIB = 1024.0

_YIELDS_FILE = DATA_FOLDER / "sparecores" / "cpu_models.csv"
Yields = Mapping[str, float]


class MeasuredServer(Struct, frozen=True, kw_only=True):
    """PassMark's marks of an instance type: one thread's, and that of all its threads."""

    instance: InstanceType
    cpu: str
    single: float
    mark: float

    @property
    def name(self) -> str:
        """The instance type."""
        return self.instance.name

    @property
    def threaded(self) -> bool:
        """Whether its cores have two threads."""
        return self.instance.vcpus > self.instance.physical_cores


class ThreadCurve(Struct, frozen=True, kw_only=True):
    """Integer divisions per second by number of threads, one thread a core first."""

    instance: InstanceType
    cpu: str
    rates: dict[int, float]


def measured_servers(catalog: Catalog) -> list[MeasuredServer]:
    """Every server with both marks that the catalogue knows."""
    found = []
    for row in _known_rows(catalog, "sparecores/aws_cpu_scores.csv"):
        single, mark = float(row["passmark_singlethread"]), float(row["passmark_cpu_mark"])
        if min(single, mark) > 0:
            cpu = plain_cpu_name(row["cpu_model"])
            instance = catalog.instance(row["server"])
            found.append(MeasuredServer(instance=instance, cpu=cpu, single=single, mark=mark))
    return found


def thread_curves(catalog: Catalog) -> list[ThreadCurve]:
    """Curves of the servers with GPUs, from one thread to all."""
    found = []
    for row in _known_rows(catalog, "sparecores/aws_gpu_servers.csv"):
        points = (point.split(":") for point in row["stressng_curve"].split("|") if point)
        rates = {int(threads): float(rate) for threads, rate in points}
        if 1 in rates and len(rates) > 1:
            cpu = plain_cpu_name(row["cpu_model"])
            instance = catalog.instance(row["server"])
            found.append(ThreadCurve(instance=instance, cpu=cpu, rates=rates))
    return found


def _known_rows(catalog: Catalog, source: str) -> Sequence[dict[str, str]]:
    rows = []
    for row in read_source(source):
        try:
            catalog.instance(row["server"])
        except AdvisorError:
            continue
        if not row["server"].startswith(_SHARED_CORES):
            rows.append(row)
    return rows


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


def bundled_yields(column: str) -> dict[str, float]:
    """A column of the bundled figures by CPU; those that have none are left out."""
    header, *lines = _YIELDS_FILE.read_text().splitlines()
    names = header.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    return {row["cpu_model"]: float(row[column]) for row in rows if row[column]}


def usual_without(mixed: Yields, cpu: str) -> float:
    """The median over all CPUs but this one."""
    return usual_yield({name: value for name, value in mixed.items() if name != cpu})
