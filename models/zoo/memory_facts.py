"""Memory of one step of every network of the zoo: `python -m models.zoo.memory_facts [FILE]`.

Writes advisor/data/performance/memory.json, with which GPU memory is told without torch; then
`python -m advisor.operations.fitting` seals it. Takes about ten minutes on one core.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from models.zoo.networks import NETWORKS
from models.zoo.opening import Runnable, open_network
from models.zoo.sizes import PATH as SIZES_PATH
from models.zoo.tracing import StepOptions, StepTracer, TracedStep

SCHEMA = "advisor.memory/1"
PATH = SIZES_PATH.with_name("memory.json")
# Between them memory is close to a straight line: a small batch shows the weights' gradients, a
# large one the slope. A network that must really be run stays small.
_FAKE_BATCHES = (16, 128)

# How a step can be run, by the names that models.performance.memory looks them up under.
VARIANTS: Mapping[str, StepOptions] = {
    "training/fp32": StepOptions(training=True),
    "training/16bit": StepOptions(training=True, sixteen_bit=True),
    "training/fp32/checkpointing": StepOptions(training=True, checkpointing=True),
    "training/16bit/checkpointing": StepOptions(
        training=True, sixteen_bit=True, checkpointing=True
    ),
    "inference/fp32": StepOptions(training=False, gradients=False),
    "inference/16bit": StepOptions(training=False, sixteen_bit=True, gradients=False),
    "inference/fp32/gradients": StepOptions(training=False),
    "inference/16bit/gradients": StepOptions(training=False, sixteen_bit=True),
}


def network_memory(
    runnable: Runnable, variants: Mapping[str, StepOptions], *, partly: bool = False
) -> dict[str, Any]:
    """The profile of one network as JSON has it; see `models.performance.memory.profile`.

    The first variant must run; with `partly`, others that cannot are left out.
    """
    tracer = StepTracer(runnable)
    smallest = max(runnable.info.min_training_batch, 2)
    traced: dict[str, list[tuple[int, TracedStep]]] = {}
    for name, options in variants.items():
        try:
            traced[name] = _points(tracer, options, smallest)
        except UsageError as error:
            if not (partly and traced):
                raise
            sys.stderr.write(f"{name}: {error}\n")
    first = next(iter(traced.values()))[0][1]
    return {
        "weights_mib": round(first.weights_mib, 3),
        "trained_mib": round(first.trained_mib, 3),
        "traced": "fake" if first.fake else "run",
        "steps": {
            name: [
                [batch, round(step.forward_mib, 3), round(step.peak_mib, 3)]
                for batch, step in points
            ]
            for name, points in traced.items()
        },
    }


def _points(
    tracer: StepTracer, options: StepOptions, smallest: int
) -> list[tuple[int, TracedStep]]:
    first = tracer.trace(smallest, options)
    others = _FAKE_BATCHES if first.fake else (smallest // 2,)
    points = [(smallest, first), *((one, tracer.trace(one, options)) for one in others)]
    return sorted(points, key=lambda point: point[0])


def main(arguments: Sequence[str]) -> None:
    """Write the profiles of all networks to the file named, or to the bundled place."""
    path = Path(arguments[0]) if arguments else PATH
    networks = {}
    for name in NETWORKS:
        sys.stderr.write(f"{name} ...\n")
        networks[name] = network_memory(open_network(name), VARIANTS)
    document = {"schema": SCHEMA, "networks": networks}
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
