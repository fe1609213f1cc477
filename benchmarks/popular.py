"""Twenty popular networks and those of the articles on four GPUs, beside public figures.

    python -m benchmarks.popular [--markdown]

Prints JSON, or a Markdown table. A public figure is the measured row whose
batch is nearest, with PyTorch, of the same network, task, precision and GPU; most of them are
among the rows that the predictor was fitted on, so they show what it makes of them, not how good
it is (docs/internals/accuracy/shipped.md does).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from advisor.catalog import load_catalog
from advisor.domain import Precision, Task, Workload
from advisor.infra.build.fitting.observations import MeasuredStep
from advisor.models.performance import load_model
from benchmarks.bundled_model import measured_steps

NETWORKS = (
    "resnet18",
    "resnet152",
    "vit_b_16",
    "vit_large_patch16_224",
    "swin_b",
    "convnext_base",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "mobilenet_v3_large",
    "densenet121",
    "regnety_032",
    "bert-base-uncased",
    "roberta-large",
    "distilbert-base-uncased",
    "t5-base",
    "whisper-small",
    "yolov5s",
    "fasterrcnn_resnet50_fpn",
    "stable-diffusion-1.5",
    "deeplabv3_resnet50",
    "alexnet",
    "googlenet",
    "resnet50",
    "vgg16",
    "inception_v3",
    "lstm_ptb_medium",
    "yolov3",
    "nasnetalarge",
)
GPUS = ("T4", "A10G", "A100-SXM4-40GB", "H100-SXM5-80GB")
BATCH = 16


def answers() -> Iterator[dict[str, Any]]:
    """One for each network, task, precision and GPU."""
    model, sheets = load_model(), load_catalog().gpus
    rows = [row for row in measured_steps()[0] if row.is_pytorch]
    for name in NETWORKS:
        facts = model.table.find(name)
        for task in (Task.INFERENCE, Task.TRAINING):
            if task not in facts.kernels:
                continue
            for precision in (Precision.FP32, Precision.AMP):
                for gpu in GPUS:
                    workload = Workload(network=name, task=task, batch_size=BATCH, precision=precision)
                    (found,) = model.predict_gpu([workload], sheets[gpu])
                    yield {
                        "network": facts.name,
                        "task": str(task),
                        "precision": str(precision),
                        "gpu": gpu,
                        "batch_size": BATCH,
                        "lower": found.lower,
                        "median": found.median,
                        "upper": found.upper,
                        "unit": f"{facts.sample}s/s",
                        "provenance": str(found.provenance),
                        "calibrated": found.calibrated,
                        "public": _public(rows, facts.key, workload, gpu),
                    }


def _public(rows: Sequence[MeasuredStep], key: str, workload: Workload, gpu: str) -> dict[str, Any] | None:
    asked = (key, str(workload.task), str(workload.precision), gpu)
    alike = [
        row
        for row in rows
        if (
            row.cell.network,
            row.cell.step.conditions.task,
            row.cell.step.conditions.precision,
            row.cell.step.conditions.gpu.name,
        )
        == asked
        and row.cell.step.conditions.stack == "eager"
    ]
    if not alike:
        return None
    nearest = min(alike, key=lambda row: abs(math.log(row.cell.step.batch_size / BATCH)))
    batch = nearest.cell.step.batch_size
    return {"batch_size": batch, "rate": batch / nearest.seconds, "source": nearest.source}


def _markdown(found: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| network | task | precision | " + " | ".join(GPUS) + " | public, batch, source |",
        "| --- | --- | --- |" + " --- |" * (len(GPUS) + 1),
    ]
    for start in range(0, len(found), len(GPUS)):
        four = found[start : start + len(GPUS)]
        first = four[0]
        cells = [f"{_number(o['median'])} ({_number(o['lower'])}-{_number(o['upper'])})" for o in four]
        public = "; ".join(
            f"{o['gpu'].partition('-')[0]} {_number(o['public']['rate'])}, "
            f"{o['public']['batch_size']:.0f}, {o['public']['source']}"
            for o in four
            if o["public"]
        )
        lines.append(
            f"| {first['network']} | {first['task']} | {first['precision']} | "
            f"{' | '.join(cells)} | {public} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--markdown", action="store_true", help="print a table")
    parser.add_argument("--json", action="store_true", help="JSON (always so without --markdown)")
    found = list(answers())
    if parser.parse_args().markdown:
        print(_markdown(found))
    else:
        print(json.dumps({"schema": "advisor.popular/1", "rows": found}))


if __name__ == "__main__":
    main()
