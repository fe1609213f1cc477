"""Scores what ships on public rates of real data and over vCPUs.

`python -m benchmarks.stalls --data DIR --json`; DIR has the layout of the public data sets
(articles/, perfmodel/). The stages, their join and the fit are the product's own
(`advisor.models.performance`), with the bundled model's parameters:

stalls: real-data rates of tf_cnn_benchmarks below 0.95 of the synthetic rate. Known are the
    synthetic rate, and of the host one real-data rate (AlexNet, fp16, inference). What real GPUs
    taught is fitted without the host, then also without all hosts of its CPU.
vcpus: Presto's rate at 8 threads from those at 1, 2 and 4, and Synergy's curves from their first
    point, one more and the accelerator's rate, through the fit that `advisor fit` makes.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import Task
from advisor.infra.build.fitting.stalls import (
    STALLED_BELOW,
    StalledRuns,
    fit_stalls,
    host_speeds,
    joined_log_rates,
    stalled_runs,
)
from advisor.infra.build.performance_sources.stalls import stalled_rows
from advisor.models.bayes import Floats
from advisor.models.performance import load_model
from advisor.models.performance.fit_pipeline import Trials, fit_pipeline, joined_rates
from advisor.models.performance.join import smooth_minimum
from advisor.models.performance.measured_cpus import ReferenceCpu
from advisor.models.performance.pipeline import host_rate

SCHEMA = "advisor.stalls/1"
PRESTO = Path("perfmodel/presto/presto_thread_speedup.csv")
SYNERGY = Path("perfmodel/synergy/synergy_cpu_mem_matrix.csv")
_THREADS = (1, 2, 4, 8)
# Curves that gain less than this from vCPUs say nothing about them.
_GAINS = 1.05
# (group, predicted, true) of one scored point.
Point = tuple[str, float, float]
Rows = list[dict[str, str]]


def stall_figures(data: Path) -> dict[str, Any]:
    """Errors on stalled runs by what was left out, and of simple joins."""
    rows: Rows = stalled_rows(data).astype(str).to_dict("records")
    runs, parameters = stalled_runs(rows), load_model().pipeline.parameters
    seen = _Runs(rows, runs)
    simple = np.column_stack([runs.synthetic, seen.probe_rates()])
    gamma = float(np.exp(parameters["join/gamma"]))
    joins = {
        "hard minimum with the probe's rate": simple.min(axis=1),
        f"smooth minimum, the sweeps' one exponent ({gamma:.2f})": smooth_minimum(simple, gamma)[0],
    }
    same_cpu = seen.predicted(parameters, lambda host: host.partition("-")[0])
    host_out = seen.predicted(parameters, str)
    return {
        "host left out": _figures(seen.points(host_out, "plain")),
        "all hosts of its CPU left out": _figures(seen.points(same_cpu, "plain")),
        "host left out, heavier augmentation": _figures(seen.points(host_out, "distorted")),
        "as it ships, fitted on all hosts": _figures(seen.points(seen.predicted(parameters, None), "plain")),
        **{name: _figures(seen.points(rates, "plain")) for name, rates in joins.items()},
        "fitted": {name: round(x, 4) for name, x in fit_stalls(runs, parameters)[0].items()},
    }


class _Runs:
    """All runs, which of them are scored, and which are probes of their host."""

    def __init__(self, rows: Rows, runs: StalledRuns) -> None:
        def are(name: str, value: str) -> Any:
            return np.array([row[name] == value for row in rows])

        self.runs = runs
        self.systems = [row["host"] for row in rows]
        self.augmentation = [row["augmentation"] for row in rows]
        light = are("network", "alexnet")
        self.probes = light & are("precision", "fp16") & are("task", "inference")
        probed = np.isin(runs.hosts, runs.hosts[self.probes])
        self.scored = ~light & probed & (runs.real < STALLED_BELOW * runs.synthetic)

    def probe_rates(self) -> Floats:
        """The real rate of each run's probe, nan where there is none."""
        probes = self.runs.take(self.probes)
        rates = dict(zip(probes.hosts.tolist(), probes.real.tolist(), strict=True))
        return np.array([rates.get(host, np.nan) for host in self.runs.hosts.tolist()])

    def predicted(self, parameters: Mapping[str, float], alike: Callable[[str], str] | None) -> Floats:
        """Samples per second (n,), nan where nothing is scored; what joins the stages is fitted
        without the systems that are `alike`, or is as it ships."""
        rates = np.full(len(self.systems), np.nan)
        for system in sorted({s for s, one in zip(self.systems, self.scored, strict=True) if one}):
            known = dict(parameters)
            if alike:
                others = np.array([alike(one) != alike(system) for one in self.systems])
                known.update(fit_stalls(self.runs.take(others), parameters)[0])
            own = np.array([one == system for one in self.systems])
            speeds = host_speeds(self.runs.take(own & self.probes), known)
            asked = own & self.scored
            rates[asked] = np.exp(joined_log_rates(self.runs.take(asked), speeds, known))
        return rates

    def points(self, rates: Floats, augmentation: str) -> list[Point]:
        """The scored runs of one augmentation."""
        rows = zip(self.systems, rates, self.runs.real, strict=True)
        kept = zip(rows, self.scored, self.augmentation, strict=True)
        return [row for row, scored, kind in kept if scored and kind == augmentation]


