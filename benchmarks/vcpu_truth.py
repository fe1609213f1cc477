"""Does the host stage carry a rate over cores, second threads and CPUs as servers measured it?

`python -m benchmarks.vcpu_truth --json` asks the product's own host stage about servers and thread curves of
infra/sources/sparecores (CC BY-SA 4.0, SpareCores). PassMark's CPU mark of every instance is predicted from
whole cores of one other CPU, as a sweep does it: measured on one or two cores of EPYC 9R14 (Zen 4, one thread
a core, the CPU of the bundled sweep), carried to other CPUs by their single-thread mark, to more cores by the
scaling law, to second threads by their yield. The yield was read from PassMark's marks; integer division and
servers with one thread a core had no part in it, so both try it.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import ArrayLike

from advisor.catalog import load_catalog
from advisor.catalog.bundle import DATA_FOLDER
from advisor.catalog.catalog import Catalog
from advisor.catalog.instances import plain_cpu_name
from advisor.domain import DiskRate, InstanceType, Resources, Task, Workload
from advisor.errors import AdvisorError
from advisor.infra.build.catalog.sparecores import usual_yield
from advisor.infra.build.catalog.tables import read_source
from advisor.models.bayes import Floats
from advisor.models.performance import load_model
from advisor.models.performance.fit import errors_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import PipelineRequest, host_rate, pipeline_columns

SCHEMA = "advisor.vcpu_truth/1"
REFERENCE_CPU = "AMD EPYC 9R14"
# Guests of 2006 to 2008 and fractions of a GPU's server: their vCPUs are shares of a core.
_SHARED_CORES = ("t1.", "m1.", "m2.", "c1.", "g6f.", "gr6f.")
# One thread of a newer core keeps its divider busy: there integer division tells no yield.
_SLOW_DIVIDER = ("Xeon E5-", "Xeon Platinum 8175M", "Xeon Platinum 8259CL", "Xeon Platinum 8275CL")
_FEW_CORES, _BIG_CORES, _SMALL_CORES = 2, 8, 16
_WORKLOAD = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)

YieldOf = Callable[[str], float]
# Predicted and true.
Point = tuple[float, float]


class MeasuredServer(Struct, frozen=True):
    """PassMark's marks of an instance type: one thread's, and that of all its threads."""

    instance: InstanceType
    cpu: str
    single: float
    mark: float

    @property
    def cores(self) -> float:
        """Whole ones."""
        return self.instance.physical_cores

    @property
    def threaded(self) -> bool:
        """Whether its cores have two threads."""
        return self.instance.vcpus > self.cores


class ThreadCurve(Struct, frozen=True):
    """Integer divisions per second by number of threads, one thread a core first."""

    instance: InstanceType
    cpu: str
    rates: Mapping[int, float]


def document() -> dict[str, Any]:
    """All figures as JSON has them."""
    catalog = load_catalog()
    servers, curves = measured_servers(catalog), thread_curves(catalog)
    ours, baselines = score_instances(servers)
    return {
        "schema": SCHEMA,
        "servers": len(servers),
        "curves": len(curves),
        "instances_from_whole_cores_of_another_cpu": ours,
        "instances_baselines_up_to_16_cores": baselines,
        "thread_curves": score_curves(curves),
        "second_threads_switched_on": score_switched_off(servers),
        "spreads": {
            "cpu_speed": _cpu_speed(servers),
            "second_thread_yield": _second_threads(),
            "per_doubling_of_cores": _per_doubling(servers, curves),
        },
    }


def measured_servers(catalog: Catalog) -> list[MeasuredServer]:
    """Every server with both marks that the catalogue knows."""
    servers = (
        MeasuredServer(instance, cpu, float(row["passmark_singlethread"]), float(row["passmark_cpu_mark"]))
        for instance, cpu, row in _known_rows(catalog, "sparecores/aws_cpu_scores.csv")
    )
    return [server for server in servers if min(server.single, server.mark) > 0]


def thread_curves(catalog: Catalog) -> list[ThreadCurve]:
    """Curves of the servers with GPUs, from one thread to all."""
    found = []
    for instance, cpu, row in _known_rows(catalog, "sparecores/aws_gpu_servers.csv"):
        points = (point.split(":") for point in row["stressng_curve"].split("|") if point)
        rates = {int(threads): float(rate) for threads, rate in points}
        if 1 in rates and len(rates) > 1:
            found.append(ThreadCurve(instance, cpu, rates))
    return found


def _known_rows(catalog: Catalog, source: str) -> Iterator[tuple[InstanceType, str, Mapping[str, str]]]:
    for row in read_source(source):
        try:
            instance = catalog.instance(row["server"])
        except AdvisorError:
            continue
        if not row["server"].startswith(_SHARED_CORES):
            yield instance, plain_cpu_name(row["cpu_model"]), row


def _host_rates(resources: Sequence[Resources]) -> Floats:
    """Samples per second (n,) of the bundled model's host stage; only ratios are used here."""
    columns = pipeline_columns(
        [PipelineRequest(_WORKLOAD, each, on_cpu=False) for each in resources], bundled_networks()
    )
    pipeline = load_model().pipeline
    return host_rate(columns, pipeline.parameters, pipeline.reference.score)


