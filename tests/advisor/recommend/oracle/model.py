"""A performance model whose every term can bind, fast enough to be asked a million times."""

import math
from statistics import NormalDist

from advisor.domain import CacheState, Precision, Prediction, Provenance, Stage, Task

MIB = 2**20
OPERATIONS = 4.6  # reads of the disk a sample


class OracleModel:
    """Rates of cores, GPU, copying and disk (MiB/s or IOPS); the least of them is the median.

    How unsure a GPU is, and up to which confidence that is calibrated, differ from card to card;
    large batches of some are calibrated less.
    """

    def predict(self, requests, *, confidence, cache=None):
        z = NormalDist().inv_cdf(confidence)
        return [self._one(*request, confidence, z, cache) for request in requests]

    def gpu_memory_mib(self, workload):
        share = 1.0 if workload.precision is Precision.FP32 else 0.6
        return 900 + 110 * share * workload.batch_size

    def host_memory_mib(self, workload, resources):
        return 1500 + 200 * resources.vcpus + 8 * workload.batch_size

    def _one(self, workload, has, confidence, z, cache):
        rates = _rates(workload, has, cache)
        bottleneck = min(rates, key=rates.get)
        median, doubt = rates[bottleneck], _doubt(workload, has)
        return Prediction(
            lower=median * math.exp(-0.06 * doubt * z),
            median=median,
            upper=median * math.exp(0.06 * doubt * z),
            confidence=confidence,
            stage_rates=rates,
            bottleneck=bottleneck,
            provenance=Provenance.MODELLED,
            calibrated=confidence <= 1 - 0.02 * (doubt + (doubt > 2 and workload.batch_size > 64)),
        )


def _doubt(workload, has):
    """1 to 5, by the GPU's name."""
    named = has.gpu.name if has.gpu and workload.task is not Task.PREPROCESSING else ""
    return 1 + sum(map(ord, named)) % 5


def _rates(workload, has, cache):
    rates = {Stage.HOST: 150.0 * has.physical_cores}
    missed = _missed(workload, has, cache)
    if missed:
        by_bytes = (has.disk.read_mib_per_second or 1e9) * MIB / workload.dataset.bytes_per_sample
        rates[Stage.STORAGE] = min(by_bytes, (has.disk.read_iops or 1e9) / OPERATIONS) / missed
    if workload.task is not Task.PREPROCESSING:
        tflops = has.gpu.fp32_tflops
        if workload.precision is not Precision.FP32:
            tflops = max(tflops, 0.3 * (has.gpu.fp16_tflops or 0.0))
        step = 12.0 if workload.task is Task.TRAINING else 60.0
        rates[Stage.ACCELERATOR] = step * tflops * workload.batch_size / (workload.batch_size + 4)
        rates[Stage.TRANSFER] = 400.0 * (has.host_to_gpu_gb_per_second or 6.0)
    return rates


def _missed(workload, has, cache):
    usual = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
    if (cache or usual) is CacheState.COLD:
        return 1.0
    return max(0.0, 1 - has.memory_mib / workload.dataset.total_mib)
