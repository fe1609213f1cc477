"""Does the host stage carry a rate over cores, second threads and CPUs as servers measured it?

`python -m benchmarks.vcpu_truth --json` asks the product's own host stage about servers and thread curves of
infra/sources/sparecores (CC BY-SA 4.0, SpareCores). PassMark's CPU mark of every instance is predicted from
whole cores of one other CPU, as a sweep does it: measured on one or two cores of EPYC 9R14 (Zen 4, one thread
a core, the CPU of the bundled sweep), carried to other CPUs by their single-thread mark, to more cores by the
scaling law, to second threads by their yield. The yield was read from PassMark's marks; integer division and
servers with one thread a core had no part in it, so both try it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from msgspec.structs import replace
from numpy.typing import ArrayLike

from advisor.catalog import load_catalog
from advisor.catalog.bundle import DATA_FOLDER
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
_SLOW_DIVIDER = "Xeon E5-|Xeon Platinum 8175M|Xeon Platinum 8259CL|Xeon Platinum 8275CL"
_FEW_CORES, _BIG_CORES, _SMALL_CORES = 2, 8, 16
_WORKLOAD = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)
YieldOf = Callable[[str], float]


def document() -> dict[str, Any]:
    """All figures as JSON has them."""
    servers, curves = measured_servers(), thread_curves()
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


def _known_rows(source: str) -> pd.DataFrame:
    """Rows of servers that the catalogue knows, with their `instance`, its cores, and the name of the CPU."""
    catalog, rows = load_catalog(), []
    for row in read_source(source):
        try:
            instance = catalog.instance(row["server"])
        except AdvisorError:
            continue
        rows.append(
            {
                **row,
                "instance": instance,
                "cpu": plain_cpu_name(row["cpu_model"]),
                "architecture": instance.cpu.architecture,
                "cores": instance.physical_cores,
                "threads": instance.vcpus,
            }
        )
    frame = pd.DataFrame(rows)
    return frame[~frame.server.str.startswith(_SHARED_CORES)].reset_index(drop=True)


def measured_servers() -> pd.DataFrame:
    """PassMark's marks, of one thread (`single`) and of all (`mark`), of every server that has both."""
    frame = _known_rows("sparecores/aws_cpu_scores.csv")
    frame["single"], frame["mark"] = (
        frame.passmark_singlethread.astype(float),
        frame.passmark_cpu_mark.astype(float),
    )
    return frame[(frame.single > 0) & (frame.mark > 0)].reset_index(drop=True)


def thread_curves() -> pd.DataFrame:
    """Of servers with GPUs the `rates` of integer division by number of threads, one thread a core first."""
    frame = _known_rows("sparecores/aws_gpu_servers.csv")
    points = [[point.split(":") for point in text.split("|") if point] for text in frame.stressng_curve]
    rates = [{int(threads): float(rate) for threads, rate in curve} for curve in points]
    return frame.assign(rates=pd.Series(rates))[[1 in curve and len(curve) > 1 for curve in rates]]


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


def _rates_of(servers: pd.DataFrame, yield_of: YieldOf) -> Floats:
    """Of whole instances, with the marks measured on them."""
    return _host_rates(
        [
            _threads(each["instance"], each["threads"], yield_of(each["cpu"]), each["single"])
            for each in servers.to_dict("records")
        ]
    )


def _bundled_yields(column: str) -> Mapping[str, float]:
    """A column of the bundled figures by CPU; those that have none are left out."""
    models = pd.read_csv(DATA_FOLDER / "sparecores" / "cpu_models.csv", index_col="cpu_model")
    return dict(models[column].dropna())


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


def score_instances(servers: pd.DataFrame) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ours by size and architecture, and baselines on the x86 instances of up to 16 cores."""
    scored = servers[servers.cpu != REFERENCE_CPU]
    is_x86, is_small = scored.architecture == "x86_64", scored.cores <= _SMALL_CORES
    small, division = scored[is_x86 & is_small], _bundled_yields("integer_division_yield")

    def errors(name: str, some: pd.DataFrame, yield_of: YieldOf = _usual) -> dict[str, Any]:
        return figures(name, predicted_marks(servers, some, yield_of), some.mark)

    reference = _reference(servers)
    per_vcpu = (reference.mark / reference.threads).median()
    ours = [
        errors("x86, up to 16 cores", small),
        errors("x86, all sizes", scored[is_x86]),
        errors("Arm, up to 16 cores", scored[~is_x86 & is_small]),
    ]
    baselines = [
        errors("yield of integer division", small, lambda cpu: division.get(cpu, 0.0)),
        errors("no yield", small, lambda _: 0.0),
        figures("a vCPU is a vCPU", per_vcpu * small.threads, small.mark),
    ]
    return ours, baselines


def predicted_marks(servers: pd.DataFrame, scored: pd.DataFrame, yield_of: YieldOf) -> Floats:
    """Marks (n,) of the scored servers from the reference's alone."""
    known = _reference(servers)
    scale = float(np.median(known.mark.to_numpy() / _rates_of(known, yield_of)))
    predicted: Floats = scale * _rates_of(scored, yield_of)
    return predicted


