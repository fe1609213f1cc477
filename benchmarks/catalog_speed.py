"""How fast the catalogue answers: a cold load, questions over all offers, peak memory.

    python benchmarks/catalog_speed.py --json

Each run is a new process. `load` is opening the catalogue after Python and its modules are
there; `cold` is the first question, which reads and checks the files; `warm` the same again.
`import_click_numpy_json_cpu` is importing just that, to compare with.
Medians of the runs; `wall` is what a person waits, `cpu` what it takes of a processor (a busy
machine stretches the first alone). Memory is the process's peak (`ru_maxrss`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

QUESTIONS = {
    "all_offers_of_all_clouds": "cheapest(OfferQuery(cloud='any'), 40)",
    "on_demand_of_all_clouds": "cheapest(OfferQuery(cloud='any', market=Market.ON_DEMAND), 40)",
    "gpu_24gib_of_all_clouds": "offers(OfferQuery(cloud='any', min_gpu_memory_mib=24576))",
    "best_places_of_each_gpu_type": (
        "best_places(OfferQuery(cloud='any', market=Market.ON_DEMAND, accelerated=True))"
    ),
    "best_places_of_each_type": ("best_places(OfferQuery(cloud='any', market=Market.ON_DEMAND))"),
    "aws_us_east_1": "offers(OfferQuery(cloud='aws', region='us-east-1', accelerated=True))",
}
AIM_SECONDS = 0.050
AIM_MIB = 60
_PROCESS = """
import json, resource, time
from advisor.catalog import OfferQuery, load_catalog
from advisor.domain import Market
def now():
    return time.perf_counter(), time.process_time()
times = [now()]
catalog = load_catalog()
times.append(now())
for _ in range(2):
    answer = catalog.{question}
    times.append(now())
count = answer[1] if isinstance(answer, tuple) else len(answer)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
told = {"answers": count, "peak_mib": peak}
for name, before, after in zip(("load", "cold", "warm"), times, times[1:]):
    told[name + "_wall"], told[name + "_cpu"] = (b - a for a, b in zip(before, after))
print(json.dumps(told))
"""
_BASELINE = """
import time
start = time.process_time()
import click, numpy, json
print(json.dumps(time.process_time() - start))
"""


def run(code: str) -> object:
    """What a new process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def measured(question: str, runs: int) -> dict[str, float]:
    """Medians over the runs of one question."""
    results = [run(_PROCESS.replace("{question}", question)) for _ in range(runs)]
    return {key: statistics.median(one[key] for one in results) for key in results[0]}


def main() -> None:
    """Print every question's times, and the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    questions = {name: measured(text, arguments.runs) for name, text in QUESTIONS.items()}
    baseline = statistics.median(run(_BASELINE) for _ in range(arguments.runs))
    print(
        json.dumps(
            {
                "benchmark": "catalog_speed",
                "runs": arguments.runs,
                "questions": questions,
                "import_click_numpy_json_cpu": baseline,
                "aim": {"query_seconds": AIM_SECONDS, "peak_mib": AIM_MIB},
            }
        )
    )


if __name__ == "__main__":
    main()
