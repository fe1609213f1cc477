"""Instance types and data sheets of GPUs, built from rows of the bundle, and why some cannot be ordered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from functools import cached_property

from msgspec import Struct

from advisor.catalog.assumed import Facts, facts_of_type, with_facts_of_type
from advisor.catalog.bundle import Files, Table, table_if_any
from advisor.domain import MIB, Cpu, Gpu, InstanceType, NodeNetwork, Range
from advisor.domain.machines import gpu_of_row, number_of
from advisor.domain.money import MAX_AGE_DAYS, NotOrderable
from advisor.messages import Message

GIB = 2**30
NEEDED_FACTS = {
    "vcpus": "vCPUs",
    "physical_cores": "cores",
    "memory_mib": "RAM",
    "gpu_count": "how much GPU it has",
}
# Columns of `<cloud>_instance_types.csv`, of the bundle and of imports alike. `assumed` names rows of
# assumed_facts.csv: facts that no source publishes.
TYPE_COLUMNS = (
    *("instance_type", "vcpus", "physical_cores", "memory_mib", "cpu_architecture", "cpu_manufacturer"),
    *("gpu_vendor", "gpu_name", "gpu_count", "gpu_fraction", "gpu_memory_mib", "accelerator"),
    *("ebs_baseline_mbps", "ebs_baseline_iops", "ebs_burst_mbps", "ebs_burst_iops"),
    *("instance_store_gb", "instance_store_disks", "instance_store_nvme", "instance_store_read_iops"),
    *("burstable", "current", "assumed", "region_set", "source"),
)


# Read rates of local disks from a source under CC BY-SA 4.0.
LOCAL_READS_FILE = "sparecores/{}_local_disks.csv"
LOCAL_READ_COLUMNS = ("instance_type", "read_iops")
# Networks of types with GPUs, each with its source.
NETWORKS_FILE = "catalog/{}_networks.csv"
NETWORK_COLUMNS = ("instance_type", "gbit_per_second", "cards", "source")


class Origin(Struct, frozen=True):
    """The source of a row, and its date; prices are old after `max_age_days`."""

    text: str
    as_of: date
    terms: str = ""
    max_age_days: int = MAX_AGE_DAYS
    note: str = ""


def read_origins(files: Files) -> dict[str, Origin]:
    """Source id -> source."""
    return {
        row["source"]: Origin(
            row["origin"],
            date.fromisoformat(row["as_of"]),
            row.get("terms", ""),
            int(row.get("max_age_days") or MAX_AGE_DAYS),
            row.get("note", ""),
        )
        for row in files.table("catalog/sources.csv").records()
    }


class PartialType(Struct, frozen=True):
    """A type without the facts in `missing`: it is listed, never ranked."""

    cloud: str
    name: str
    vcpus: int | None
    memory_mib: int | None
    gpu_name: str | None
    gpu_count: int | None
    gpu_memory_mib: int | None
    missing: tuple[str, ...]


class InstanceTable(Struct, dict=True, eq=False):
    """Facts of one cloud's types; `find` builds each record once.

    `_overlaid` has refreshed offerings: type -> region -> whether the region offers it."""

    _cloud: str
    _files: Files
    _origins: Mapping[str, Origin]
    _facts: Facts = {}
    _overlaid: Mapping[str, Mapping[str, bool]] = {}
    _built: dict[str, InstanceType | None] = {}

    @cached_property
    def _table(self) -> Table:
        """The types; those whose facts have another licence are in a table of `sparecores`."""
        table = self._files.table(f"catalog/{self._cloud}_instance_types.csv")
        table.lines.extend(table_if_any(self._files, f"sparecores/{self._cloud}_instance_types.csv").lines)
        return table

    @cached_property
    def _lines(self) -> dict[str, str]:
        return self._table.lines_by_key()

    @property
    def names(self) -> tuple[str, ...]:
        """Every known type, retired ones included, in the bundle's order."""
        return tuple(self._lines)

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def find(self, name: str) -> InstanceType | None:
        """The facts of a type; None where a needed one is missing."""
        if name not in self._built:
            row = self._table.record(self._lines[name])
            self._built[name] = None if _missing_facts(row) else self._build(row)
        return self._built[name]

    def partial(self, name: str) -> PartialType:
        """The known facts of a type, complete or not."""
        row = self._table.record(self._lines[name])
        return PartialType(
            cloud=self._cloud,
            name=name,
            vcpus=int(row["vcpus"]) if row["vcpus"] else None,
            memory_mib=int(row["memory_mib"]) if row["memory_mib"] else None,
            gpu_name=row["gpu_name"] or None,
            gpu_count=int(row["gpu_count"]) if row["gpu_count"] else None,
            gpu_memory_mib=int(float(row["gpu_memory_mib"])) if row["gpu_memory_mib"] else None,
            missing=_missing_facts(row),
        )

    @cached_property
    def accelerated(self) -> frozenset[str]:
        """Names of the types with a GPU or another accelerator."""
        return self._by_kind[0]

    def cpu_only(self, vcpus: Range, memory_mib: Range) -> Collection[str]:
        """Names of CPU types with all needed facts whose vCPUs and RAM are in these ranges."""
        types = self._by_kind[1]
        if not vcpus.limits and not memory_mib.limits:
            return types.keys()
        return [
            name
            for name, (threads, _, mib, _) in types.items()
            if int(threads) in vcpus and int(mib) in memory_mib
        ]

    def cpu_facts(self, name: str) -> tuple[float, float, str, bool]:
        """Whole cores, single-thread mark (nan: not measured), CPU model, and whether a CPU type has its
        vCPUs only for a share of the time."""
        threads, cores, _, burst = self._by_kind[1][name]
        servers, lines = self._measured
        measured = servers.record(lines[name]) if name in lines else {}
        mark = float(measured.get("single_thread_score") or "nan")
        return min(float(threads), float(cores)), mark, measured.get("cpu_model", ""), burst == "1"

    @cached_property
    def _by_kind(self) -> tuple[frozenset[str], dict[str, tuple[str, str, str, str]]]:
        """Names of accelerated types; and CPU types by name, with vCPUs, cores, MiB of RAM and whether they
        burst, as text. One pass for both: splitting the lines is the slow part."""
        column = self._table.column
        vcpus, cores, memory, count = (column[name] for name in NEEDED_FACTS)
        gpu, other, burst = column["gpu_name"], column["accelerator"], column["burstable"]
        last = 1 + max(vcpus, cores, memory, count, gpu, other, burst)
        accelerated, cpu_only = [], {}
        for line in self._table.lines:
            cells = line.split(",", last)
            if cells[gpu] or cells[other]:
                accelerated.append(cells[0])
            elif cells[count] == "0" and cells[vcpus] and cells[cores] and cells[memory]:
                cpu_only[cells[0]] = cells[vcpus], cells[cores], cells[memory], cells[burst]
        return frozenset(accelerated), cpu_only

    @cached_property
    def gpu_names(self) -> frozenset[str]:
        """Names of the GPUs in these types."""
        gpu = self._table.column["gpu_name"]
        return frozenset(cells[gpu] for cells in self._table if cells[gpu])

    @cached_property
    def _regions_of_set(self) -> dict[str, frozenset[str]]:
        sets = self._files.table(f"catalog/{self._cloud}_region_sets.csv")
        return {key: frozenset(regions.split(" ")) for key, regions in sets}

    @cached_property
    def _measured(self) -> tuple[Table, dict[str, str]]:
        """The table of measured facts and its lines by type; empty for clouds that nobody measured."""
        table = table_if_any(self._files, f"sparecores/{self._cloud}_servers.csv")
        return table, table.lines_by_key()

    @cached_property
    def _local_reads(self) -> dict[str, str]:
        table = table_if_any(self._files, LOCAL_READS_FILE.format(self._cloud))
        return {cells[0]: cells[1] for cells in table}

    @cached_property
    def _networks(self) -> dict[str, NodeNetwork]:
        table = table_if_any(self._files, NETWORKS_FILE.format(self._cloud))
        return {
            name: NodeNetwork(
                gbit_per_second=float(rate), cards=int(cards), source=self._origins[source].text
            )
            for name, rate, cards, source in table
        }

    @cached_property
    def _yields(self) -> dict[str, float]:
        models = table_if_any(self._files, "sparecores/cpu_models.csv").records()
        return {row["cpu_model"]: float(row["second_thread_yield"]) for row in models}

    @cached_property
    def regions(self) -> frozenset[str]:
        """Every region that offers anything."""
        overlaid = (self._overlaid[name] for name in self._overlaid if name in self._lines)
        offered = {region for regions in overlaid for region, there in regions.items() if there}
        return frozenset().union(offered, *self._regions_of_set.values())

    def regions_of(self, name: str) -> frozenset[str]:
        """Regions that offer a type; empty for a retired one."""
        row = self._lines[name].split(",")
        regions = self._regions_of_set.get(row[self._table.column["region_set"]], frozenset())
        overlaid = self._overlaid.get(name)
        if overlaid is None:
            return regions
        return regions.union(overlaid) - {region for region, there in overlaid.items() if not there}

    def _build(self, row: Mapping[str, str]) -> InstanceType:
        name = row["instance_type"]
        if name in self._local_reads:
            row = {**row, "instance_store_read_iops": self._local_reads[name]}
        assumed = facts_of_type(self._facts, row)
        row = with_facts_of_type(row, assumed)
        servers, lines = self._measured
        line = lines.get(name)
        measured = servers.record(line) if line else {}
        origin = self._origins[row["source"]]
        gpu_memory = measured.get("gpu_memory_mib") or row["gpu_memory_mib"]
        return InstanceType(
            cloud=self._cloud,
            name=name,
            vcpus=int(row["vcpus"]),
            physical_cores=int(row["physical_cores"]),
            memory_mib=int(row["memory_mib"]),
            cpu=self._cpu(row, measured),
            gpu_name=row["gpu_name"] or None,
            gpu_vendor=row["gpu_vendor"] or None,
            gpu_count=int(row["gpu_count"]),
            gpu_fraction=float(row["gpu_fraction"] or 1),
            gpu_memory_mib=int(float(gpu_memory)) if gpu_memory else None,
            host_to_gpu_gb_per_second=number_of(measured.get("host_to_gpu_gb_per_second")),
            accelerator=row["accelerator"] or None,
            cpu_score_basis=measured.get("cpu_basis", ""),
            ebs_baseline_mib_per_second=_mib_per_second(row["ebs_baseline_mbps"]),
            ebs_baseline_iops=number_of(row["ebs_baseline_iops"]),
            ebs_burst_mib_per_second=_mib_per_second(row["ebs_burst_mbps"]),
            ebs_burst_iops=number_of(row["ebs_burst_iops"]),
            # Sizes of local disks are sold in GB of 10**9 bytes.
            instance_store_gib=float(row["instance_store_gb"] or 0) * 1e9 / GIB,
            instance_store_read_iops=number_of(row["instance_store_read_iops"]),
            network=self._networks.get(name) if row["gpu_name"] else None,
            burstable=row["burstable"] == "1",
            current=row["current"] == "1",
            assumed=assumed,
            as_of=origin.as_of,
            source=origin.text,
        )

    def _cpu(self, row: Mapping[str, str], measured: Mapping[str, str]) -> Cpu:
        """The CPU of a type. A vCPU that is a whole core has no second thread, whatever its model yields."""
        unnamed = f"{row['cpu_manufacturer']} (model not published)".strip()
        model = measured.get("cpu_model") or unnamed
        threaded = int(row["vcpus"]) > int(row["physical_cores"])
        return Cpu(
            model=model,
            architecture=row["cpu_architecture"],
            single_thread_score=number_of(measured.get("single_thread_score")),
            second_thread_yield=self._yields.get(model, 0.0) if threaded else 0.0,
        )


