"""A performance model simple enough to check the decision by hand: three rates, their minimum."""

from advisor.domain import CacheState, Prediction, Provenance, Stage, Task

MIB = 2**20


class PlainModel:
    """Rates proportional to fp32 TFLOP/s, physical cores and disk rate; lower is 0.8 x median.

    What RAM holds of the data set is not read again from the disk in a warm cache.
    """

    def __init__(self, *, calibrated=True):
        self.calibrated = calibrated

    def predict(self, requests, *, confidence, cache=None):
        return [self._one(*request, confidence, cache) for request in requests]

    def gpu_memory_mib(self, workload):
        return 1000 + 100 * workload.batch_size

    def host_memory_mib(self, _workload, _resources):
        return 4096

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
            batch = workload.batch_size
            alone = 60.0 * resources.gpu.fp32_tflops * batch / (batch + 4)
            share = 0.9 if resources.gpu_count > 1 else 1.0
            rates[Stage.ACCELERATOR] = alone * resources.gpu_count * share
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
