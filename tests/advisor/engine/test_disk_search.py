"""A disk that lends more at first than it keeps is told where a short test would feel it."""

from advisor.domain import DiskChoice, Stage

from .asking import answered, question
from .plain_model import PlainModel, slowest

OPERATIONS = 4.6


class DiskBound(PlainModel):
    """IOPS and MiB/s bind, whichever is scarcer; the instance could do 40,000 a second."""

    def _one(self, workload, has, confidence, cache):
        rate, iops = has.disk.read_mib_per_second or 1e6, has.disk.read_iops or 1e6
        storage = min(rate * 2**20 / workload.dataset.bytes_per_sample, iops / OPERATIONS)
        rates = {Stage.STORAGE: storage, Stage.HOST: 500.0 * has.vcpus, Stage.ACCELERATOR: 4e4}
        return slowest(rates, 0.8, 1.2, confidence)


MODEL = DiskBound()


def ask(**changes):
    return answered(question(**({"batch_size": 32, "gpus": ("L4",)} | changes)), MODEL)


def test_no_burst_is_told_where_the_disk_has_time_to_spare():
    answer = ask(target_throughput=100, gpus=("L4",), disk=DiskChoice(type="gp3", size_gib=500.0))
    storage = answer.chosen.prediction.stage_rates[Stage.STORAGE]
    shown = any("short test" in str(message) for message in answer.warnings)
    burst = answer.chosen.spec.disk.burst
    assert shown == (burst is not None and answer.chosen.prediction.median >= 0.8 * storage)