def _threads(
    instance: InstanceType, threads: float, second_thread: float, single: float | None = None
) -> Resources:
    """The first `threads` threads of an instance, one a core as long as there are cores; `single` is the mark
    that was measured on it."""
    cpu, cores = instance.cpu, min(threads, instance.physical_cores)
    # A yield of exactly 0 means that nobody knows it.
    known = replace(
        cpu,
        single_thread_score=single or cpu.single_thread_score,
        second_thread_yield=max(second_thread, 1e-9),
    )
    disk = DiskRate(type="unlimited")
    return Resources(vcpus=threads, physical_cores=cores, memory_mib=1024.0, disk=disk, cpu=known)


def _rates_of(servers: Sequence[MeasuredServer], yield_of: YieldOf) -> Floats:
    """Of whole instances, with the marks measured on them."""
    return _host_rates(
        [_threads(each.instance, each.instance.vcpus, yield_of(each.cpu), each.single) for each in servers]
    )


def _bundled_yields(column: str) -> dict[str, float]:
    """A column of the bundled figures by CPU; those that have none are left out."""
    with (DATA_FOLDER / "sparecores" / "cpu_models.csv").open(encoding="utf-8", newline="") as lines:
        return {row["cpu_model"]: float(row[column]) for row in csv.DictReader(lines) if row[column]}


def _usual(cpu: str) -> float:
    """The median yield over all CPUs but this one."""
    mixed = _bundled_yields("mixed_marks_yield")
    return usual_yield({name: value for name, value in mixed.items() if name != cpu})


def figures(name: str, predicted: ArrayLike, true: ArrayLike) -> dict[str, Any]:
    """Errors |predicted / true - 1| in per cent."""
    logs = np.log(np.asarray(true, float) / np.asarray(predicted, float))
    errors = errors_of(logs)
    assert errors is not None
    median, mean, p90 = errors
    return {"name": name, "n": len(logs), "mape_percent": mean, "median_percent": median, "p90_percent": p90}


