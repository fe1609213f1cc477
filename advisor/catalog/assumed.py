"""Assumed facts that answers need and no seller publishes, each with its reason and range.

`catalog/assumed_facts.csv` has one row per fact, for one cloud or several. The row of an instance type lists
the facts that it rests on; a fact about a disk type begins with the type's name. An imported fact replaces
the assumed one, and applies to every type of the cloud."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from advisor.catalog.bundle import Files, table_if_any
from advisor.domain import AssumedFact

FILE = "catalog/assumed_facts.csv"
COLUMNS = ("cloud", "fact", "value", "low", "high", "why")
THREADS_PER_CORE = "threads_per_core"
# Facts that fill a column of the types table unchanged: fact -> column.
_COLUMNS = {"local_disk_gb": "instance_store_gb", "local_disk_read_iops": "instance_store_read_iops"}
LOCAL_READ_IOPS = "local_disk_read_iops"
# The same per GB, for series whose types differ only in disk size; it becomes `LOCAL_READ_IOPS`.
LOCAL_READ_IOPS_PER_GB = "local_disk_read_iops_per_gb"
# MB/s to network disks, for series in which no size has a published limit.
NETWORK_LIMIT = "network_disk_mb_s_per_vcpu"
# Marks without a figure: RAM, cores and local disks (or only cores) follow from the name of the series.
SERIES, SERIES_CORES = "series", "series_cores"
OF_TYPES = (THREADS_PER_CORE, *_COLUMNS)
# Facts of disks, behind the name of their type and a point.
READ_MIB_S, READ_IOPS, USD_PER_GIB_MONTH = "read_mib_s", "read_iops", "usd_per_gib_month"
RATES = (READ_MIB_S, READ_IOPS)

# Fact name -> fact, of one cloud.
Facts = Mapping[str, AssumedFact]


def read_facts(bundles: Iterable[Files]) -> dict[str, dict[str, AssumedFact]]:
    """Assumed facts by cloud and name. Later bundles replace earlier ones, and all but the first are the
    user's imports."""
    facts: dict[str, dict[str, AssumedFact]] = defaultdict(dict)
    for number, files in enumerate(bundles):
        for row in table_if_any(files, FILE).records():
            for cloud in row["cloud"].split(" "):
                facts[cloud][row["fact"]] = AssumedFact(
                    cloud=cloud,
                    name=row["fact"],
                    value=float(row["value"]),
                    low=float(row["low"]),
                    high=float(row["high"]),
                    why=row["why"],
                    imported=number > 0,
                )
    return dict(facts)


def facts_of_type(facts: Facts, row: Mapping[str, str]) -> tuple[AssumedFact, ...]:
    """The facts that a type's row names, and those that the user imported for all types."""
    named, typed = (row.get("assumed") or "").split(" "), dict[str, AssumedFact]()
    for name, fact in facts.items():
        if name == LOCAL_READ_IOPS_PER_GB and name in named:
            gb = float(row["instance_store_gb"])
            low, value, high = (gb * each for each in (fact.low, fact.value, fact.high))
            of_size = replace(fact, name=LOCAL_READ_IOPS, value=value, low=low, high=high)
            typed.setdefault(LOCAL_READ_IOPS, of_size)
        elif name in named or (fact.imported and name in OF_TYPES):
            typed[name] = fact
    return tuple(typed.values())


def with_facts_of_type(row: Mapping[str, str], facts: Iterable[AssumedFact]) -> dict[str, str]:
    """A row of the types table, completed with the assumed facts of its type."""
    completed = dict(row)
    for fact in facts:
        if fact.name == THREADS_PER_CORE:
            completed["physical_cores"] = str(max(1, int(float(row["vcpus"]) / fact.value)))
        elif fact.name in _COLUMNS:
            completed[_COLUMNS[fact.name]] = repr(fact.value)
    return completed


def facts_of_disk(facts: Facts, disk_type: str, kinds: tuple[str, ...] = RATES) -> tuple[AssumedFact, ...]:
    """Assumed facts of a disk type: its rates, or other kinds."""
    names = (f"{disk_type}.{kind}" for kind in kinds)
    return tuple(facts[name] for name in names if name in facts)


def with_facts_of_disk(row: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """A row of the disk type table with its assumed rates, which hold at any size."""
    completed = dict(row)
    for kind, column in ((READ_MIB_S, "mib_s"), (READ_IOPS, "iops")):
        for fact in facts_of_disk(facts, row["type"], (kind,)):
            completed |= {f"{column}_base": repr(fact.value), f"{column}_cap": repr(fact.value)}
            completed |= {f"{column}_per_gib": "0"}
    return completed


def uncertainty_factors(facts: Iterable[AssumedFact]) -> tuple[float, float]:
    """The lowest and highest factor between a true value and its assumed one; 1 and 1 without facts."""
    ends = [(fact.low / fact.value, fact.high / fact.value) for fact in facts]
    return min([1.0, *(low for low, _ in ends)]), max([1.0, *(high for _, high in ends)])
