"""A performance model simple enough to check the decision by hand: three rates, their minimum."""

from advisor.domain import CacheState, Prediction, Provenance, Stage, Task
from tests.advisor.engine.one_by_one import OneByOne

MIB = 2**20
# Samples per second of a network on one core, where CPUs shall not compete.
NEXT_TO_NOTHING = 1e-6


def _filled(batch):
    return batch / (batch + 4)


class PlainModel(OneByOne):
    """Rates proportional to fp32 TFLOP/s (or cores, without a GPU), physical cores and disk rate;
    lower is 0.8 x median.

    What RAM holds of the data set is not read again from the disk in a warm cache.
    """

    def __init__(self, *, calibrated=True, cpu_rate=NEXT_TO_NOTHING):
        self.calibrated = calibrated
        self.cpu_rate = cpu_rate

    def predict(self, requests, *, confidence, cache=None):
        return [self._one(*request, confidence, cache) for request in requests]

    def gpu_memory_mib(self, workload):
        return 1000 + 100 * workload.batch_size

    def host_memory_mib(self, _workload, _resources):
        return 4096

    def most_on_cpu(self, workloads, cores, _marks, _cpus):
        return self.cpu_rate * cores * max(_filled(workload.batch_size) for workload in workloads)

    def _missed(self, workload, resources):
        return max(0.0, 1 - resources.memory_mib / workload.dataset.total_mib)

    def _one(self, workload, resources, confidence, cache):
        rates = {Stage.HOST: 150.0 * resources.physical_cores}
        usual = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
        missed = 1 if (cache or usual) is CacheState.COLD else self._missed(workload, resources)
        if resources.disk.read_mib_per_second is not None and missed:
            bytes_per_second = resources.disk.read_mib_per_second * MIB
            rates[Stage.STORAGE] = bytes_per_second / workload.dataset.bytes_per_sample / missed
        if workload.task is not Task.PREPROCESSING:
            gpu = resources.gpu
            alone = 60.0 * gpu.fp32_tflops if gpu else self.cpu_rate * resources.physical_cores
            share = 0.9 if resources.gpu_count > 1 else 1.0
            several = resources.gpu_count * share
            rates[Stage.ACCELERATOR] = alone * _filled(workload.batch_size) * several
        bottleneck = min(rates, key=rates.get)
        median = rates[bottleneck]
        return Prediction(
            lower=0.8 * median,
            median=median,
            upper=1.25 * median,
            confidence=confidence,
            stage_rates=rates,
            bottleneck=bottleneck,
            provenance=Provenance.MODELLED,
            calibrated=self.calibrated,
            gpus_used=resources.gpu_count,
            gpu_efficiency=0.9 if resources.gpu_count > 1 else 1.0,
        )