def presto_points(data: Path) -> list[Point]:
    """8 threads from 1, 2 and 4, one point a distinct curve; repeats count with their median."""
    rows = _read(data / PRESTO)
    keys = ("notebook", "cell", "strategy", "sample_count", "dtype")
    curves: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for row in rows:
        of = curves.setdefault(tuple(row[key] for key in keys), {})
        of.setdefault(int(float(row["thread_count"])), []).append(float(row["speedup"]))
    found: dict[tuple[float, ...], Point] = {}
    for key, by_count in curves.items():
        if not set(_THREADS) <= set(by_count):
            continue
        rates = np.array([np.median(by_count[count]) for count in _THREADS])
        curve = tuple(np.round(rates, 5).tolist())
        if curve not in found:
            threads, free = np.array(_THREADS, float), np.full(4, np.inf)
            predicted = _fitted_curve(threads, rates, free, [0, 1, 2])[3]
            found[curve] = (key[0].rpartition("/")[2], predicted, rates[3])
    return list(found.values())


def synergy_points(data: Path) -> list[Point]:
    """The rest of each distinct curve from its first point and the largest count at which cores
    that scale freely would not keep up with the accelerator, whose rate is known."""
    curves: dict[tuple[str, ...], dict[float, list[float]]] = {}
    for row in _read(data / SYNERGY):
        if float(row["norm_throughput"]) > 0:
            key = tuple(row[name] for name in ("model", "folder", "gpus", "mem_col"))
            of = curves.setdefault(key, {})
            of.setdefault(float(row["cpus"]), []).append(float(row["norm_throughput"]))
    points, seen = [], set()
    for key, by_count in curves.items():
        vcpus = np.array(sorted(by_count))
        rates = np.array([np.median(by_count[count]) for count in vcpus])
        same = (key[0], key[2], vcpus.tobytes(), rates.tobytes())
        if len(vcpus) <= 3 or same in seen or rates[-1] <= _GAINS * rates[0]:
            continue
        seen.add(same)
        below = rates[0] * vcpus / vcpus[0] < rates[-1]
        second = max((i for i in range(1, len(vcpus) - 1) if below[i]), default=1)
        alone = np.full(len(vcpus), rates[-1])
        predicted = _fitted_curve(vcpus, rates, alone, [0, second])
        left = [i for i in range(1, len(vcpus) - 1) if i != second]
        points += [(key[0], predicted[i], rates[i]) for i in left]
    return points


def _fitted_curve(cores: Floats, rates: Floats, accelerator: Floats, tried: list[int]) -> Floats:
    """Rates (n,) over cores by the product's fit on those `tried`."""
    columns = stalled_runs([_NOTHING] * len(cores)).columns
    columns = replace(columns, cores=cores, vcpus=cores, batches_ahead=0 * cores)
    # In units in which the first rate is what the priors expect of one core.
    one = host_rate(columns, load_model().pipeline.parameters, 1.0)[0]
    scale = one / rates[0]
    trials = Trials(
        columns=columns,
        cells=(("resnet50", Task.PREPROCESSING),) * len(cores),
        accelerator=accelerator * scale,
        log_rate=np.log(rates * scale),
        modelled=np.zeros(len(cores), dtype=bool),
        cpus=(ReferenceCpu(score=1.0, sigma=0.1),),
    )
    chosen = np.isin(np.arange(len(cores)), tried)
    pipeline = fit_pipeline(trials.take(chosen))
    joined: Floats = joined_rates(trials, pipeline)[0] / scale
    return joined


# A run with no limit but the host's.
_NOTHING = {
    "host": "",
    "gpus": "0",
    "task": "preprocessing",
    "batch_size": "32",
    "input_width": "224",
    "augmentation": "plain",
    "synthetic_samples_per_second": "1",
    "real_samples_per_second": "1",
}


def _read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _figures(points: Sequence[Point]) -> dict[str, Any]:
    """Errors |predicted / true - 1| in per cent, and by group."""
    names = [name for name, _, _ in points]
    errors = np.array([100 * abs(predicted / true - 1) for _, predicted, true in points])
    means = {name: float(errors[np.array(names) == name].mean()) for name in sorted(set(names))}
    return {
        "rows": len(errors),
        "mape_percent": round(float(errors.mean()), 2),
        "median_percent": round(float(np.median(errors)), 2),
        "p90_percent": round(float(np.quantile(errors, 0.9)), 2),
        "groups_alike_percent": round(float(np.mean(list(means.values()))), 2),
        "groups": {name: round(mean, 2) for name, mean in means.items()},
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    data = parser.parse_args().data
    document = {
        "schema": SCHEMA,
        "model": load_model().id,
        "stalls": stall_figures(data),
        "vcpus": {"Presto": _figures(presto_points(data)), "Synergy": _figures(synergy_points(data))},
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
