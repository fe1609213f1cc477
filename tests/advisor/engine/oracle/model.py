"""A performance model whose every term can bind, fast enough to be asked a million times."""

import math
from statistics import NormalDist

import numpy as np
from msgspec.structs import replace

from advisor.domain import Precision, Stage, Task
from tests.advisor.engine.plain_model import MIB, PlainModel, filled, missed, slowest

OPERATIONS = 4.6  # reads of the disk a sample
CORE_TFLOPS = 0.7  # what a core of mark 2,500 computes; more than any does, so that CPUs often win
_MARK = 2500.0


class OracleModel(PlainModel):
    """The least rate of cores, GPU, copying and disk (MiB/s or IOPS); cards differ in how unsure they are."""

    def predict(self, requests, *, confidence, cache=None):
        z = NormalDist().inv_cdf(confidence)
        return [self._prediction(*request, confidence, z, cache) for request in requests]

    def usual_settings(self, workload, gpus, *, precision, memory_format, smallest_batch):
        def fastest(gpu):
            def rank(way):
                fits = self.gpu_memory_mib(replace(way, batch_size=smallest_batch)) <= gpu.memory_mib
                return fits, _on_gpu(way, gpu)

            ways = [replace(workload, precision=each) for each in (Precision.FP32, Precision.AMP)]
            return max(ways, key=rank) if precision else workload

        return [fastest(gpu) for gpu in gpus]

    def gpu_memory_mib(self, workload):
        share = 1.0 if workload.precision is Precision.FP32 else 0.6
        return 900 + 110 * share * workload.batch_size

    def host_memory_mib(self, workload, resources):
        return 1500 + 200 * resources.vcpus + 8 * workload.batch_size

    def most_on_cpu(self, workloads, cores, marks, cpus):
        """A little more than `_rates` gives where everything else is for nothing."""
        score = np.where(np.isnan(marks), _MARK, marks)
        busy = max(filled(workload.batch_size) for workload in workloads)
        return 1.01 * _step(workloads[0]) * CORE_TFLOPS * cores * score / _MARK * busy

    def _prediction(self, workload, has, confidence, z, cache):
        doubt = _doubt(workload, has)
        calibrated = confidence <= 1 - 0.02 * (doubt + (doubt > 2 and workload.batch_size > 64))
        lower, upper = math.exp(-0.06 * doubt * z), math.exp(0.06 * doubt * z)
        facts = {"gpus_used": has.gpu_count, "calibrated": calibrated}
        return slowest(_rates(workload, has, cache), lower, upper, confidence, **facts)


def _doubt(workload, has):
    """1 to 5, by the GPU's name."""
    named = has.gpu.name if has.gpu and workload.task is not Task.PREPROCESSING else ""
    return 1 + sum(map(ord, named)) % 5


def _rates(workload, has, cache):
    rates = {Stage.HOST: 150.0 * has.physical_cores}
    from_disk = missed(workload, has, cache)
    if from_disk:
        by_bytes = (has.disk.read_mib_per_second or 1e9) * MIB / workload.dataset.bytes_per_sample
        rates[Stage.STORAGE] = min(by_bytes, (has.disk.read_iops or 1e9) / OPERATIONS) / from_disk
    if workload.task is not Task.PREPROCESSING:
        several = has.gpu_count**0.9
        busy = filled(workload.batch_size)
        rates[Stage.ACCELERATOR] = _step(workload) * _tflops(workload, has) * busy * several
        if has.gpu:
            rates[Stage.TRANSFER] = 400.0 * several * (has.host_to_gpu_gb_per_second or 6.0)
    return rates


def _step(workload):
    return 12.0 if workload.task is Task.TRAINING else 60.0


def _tflops(workload, has):
    if has.gpu is None:
        mark = has.cpu.single_thread_score or _MARK
        return CORE_TFLOPS * min(has.vcpus, has.physical_cores) * mark / _MARK
    return _on_gpu(workload, has.gpu)


def _on_gpu(workload, gpu):
    fp16 = 0.0 if workload.precision is Precision.FP32 else 0.3 * (gpu.fp16_tflops or 0.0)
    return max(gpu.fp32_tflops, fp16)
