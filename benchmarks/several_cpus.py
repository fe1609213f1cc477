"""Is a fit of nodes with different CPUs as good on each of them as a fit of its own?

`python -m benchmarks.several_cpus --json`. The rows are simulated by the physical form with noise
(`tests.models.performance.synthetic`: three CPUs whose speed is 0.8, 1.2 and 1.0 of what their
marks tell, with contention and second threads of their own): no sweep over three CPUs was measured
so far. Errors are of trials that were held out, medians in per cent.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from advisor.models.performance.fit_pipeline import held_out_residuals, trials_of
from advisor.models.performance.networks import bundled_networks
from advisor.runs.fitting import fit_user_model, reference_cpu
from tests.models.performance.synthetic import CPU_KINDS, sweep_over_cpus

SCHEMA = "advisor.benchmarks.several-cpus/1"


def figures(seed: int) -> dict[str, Any]:
    """Rows fitted of those there are, and the errors of both fits by CPU."""
    rows = sweep_over_cpus(seed=seed)
    together = _errors(rows)
    cpus = {}
    for cpu in CPU_KINDS:
        alone = _errors([row for row in rows if row.environment["cpu_model"] == cpu])[cpu]
        cpus[cpu] = {
            "alone_percent": round(alone, 2),
            "together_percent": round(together[cpu], 2),
            "ratio": round(together[cpu] / alone, 3),
        }
    return {"seed": seed, "rows": len(rows), "fitted": fit_user_model(rows).fitted, "cpus": cpus}


def _errors(rows: list[Any]) -> dict[str, float]:
    """Held-out median errors in per cent, by CPU."""
    residuals = held_out_residuals(trials_of(rows, bundled_networks(), reference_cpu))
    percent = 100 * np.abs(np.expm1(residuals))
    names = np.array([row.environment["cpu_model"] for row in rows])
    return {str(name): float(np.median(percent[names == name])) for name in np.unique(names)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="there is no other form")
    seeds = range(0, 10 * parser.parse_args().seeds, 10)
    print(json.dumps({"schema": SCHEMA, "sweeps": [figures(seed) for seed in seeds]}, indent=1))


if __name__ == "__main__":
    main()
