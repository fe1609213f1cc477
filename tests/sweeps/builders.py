"""What tests of sweeps share: trials, rows and leases with defaults, a clock, own networks, marks."""

import pytest

from advisor.domain import (
    Accelerator,
    Cpu,
    DatasetProfile,
    DiskRate,
    LimitedBy,
    Measurement,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.measurement_store import Held
from advisor.sweeps.planning.networks import StoredData, SweepData
from advisor.sweeps.planning.plan import Machine, SweepRequest
from advisor.sweeps.watching.progress import Running, SweepProgress
from tests.rows import table

PROFILE = DatasetProfile(
    name="tiny", samples=1000, bytes_per_sample=100_000.0, storage_format="jpeg-files", width=500, height=375
)
MACHINE = Machine(cpus=2, physical_cores=2, memory_mib=24_000.0, cpu=Cpu(model="EPYC", architecture="x86_64"))
TIME_BOX = {"measure_seconds": 0.5, "min_steps": 4, "max_seconds": 5.0}
TIME_BOX |= {"loader_workers": 1, "prefetch_factor": 2}


def resources(**changes):
    values = {"vcpus": 1.0, "physical_cores": 1.0, "memory_mib": 2048.0, "disk": DiskRate(type="unlimited")}
    return Resources(**{**values, **changes})


def trial(*, network="googlenet", task=Task.PREPROCESSING, batch_size=8, **changes):
    profile = changes.pop("dataset", PROFILE)
    values = {
        "workload": Workload(network=network, task=task, batch_size=batch_size, dataset=profile),
        "resources": resources(),
        "accelerator": "cpu",
        "plan": TIME_BOX,
    }
    return Trial(**_with_accelerator({**values, **changes}))


def trial_on(folder, **changes):
    """A small trial that reads the images of a folder."""
    values = {"batch_size": 4, "resources": resources(memory_mib=1024.0)}
    profile = changes.pop("dataset", None) or profile_folder(folder)
    return trial(dataset_path=str(folder), dataset=profile, **{**values, **changes})


def measurement(**changes):
    values = {
        "trial": trial(),
        "status": Status.OK,
        "limited_by": LimitedBy.CGROUP_V1,
        "step_seconds": (0.1, 0.2, 0.3000000000000001),
        "environment": {"cpu_model": "EPYC", "other_cores": 0.25},
        "started_at": "2026-07-20T10:00:00+00:00",
    }
    return Measurement(**{**values, **changes})


def row(memory_mib=1024.0, **changes):
    """A measurement of one trial of many, told apart by its memory."""
    return measurement(trial=trial(resources=resources(memory_mib=memory_mib)), **changes)


class AtOnce:
    """An executor that measures at once and notes what it was given; Ctrl-C comes after so many. Rows have
    the values of `row`, and those that `of` gives the row of a number, from 1."""

    def __init__(self, stop_after=None, of=lambda _number: {}, **row):
        self.given, self._stop_after, self.of, self.row = [], stop_after, of, row

    def refuse_impossible(self, trials):
        pass

    def execute(self, trials):
        for entry in trials:
            if len(self.given) == self._stop_after:
                raise KeyboardInterrupt
            self.given.append(entry)
            yield measurement(trial=entry, **{**self.row, **self.of(len(self.given))})

    def close(self):
        pass


def images_at(path):
    return SweepData(images=StoredData(PROFILE, str(path)))


def request(**changes):
    values = {
        "networks": ("googlenet",),
        "tasks": (Task.PREPROCESSING,),
        "vcpus": (1.0,),
        "memory_mib": (2048.0,),
        "disks": (DiskRate(type="unlimited"),),
        "accelerator": "cpu",
        "data": images_at("/data"),
    }
    return SweepRequest(**_with_accelerator({**values, **changes}))


def _with_accelerator(values):
    """Tests name it as users do."""
    return values | {"accelerator": Accelerator.parse(values["accelerator"])}


TABLES = table("sweeps")


def running(**changes):
    return Running(**{**TABLES["running"], **changes})


def standing(**changes):
    counts = {Status.OK: 6, Status.FAILED: 1, Status.CONTAMINATED: 1}
    both = (running(), running(where="gpu-7", attempt=2, seconds=4000.0))
    return SweepProgress(**{**TABLES["standing"], "counts": counts, "running": both, **changes})


def held(**changes):
    return Held(**{**TABLES["held"], **changes})


class SleepingClock:
    """Time that passes only when somebody sleeps; sleeps end `late`, as real ones do."""

    def __init__(self, late=0.0):
        self.now = 100.0
        self.slept = 0.0
        self.late = late

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + self.late * (seconds > 0)
        self.slept += seconds


_NETWORK = """
import os, time, torch
INPUT_SHAPE = (3, 8, 8)
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(192, 4)
    def forward(self, images):
        if {when}:
            {fault}
        return self.layer(images.flatten(1))
def build():
    return Network()
"""


def own_network(folder, fault="pass", when="len(images) == 2"):
    """Its reference; `fault` is a statement of its forward pass on `images`."""
    (folder / "net.py").write_text(_NETWORK.format(when=when, fault=fault))
    return f"{folder}/net.py:build"


# torch and Ray leave sockets and files to the garbage collector.
LEFT_TO_THE_COLLECTOR = (
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
)
REAL_WORKER = [pytest.mark.slow, pytest.mark.machine, *LEFT_TO_THE_COLLECTOR]