def _missing_facts(row: Mapping[str, str]) -> tuple[str, ...]:
    """Names of needed facts that a row of the types table lacks."""
    return tuple(word for column, word in NEEDED_FACTS.items() if not row[column])


def _mib_per_second(mbps: str) -> float | None:
    """MiB/s of EC2's Mbps (10**6 bit/s); its "ThroughputInMBps" is that over 8."""
    return float(mbps) * 1e6 / 8 / MIB if mbps else None


ORDERABLE_FILE = "catalog/not_orderable.csv"
ORDERABLE_COLUMNS = ("cloud", "types", "market", "region", "status", "as_of", "source")
# Status -> its text for users. A market is named where only that one is closed.
STATUSES = {
    "retired": Message("{cloud} retired it on {as_of}"),
    "undescribed": Message("retired: {cloud} describes it no longer (seen on {as_of})"),
    "unlisted": Message("retired: {cloud}'s list of {as_of} has it in no region"),
    "spot_only": Message(
        "not sold on demand (seen on {as_of}), spot and flex-start only: ask with {market} spot"
    ),
    "reserved": Message(
        "not sold on demand (seen on {as_of}): {cloud} sells it by reservation or capacity block"
    ),
    "withdrawn": Message("{region} no longer offers it ({cloud} said so on {as_of})"),
    "elsewhere": Message("not offered in this region"),
}


