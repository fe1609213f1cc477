"""Anchors and models for tests: data sheets of the catalogue, the bundled rates."""

from dataclasses import replace

import numpy as np

from advisor.catalog import load_catalog
from advisor.domain import Precision, Task, Workload
from models.performance import load_model
from models.performance.anchoring import (
    AnchoredRates,
    GpuTrial,
    OwnSizes,
    OwnTable,
    facts_of_own,
)

MODEL, GPUS = load_model(), load_catalog().gpus
OWN = "my_net"
BATCHES = (8, 32, 64)


def trial(gpu="T4", batch_size=32, step_seconds=0.25, peak_mib=None, **changes):
    values = {
        "task": Task.TRAINING,
        "precision": Precision.FP32,
        "batch_size": batch_size,
        "step_seconds": step_seconds,
        "gpu": GPUS[gpu] if isinstance(gpu, str) else gpu,
        "peak_mib": peak_mib,
        "origin": f"a.json, batch {batch_size} on {gpu}",
    }
    return GpuTrial(**{**values, **changes})


def modelled_seconds(network, gpu, batches, gpu_rates=MODEL.gpu_rates):
    """What the form says of a network of the table, without anybody's measurement."""
    workload = Workload(network=network, task=Task.TRAINING, batch_size=1)
    rates = replace(gpu_rates, anchors={})
    return rates.step_seconds(workload, GPUS[gpu], np.array(batches, dtype=float), MODEL.table)


def heard(*trials, like=None):
    """Rates of an own network: with the operations of `like`, or with none known."""
    operations = MODEL.table[like].operations if like else {}
    table = OwnTable(MODEL.table, facts_of_own(OWN, OwnSizes(), operations))
    return AnchoredRates(
        modelled=replace(MODEL.gpu_rates, anchors={}),
        workload=Workload(network=OWN, task=Task.TRAINING, batch_size=1),
        trials=trials,
        table=table,
    )
