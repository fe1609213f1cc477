"""Which trials the claims of article A1 need, by group; the order is the order of measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import CacheState, DatasetProfile, DiskRate, Task, Trial
from advisor.runs.sweeps.sweeping import local_machine
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.networks import StoredData, SweepData, planned_network
from advisor.sweeps.planning.plan import SweepRequest, plan_trials
from advisor.sweeps.worker.pipeline.policy import STORED_ORDER
from benchmarks.claims.scale import LSTM, LSTM_BATCH, SCALE, accelerator, cloud_disks, paced

NETWORKS = ("googlenet", "resnet50", "vgg16", "inception_v3", "alexnet")
FORMATS = ("files", "tar", "recordio", "lmdb")
KNEE_FORMATS = ("lmdb", "files")
# Times SCALE: 1, 2, 4 and 8 vCPUs.
VCPUS = (0.25, 0.5, 1.0, 2.0)
ENDS, MIDDLE = (VCPUS[0], VCPUS[-1]), VCPUS[1:-1]
AMPLE_MIB = 4096.0
PROCESSES_MIB = 600.0
BATCH = 32
TRAINING, INFERENCE = Task.TRAINING, Task.INFERENCE
Datasets = Mapping[str, tuple[Path, DatasetProfile]]


class Size(Struct, frozen=True, kw_only=True):
    """How much is measured: full, or a smoke run that proves that everything works."""

    name: str
    samples: int
    converted: int
    conversions: int
    networks: tuple[str, ...]
    max_seconds: float
    iterations: int
    middles: bool
    formats: tuple[str, ...] = FORMATS
    # What of the LMDB the memory holds beside the processes, in the memory sweep.
    cached_shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.1)
    text_vcpus: tuple[float, ...] = VCPUS[1:]

    @property
    def few_and_many(self) -> tuple[int, int]:
        """Iterations that stand a factor of ten apart."""
        return self.iterations, 10 * self.iterations


FULL = Size(
    name="full",
    samples=4000,
    converted=2000,
    conversions=2,
    networks=NETWORKS,
    max_seconds=10.0,
    iterations=1000,
    middles=True,
)
QUICK = Size(
    name="quick",
    samples=400,
    converted=100,
    conversions=1,
    networks=("googlenet",),
    max_seconds=2.0,
    iterations=20,
    middles=False,
    formats=KNEE_FORMATS,
    cached_shares=(0.0, 1.1),
    text_vcpus=(0.5, 2.0),
)


class Plan:
    """Makes the trials of each group over the data sets of a work folder."""

    def __init__(self, size: Size, datasets: Datasets, text: StoredData | None = None) -> None:
        self.size = size
        self._datasets = datasets
        self._text = text

    def vcpus(self, network: str, task: Task, storage: str, vcpus: Sequence[float]) -> list[Trial]:
        """Cached, at the scale of 8 vCPUs."""
        return self._trials(self._request(network, task, storage, vcpus=tuple(vcpus)))

    def formats(self, storage: str) -> list[Trial]:
        """GoogLeNet's inference cached on one and two cores, and cold on two."""
        warm = self._request("googlenet", INFERENCE, storage, vcpus=(1.0, 2.0))
        cold = replace(warm, vcpus=(2.0,), caches=(CacheState.COLD,))
        return self._trials(warm, cold)

    def disks(self, task: Task) -> list[Trial]:
        """GoogLeNet on the LMDB, cold, on the three disks."""
        rates = tuple(disk.rate(SCALE) for disk in cloud_disks().values())
        one = self._request("googlenet", task, "lmdb", vcpus=(2.0,), disks=rates, caches=(CacheState.COLD,))
        return [_as_stored(trial) for trial in self._trials(one)]

    def memory(self) -> list[Trial]:
        """GoogLeNet's inference on the LMDB from the efficient disk, after a first epoch."""
        total = self._datasets["lmdb"][1].total_mib
        memory = tuple(round(PROCESSES_MIB + share * total) for share in self.size.cached_shares)
        one = self._request(
            "googlenet",
            INFERENCE,
            "lmdb",
            vcpus=(2.0,),
            memory_mib=memory,
            disks=(cloud_disks()["efficient"].rate(SCALE),),
        )
        return self._trials(one)

    def text(self) -> list[Trial]:
        """The LSTM at full speed, over vCPUs and over memory; batches are made in memory."""
        one = self._request(
            LSTM,
            TRAINING,
            "files",
            vcpus=self.size.text_vcpus,
            memory_mib=(1024.0,),
            batch_size=LSTM_BATCH,
            scale=1,
        )
        memory = replace(one, vcpus=(2.0,), memory_mib=(512.0, 4096.0))
        inference = replace(one, tasks=(INFERENCE,), vcpus=(0.5, 2.0))
        return self._trials(one, memory, inference)

    def iterations(self) -> list[Trial]:
        """Few and ten times as many steps: AlexNet on the LMDB one image at a time, cached; the
        same within one cold epoch; Inception-v3's training on RecordIO."""
        few, many = self.size.few_and_many
        alexnet = self._request("alexnet", TRAINING, "lmdb", batch_size=1, scale=1, vcpus=(2.0,))
        cold = replace(alexnet, caches=(CacheState.COLD,))
        inception = self._request("inception_v3", TRAINING, "recordio", batch_size=8, scale=1, vcpus=(2.0,))
        requests = [
            *(replace(alexnet, iterations=count) for count in (few, many)),
            *(replace(cold, iterations=max(5, int(count * 0.3))) for count in (few, many)),
            *(replace(inception, iterations=max(5, count // 25)) for count in (few, many)),
        ]
        trials = self._trials(*requests)
        return [_as_stored(one) if one.cache is CacheState.COLD else one for one in trials]

    def _request(
        self,
        network: str,
        task: Task,
        storage: str,
        *,
        vcpus: tuple[float, ...],
        memory_mib: tuple[float, ...] = (AMPLE_MIB,),
        disks: tuple[DiskRate, ...] = (UNLIMITED,),
        caches: tuple[CacheState, ...] = (CacheState.WARM,),
        batch_size: int = BATCH,
        scale: int = SCALE,
    ) -> SweepRequest:
        folder, profile = self._datasets[storage]
        data = SweepData(images=StoredData(profile, str(folder)), text=self._text)
        return SweepRequest(
            networks=(network,),
            tasks=(task,),
            vcpus=vcpus,
            memory_mib=memory_mib,
            disks=disks,
            accelerator=accelerator(scale),
            data=data,
            batch_sizes=(batch_size,),
            caches=caches,
            max_seconds=self.size.max_seconds,
            measure_seconds=min(2.0, self.size.max_seconds),
            # An emulated step of a second has no noise to average, unless the host is what binds.
            min_steps=8,
        )

    def _trials(self, *requests: SweepRequest) -> list[Trial]:
        return plan_trials(requests, local_machine(), paced, planned_network)


def _as_stored(trial: Trial) -> Trial:
    """Reading in the order of the data set, as Caffe reads its LMDB."""
    return replace(trial, plan={**trial.plan, "order": STORED_ORDER})
