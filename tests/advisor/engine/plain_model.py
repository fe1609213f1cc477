"""A performance model simple enough to check the decision by hand: three rates, their minimum."""

from types import SimpleNamespace

import numpy as np
from msgspec.structs import replace

from advisor.domain import CacheState, Prediction, Provenance, Stage, Task
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import STAGES

MIB = 2**20
# Samples per second of a network on one core, where CPUs shall not compete.
NEXT_TO_NOTHING = 1e-6


def slowest(rates, lower, upper, confidence, **facts):
    """A prediction whose median is the least of the rates, with bounds in shares of it."""
    bottleneck = min(rates, key=rates.get)
    median = rates[bottleneck]
    return Prediction(
        lower=lower * median,
        median=median,
        upper=upper * median,
        confidence=confidence,
        stage_rates=rates,
        bottleneck=bottleneck,
        provenance=Provenance.MODELLED,
        **facts,
    )


def filled(batch):
    """How much of a device a batch keeps busy."""
    return batch / (batch + 4)


def missed(workload, resources, cache):
    """The share of the data that is read from the disk: in a warm cache what RAM does not hold."""
    usual = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
    if (cache or usual) is CacheState.COLD:
        return 1.0
    return max(0.0, 1 - resources.memory_mib / workload.dataset.total_mib)


class PlainModel:
    """Rates proportional to fp32 TFLOP/s (or cores), physical cores and disk rate; lower is 0.8 x median."""

    table = bundled_networks()

    def __init__(self, *, calibrated=True, cpu_rate=NEXT_TO_NOTHING):
        self.calibrated = calibrated
        self.cpu_rate = cpu_rate

    def prepare(self, requests, *, confidence):
        return _Rows(self, requests, [confidence] * len(requests))

    def predict(self, requests, *, confidence, cache=None):
        return [self._prediction(*request, confidence, cache) for request in requests]

    def usual_settings(self, workload, gpus, **_open):
        return [workload] * len(gpus)

    def gpu_memory_mib(self, workload):
        return 1000 + 100 * workload.batch_size

    def host_memory_mib(self, _workload, _resources):
        return 4096

    def most_on_cpu(self, workloads, cores, _marks, _cpus):
        return self.cpu_rate * cores * max(filled(workload.batch_size) for workload in workloads)

    def _prediction(self, workload, resources, confidence, cache):
        rates = {Stage.HOST: 150.0 * resources.physical_cores}
        from_disk = missed(workload, resources, cache)
        if resources.disk.read_mib_per_second is not None and from_disk:
            bytes_per_second = resources.disk.read_mib_per_second * MIB
            rates[Stage.STORAGE] = bytes_per_second / workload.dataset.bytes_per_sample / from_disk
        share = 0.9 if resources.gpu_count > 1 else 1.0
        if workload.task is not Task.PREPROCESSING:
            gpu = resources.gpu
            alone = 60.0 * gpu.fp32_tflops if gpu else self.cpu_rate * resources.physical_cores
            rates[Stage.ACCELERATOR] = alone * filled(workload.batch_size) * resources.gpu_count * share
        facts = {"gpus_used": resources.gpu_count, "gpu_efficiency": share, "calibrated": self.calibrated}
        return slowest(rates, 0.8, 1.25, confidence, **facts)


class _Rows:
    def __init__(self, model, requests, confidences):
        self._model = model
        self._requests = requests
        self._confidences = confidences

    def beside(self, other):
        confidences = [*self._confidences, *other._confidences]
        return _Rows(self._model, [*self._requests, *other._requests], confidences)

    def with_disks(self, rows, disks):
        pairs = [self._requests[row] for row in rows]
        on_disks = [(w, replace(has, disk=disk)) for (w, has), disk in zip(pairs, disks, strict=True)]
        return self._at(rows, on_disks)

    def columns_with(self, rows, disks, cache=None):
        predictions = self._predicted(rows, disks, cache)
        bounds = {
            name: np.array([getattr(prediction, name) for prediction in predictions])
            for name in ("lower", "median", "upper")
        }
        return SimpleNamespace(
            **bounds,
            calibrated=np.array([prediction.calibrated for prediction in predictions], dtype=bool),
            bottleneck=np.array([STAGES.index(each.bottleneck) for each in predictions], dtype=np.intp),
        )

    def _predicted(self, rows, disks, cache):
        columns = zip(disks.mib_per_second.tolist(), disks.iops.tolist(), strict=True)
        pairs = []
        for row, (rate, iops) in zip(rows.tolist(), columns, strict=True):
            workload, has = self._requests[row]
            rate, iops = (each if each < np.inf else None for each in (rate, iops))
            disk = replace(has.disk, read_mib_per_second=rate, read_iops=iops)
            pairs.append((workload, replace(has, disk=disk)))
        return self._at(rows, pairs, cache)

    def _at(self, rows, pairs, cache=None):
        predictions = [None] * len(pairs)
        for confidence in dict.fromkeys(self._confidences):
            places = [index for index, row in enumerate(rows) if self._confidences[row] == confidence]
            some = self._model.predict([pairs[index] for index in places], confidence=confidence, cache=cache)
            for index, prediction in zip(places, some, strict=True):
                predictions[index] = prediction
        return predictions
