"""`python -m benchmarks.vcpu_truth --json`: host scaling against SpareCores' measured servers.

One JSON document on stdout. Everything is in the checkout; it takes a few seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from advisor.catalog import load_catalog
from benchmarks.vcpu_truth.measured import measured_servers, thread_curves
from benchmarks.vcpu_truth.scores import score_curves, score_instances, score_switched_off, spreads

SCHEMA = "advisor.vcpu_truth/1"


def document() -> dict[str, Any]:
    """All figures as JSON has them."""
    catalog = load_catalog()
    servers, curves = measured_servers(catalog), thread_curves(catalog)
    ours, baselines = score_instances(servers)
    return {
        "schema": SCHEMA,
        "servers": len(servers),
        "curves": len(curves),
        "instances_from_whole_cores_of_another_cpu": [figures.as_document() for figures in ours],
        "instances_baselines_up_to_16_cores": [figures.as_document() for figures in baselines],
        "thread_curves": [figures.as_document() for figures in score_curves(curves)],
        "second_threads_switched_on": [figures.as_document() for figures in score_switched_off(servers)],
        "spreads": spreads(servers, curves),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="there is no other form")
    parser.parse_args()
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")


if __name__ == "__main__":
    main()