def score_instances(servers: Sequence[MeasuredServer]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ours by size and architecture, and baselines on the x86 instances of up to 16 cores."""
    scored = [server for server in servers if server.cpu != REFERENCE_CPU]
    x86 = [server for server in scored if server.instance.cpu.architecture == "x86_64"]
    arm = [server for server in scored if server.instance.cpu.architecture != "x86_64"]
    small, small_arm = ([one for one in several if one.cores <= _SMALL_CORES] for several in (x86, arm))
    division = _bundled_yields("integer_division_yield")

    def errors(name: str, several: Sequence[MeasuredServer], yield_of: YieldOf = _usual) -> dict[str, Any]:
        marks = [server.mark for server in several]
        return figures(name, predicted_marks(servers, several, yield_of), marks)

    per_vcpu = np.median([server.mark / server.instance.vcpus for server in _reference(servers)])
    ours = [
        errors("x86, up to 16 cores", small),
        errors("x86, all sizes", x86),
        errors("Arm, up to 16 cores", small_arm),
    ]
    baselines = [
        errors("yield of integer division", small, lambda cpu: division.get(cpu, 0.0)),
        errors("no yield", small, lambda _: 0.0),
        figures(
            "a vCPU is a vCPU",
            [per_vcpu * server.instance.vcpus for server in small],
            [server.mark for server in small],
        ),
    ]
    return ours, baselines


def predicted_marks(
    servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer], yield_of: YieldOf
) -> Floats:
    """Marks (n,) of the scored servers from the reference's alone."""
    known = _reference(servers)
    scale = float(np.median(np.array([server.mark for server in known]) / _rates_of(known, yield_of)))
    predicted: Floats = scale * _rates_of(scored, yield_of)
    return predicted


def _reference(servers: Sequence[MeasuredServer]) -> list[MeasuredServer]:
    return [server for server in servers if server.cpu == REFERENCE_CPU and server.cores <= _FEW_CORES]


def score_curves(curves: Sequence[ThreadCurve]) -> list[dict[str, Any]]:
    """Errors over second threads, and from one thread, where the divider leaves room."""
    threads: list[Point] = []
    small: list[Point] = []
    for curve in curves:
        first, second = _curve_points(curve)
        if any(name in curve.cpu for name in _SLOW_DIVIDER):
            threads += second
            small += [*first, *second] if curve.instance.physical_cores <= _BIG_CORES else []
    return [
        figures("second threads from all cores, slow dividers", *zip(*threads, strict=True)),
        figures("from one thread, up to 8 cores, slow dividers", *zip(*small, strict=True)),
    ]


def _curve_points(curve: ThreadCurve) -> tuple[list[Point], list[Point]]:
    """One thread a core from the first, and second threads from all cores."""
    cores, usual = int(curve.instance.physical_cores), _usual(curve.cpu)
    counts = sorted({cores, *curve.rates})
    told = dict(zip(counts, _host_rates([_threads(curve.instance, n, usual) for n in counts]), strict=True))
    first, second = (
        [
            (curve.rates[base] * told[count] / told[base], curve.rates[count])
            for count in sorted(curve.rates)
            if base in curve.rates and base < count <= most
        ]
        for base, most in ((1, cores), (cores, max(counts)))
    )
    return first, second


def score_switched_off(servers: Sequence[MeasuredServer]) -> list[dict[str, Any]]:
    """The mark with second threads from that without, same CPU and cores; by kind of yield."""
    yields: dict[str, YieldOf] = {"usual yield": _usual, "no yield": lambda _: 0.0}
    points: dict[str, list[Point]] = {name: [] for name in yields}
    for off in servers:
        # Big ones with two threads a core, whose cores are surely their own.
        on = [each for each in servers if each.threaded and (each.cpu, each.cores) == (off.cpu, off.cores)]
        if off.threaded or not on or off.cores <= _BIG_CORES:
            continue
        true = float(np.median([each.mark / each.single for each in on])) / (off.mark / off.single)
        for name, yield_of in yields.items():
            rates = _rates_of([off, replace(on[0], single=off.single)], yield_of)
            points[name].append((float(rates[1] / rates[0]), true))
    return [figures(name, *zip(*found, strict=True)) for name, found in points.items()]


def _cpu_speed(servers: Sequence[MeasuredServer]) -> dict[str, float]:
    """Log standard deviation of a CPU's speed, whole cores only. Two CPUs stray, the measured one and the
    asked one: times sqrt(2)."""
    ratios: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for server in servers:
        if not server.threaded and server.cores <= _FEW_CORES:
            log = float(np.log(server.mark / server.single / server.cores))
            ratios[server.instance.cpu.architecture][server.cpu].append(log)
    medians = {name: [float(np.median(logs)) for logs in cpus.values()] for name, cpus in ratios.items()}
    found: dict[str, float] = {}
    for architecture, levels in sorted(medians.items()):
        found[f"{architecture}_cpus"] = len(levels)
        found[f"{architecture}_log_sigma"] = round(float(np.std(levels, ddof=1) * 2**0.5), 3)
    means = [np.mean(levels) for _, levels in sorted(medians.items())]
    return found | {"between_architectures_log_shift": round(float(means[0] - means[-1]), 3)}


def _second_threads() -> dict[str, float]:
    yields = np.array(list(_bundled_yields("mixed_marks_yield").values()))
    return {
        "cpus": len(yields),
        "median": round(float(np.median(yields)), 3),
        "log_sigma": round(float(np.std(np.log(yields), ddof=1)), 3),
    }


def _per_doubling(servers: Sequence[MeasuredServer], curves: Sequence[ThreadCurve]) -> dict[str, float]:
    """Root mean square of log error over doublings beyond two cores, both benchmarks alike."""
    slopes = _mark_slopes(servers), _division_slopes(curves)
    both = [float(np.sqrt(np.mean(np.square(part)))) for part in slopes]
    return {
        "mixed_marks": round(both[0], 3),
        "integer_division": round(both[1], 3),
        "log_sigma": round(float(np.hypot(*both) / 2**0.5), 3),
    }


def _mark_slopes(servers: Sequence[MeasuredServer]) -> list[float]:
    """Per CPU against its own smallest size, so that its speed has no part in it."""
    slopes = []
    for cpu in sorted({server.cpu for server in servers} - {REFERENCE_CPU}):
        group = [server for server in servers if server.cpu == cpu]
        marks = np.array([server.mark for server in group])
        errors = np.log(predicted_marks(servers, group, _usual) / marks)
        cores = np.array([server.cores for server in group])
        base = float(np.median(errors[cores == cores.min()]))
        doublings = np.log2(cores / cores.min())
        far = doublings >= 1
        if far.any():
            slopes.append(float(np.sqrt(np.mean(((errors - base)[far] / doublings[far]) ** 2))))
    return slopes


def _division_slopes(curves: Sequence[ThreadCurve]) -> list[float]:
    slopes = []
    for curve in curves:
        cores = int(curve.instance.physical_cores)
        if cores > _FEW_CORES and {cores, _FEW_CORES} <= set(curve.rates):
            few, every = _host_rates([_threads(curve.instance, n, 0.33) for n in (_FEW_CORES, cores)])
            true = curve.rates[cores] / curve.rates[_FEW_CORES]
            slopes.append(float(np.log(every / few / true) / np.log2(cores / _FEW_CORES)))
    return slopes


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="there is no other form")
    parser.parse_args()
    print(json.dumps(document(), indent=2))


if __name__ == "__main__":
    main()
