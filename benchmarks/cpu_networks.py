"""How wrong rates of networks on a CPU are: left-out networks, and CPUs of other people.

    python -m benchmarks.cpu_networks --json [--timm DIR]

Without DIR: errors, and how often one-sided 90 % bounds held, with a family of networks, or a batch
size, left out of the bundled rows; a row's bound stands on residuals of other families alone. DIR
has timm's result files: fp32 inference at batch 1 on i9-10940X (14 cores, AVX-512) and i7-12700H
(6 + 8 cores, AVX2), both with torch.compile. The product's rates are scaled to each by one factor
(the median ratio): what is left is how networks compare there. `factor` is that median over the
rate told for its cores and units at the measured CPU's mark. `between` tells the same of one of
the two told from the other, without any model.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from advisor.domain import Task
from advisor.infra.build.fitting.cpus import HeldOut, held_out
from advisor.infra.build.fitting.observations import MeasuredStep
from advisor.models.bayes import Floats, multipliers
from advisor.models.performance.cpu_step_times import ANOTHER_CPU, CpuColumns
from advisor.models.performance.evaluation import summary_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.step_times_file import bundled_cpu_step_times
from benchmarks.cpu_fit import measured_cpu_steps

# What timm calls the networks whose operations are known.
_NAMES = {"mobilenetv2_100": "mobilenet_v2", "mnasnet_100": "mnasnet1_0"}
_CONFIDENCE = 0.9
# File, cores, and how many times as wide as the measured CPU's the units are.
_MACHINES = {
    "i9-10940X": ("benchmark-infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo.csv", 14.0, 2.0),
    "i7-12700H": ("benchmark-infer-fp32-nchw-pt240-cpu-i7_12700h-dynamo.csv", 14.0, 1.0),
}


def timm_rates(file: Path) -> dict[str, float]:
    """Images per second by torchvision's name, at the size the operations are of."""
    table, found = bundled_networks(), {}
    with file.open() as lines:
        for row in csv.DictReader(lines):
            name = _NAMES.get(row["model"], row["model"])
            known = name in table.names
            if known and int(row["infer_img_size"]) == table[name].input_shape[-1]:
                found[name] = float(row["infer_samples_per_sec"])
    return found


def told(networks: list[str], cores: float, width: float) -> Floats:
    """The product's rates at batch 1."""
    table, times = bundled_networks(), bundled_cpu_step_times()
    one = np.ones(1)
    cpu = CpuColumns(cores * one, one, width * one, np.array([ANOTHER_CPU]))
    found = [times.most(table[name], Task.INFERENCE, [1.0], cpu)[0] for name in networks]
    return np.array(found)


def bounds_held(rows: list[MeasuredStep], held: HeldOut) -> dict[str, float]:
    """Shares of rows above the lower bound and below the upper one of their rates."""
    families = np.array([row.family for row in rows])
    standardised = held.residuals / held.deviations
    above, below = np.empty(len(rows), bool), np.empty(len(rows), bool)
    for family in set(families):
        out = families == family
        by = multipliers(np.sort(standardised[~out]).tolist(), _CONFIDENCE)
        above[out], below[out] = standardised[out] <= by.lower, -standardised[out] <= by.upper
    percent = {"lower_held_percent": above.mean(), "upper_held_percent": below.mean()}
    return {name: round(100 * float(share), 1) for name, share in percent.items()}


def compared(observed: Floats, predicted: Floats) -> dict[str, float]:
    """Errors after one common factor, and that factor."""
    off = np.log(observed / predicted)
    factor = float(np.median(off))
    spread = {"log_deviation": round(float(np.std(off)), 3)}
    return summary_of(off - factor) | {"factor": round(float(np.exp(factor)), 2)} | spread


def on_timm(folder: Path) -> dict[str, dict[str, float]]:
    """By machine, and one machine from the other."""
    rates = {name: timm_rates(folder / file) for name, (file, *_) in _MACHINES.items()}
    shared = sorted(set.intersection(*(set(one) for one in rates.values())))
    columns = {name: np.array([one[key] for key in shared]) for name, one in rates.items()}
    found = {
        name: compared(columns[name], told(shared, cores, vector))
        for name, (_, cores, vector) in _MACHINES.items()
    }
    first, second = columns.values()
    return found | {"between": compared(first, second)}


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--timm", type=Path, metavar="DIR", help="timm's result files")
    arguments = parser.parse_args()
    rows = measured_cpu_steps()
    errors = {
        name: summary_of(-held.residuals) | bounds_held(rows, held) for name, held in held_out(rows).items()
    }
    document = {"benchmark": "cpu_networks", "held_out": errors}
    if arguments.timm:
        document["timm"] = on_timm(arguments.timm)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
