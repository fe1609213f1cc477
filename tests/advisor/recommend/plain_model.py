"""A performance model simple enough to check the decision by hand: three rates, their minimum."""

from advisor.domain import Prediction, Provenance, Stage, Task

MIB = 2**20


class PlainModel:
    """Rates proportional to fp32 TFLOP/s, physical cores and disk rate; lower is 0.8 x median."""

    def __init__(self, *, calibrated=True):
        self.calibrated = calibrated

    def predict(self, requests, *, confidence):
        return [self._one(workload, resources, confidence) for workload, resources in requests]

    def gpu_memory_mib(self, workload):
        return 1000 + 100 * workload.batch_size

    def host_memory_mib(self, _workload, _resources):
        return 4096

    def _one(self, workload, resources, confidence):
        rates = {Stage.HOST: 150.0 * resources.physical_cores}
        if resources.disk.read_mib_per_second is not None:
            bytes_per_second = resources.disk.read_mib_per_second * MIB
            rates[Stage.STORAGE] = bytes_per_second / workload.dataset.bytes_per_sample
        if workload.task is not Task.PREPROCESSING:
            batch = workload.batch_size
            rates[Stage.ACCELERATOR] = 60.0 * resources.gpu.fp32_tflops * batch / (batch + 4)
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
        )