def _reference(servers: pd.DataFrame) -> pd.DataFrame:
    return servers[(servers.cpu == REFERENCE_CPU) & (servers.cores <= _FEW_CORES)]


def score_curves(curves: pd.DataFrame) -> list[dict[str, Any]]:
    """Errors over second threads, and from one thread, where the divider leaves room."""
    slow = curves[curves.cpu.str.contains(_SLOW_DIVIDER)]
    points = pd.concat([_curve_points(curve) for curve in slow.to_dict("records")])
    second = points[points.base == points.cores]
    small = points[points.cores <= _BIG_CORES]
    return [
        figures("second threads from all cores, slow dividers", second.predicted, second.true),
        figures("from one thread, up to 8 cores, slow dividers", small.predicted, small.true),
    ]


def _curve_points(curve: Mapping[Any, Any]) -> pd.DataFrame:
    """Rates with one thread a core from the first, and with second threads from all cores."""
    cores, usual, rates = int(curve["cores"]), _usual(curve["cpu"]), curve["rates"]
    counts = sorted({cores, *rates})
    told = dict(
        zip(counts, _host_rates([_threads(curve["instance"], n, usual) for n in counts]), strict=True)
    )
    return pd.DataFrame(
        [
            (cores, base, rates[base] * told[count] / told[base], rates[count])
            for base, most in ((1, cores), (cores, max(counts)))
            for count in sorted(rates)
            if base in rates and base < count <= most
        ],
        columns=["cores", "base", "predicted", "true"],
    )


def score_switched_off(servers: pd.DataFrame) -> list[dict[str, Any]]:
    """The mark with second threads from that without, same CPU and cores; by kind of yield."""
    threaded = servers[servers.threads > servers.cores]
    # Big ones with two threads a core, whose cores are surely their own.
    one = servers[(servers.threads <= servers.cores) & (servers.cores > _BIG_CORES)]
    both = one.merge(threaded, on=["cpu", "cores"], suffixes=("", "_on"))
    off = both.groupby("server", sort=False).first()
    ratios = (both.mark_on / both.single_on).groupby(both.server, sort=False).median()
    true = (ratios / (off.mark / off.single)).to_numpy()
    on = off.assign(instance=off.instance_on, threads=off.threads_on)
    yields: dict[str, YieldOf] = {"usual yield": _usual, "no yield": lambda _: 0.0}
    return [figures(name, _rates_of(on, of) / _rates_of(off, of), true) for name, of in yields.items()]


def _cpu_speed(servers: pd.DataFrame) -> dict[str, float]:
    """Log standard deviation of a CPU's speed, whole cores only. Two CPUs stray, the measured one and the
    asked one: times sqrt(2)."""
    whole = servers[(servers.threads <= servers.cores) & (servers.cores <= _FEW_CORES)]
    logs = (whole.mark / whole.single / whole.cores).transform("log")
    levels = logs.groupby([whole.architecture, whole.cpu]).median().groupby("architecture")
    found: dict[str, float] = {}
    for architecture, of_cpus in levels:
        found[f"{architecture}_cpus"] = len(of_cpus)
        found[f"{architecture}_log_sigma"] = round(float(of_cpus.std() * 2**0.5), 3)
    means = levels.mean()
    return found | {"between_architectures_log_shift": round(float(means.iloc[0] - means.iloc[-1]), 3)}


def _second_threads() -> dict[str, float]:
    yields = np.array(list(_bundled_yields("mixed_marks_yield").values()))
    return {
        "cpus": len(yields),
        "median": round(float(np.median(yields)), 3),
        "log_sigma": round(float(np.std(np.log(yields), ddof=1)), 3),
    }


def _per_doubling(servers: pd.DataFrame, curves: pd.DataFrame) -> dict[str, float]:
    """Root mean square of log error over doublings beyond two cores, both benchmarks alike."""
    slopes = _mark_slopes(servers), _division_slopes(curves)
    both = [float(np.sqrt(np.mean(np.square(part)))) for part in slopes]
    return {
        "mixed_marks": round(both[0], 3),
        "integer_division": round(both[1], 3),
        "log_sigma": round(float(np.hypot(both[0], both[1]) / 2**0.5), 3),
    }


def _mark_slopes(servers: pd.DataFrame) -> list[float]:
    """Per CPU against its own smallest size, so that its speed has no part in it."""
    slopes = []
    for _, group in servers[servers.cpu != REFERENCE_CPU].groupby("cpu"):
        errors = np.log(predicted_marks(servers, group, _usual) / group.mark)
        doublings = np.log2(group.cores / group.cores.min())
        errors -= errors[doublings == 0].median()
        far = doublings >= 1
        if far.any():
            slopes.append(float(np.sqrt(((errors / doublings)[far] ** 2).mean())))
    return slopes


def _division_slopes(curves: pd.DataFrame) -> list[float]:
    slopes = []
    for curve in curves.to_dict("records"):
        cores, rates = int(curve["cores"]), curve["rates"]
        if cores > _FEW_CORES and {cores, _FEW_CORES} <= set(rates):
            few, every = _host_rates([_threads(curve["instance"], n, 0.33) for n in (_FEW_CORES, cores)])
            true = rates[cores] / rates[_FEW_CORES]
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