def restrictions_by_type(files: Files, cloud: str, names: Iterable[str]) -> dict[str, list[NotOrderable]]:
    """Type -> statements that it cannot be ordered; a row whose type ends in `*` is for a prefix."""
    restrictions: dict[str, list[NotOrderable]] = {}
    for row in table_if_any(files, ORDERABLE_FILE).records():
        if row["cloud"] != cloud:
            continue
        facts = {name: row[name] for name in ("status", "market", "region", "source")}
        closed = NotOrderable(cloud=cloud, as_of=date.fromisoformat(row["as_of"]), **facts)
        start, star, _ = row["types"].partition("*")
        for name in [name for name in names if name.startswith(start)] if star else [start]:
            restrictions.setdefault(name, []).append(closed)
    return restrictions


class GpuSheet(Struct, frozen=True, kw_only=True):
    """A data sheet with figures that people choose by and predictions do not need; None: unknown.

    `fp64_tflops` is without tensor cores; `link` connects the GPU to the host and to other GPUs."""

    gpu: Gpu
    fp64_tflops: float | None
    int8_tops: float | None
    fp8_tflops: float | None
    link: str | None


def read_sheets(files: Files) -> Mapping[str, GpuSheet]:
    """Data sheets by name; memory is nominal, rates are dense."""
    sheets = {}
    for row in files.table("catalog/gpus.csv").records():
        gpu = gpu_of_row(row)
        sheets[gpu.name] = GpuSheet(
            gpu=gpu,
            fp64_tflops=number_of(row["fp64_tflops"]),
            int8_tops=number_of(row["int8_tops"]),
            fp8_tflops=number_of(row["fp8_tflops"]),
            link=row["link"] or None,
        )
    return sheets


def plain_cpu_name(name: str) -> str:
    """A shorter name: 'Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz' -> 'Intel Xeon Platinum 8259CL'."""
    name = name.partition(" @")[0].replace("(R)", "")
    name = name.replace("INTEL XEON PLATINUM", "Intel Xeon Platinum")
    words = [w for w in name.split() if w not in ("CPU", "Processor", "0") and "-Core" not in w]
    return " ".join(words)
