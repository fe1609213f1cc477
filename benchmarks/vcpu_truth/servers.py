"""Measured servers and thread curves of infra/sources/sparecores (CC BY-SA 4.0, SpareCores)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from advisor.catalog.catalog import Catalog
from advisor.catalog.cpus import plain_cpu_name
from advisor.domain import InstanceType
from advisor.errors import AdvisorError
from advisor.infra.build.catalog.tables import read_source

# Guests of 2006 to 2008 and fractions of a GPU's server: their vCPUs are shares of a core.
_SHARED_CORES = ("t1.", "m1.", "m2.", "c1.", "g6f.", "gr6f.")


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
