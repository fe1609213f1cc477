"""The GPU of these tests: a real one, or in a rehearsal the stand-in for torch.cuda."""

import os
import sys
from dataclasses import dataclass
from functools import partial

import pytest

from advisor.catalog import load_catalog
from advisor.domain import Accelerator
from advisor.errors import MeasuringError
from advisor.infra.build.campaign.protocol import Machine
from advisor.infra.build.campaign.session import this_machine
from advisor.sweeps.datasets.making import write_samples
from advisor.sweeps.probe.session import need_cuda
from advisor.sweeps.trial.trial_process import run_attempt

STAND_IN = "tests.sweeps.cuda_standin"


def is_rehearsal():
    """Whether a stand-in computes; it shows that the tests run, and nothing of a GPU."""
    return os.environ.get("ADVISOR_TEST_GPU") == "rehearsal"


@dataclass(frozen=True)
class Gpu:
    """Device 0, by the name that its driver gives it."""

    name: str

    @property
    def accelerator(self):
        return Accelerator.parse(f"cuda:{self.name}")

    @property
    def machine(self):
        resources = this_machine("cpu", {}).resources
        return Machine(accelerator=self.accelerator, resources=resources, gpu=self.name)

    def program(self, name):
        """The command of one of the programs that compute."""
        return [sys.executable, "-P", "-m", *([STAND_IN] if is_rehearsal() else []), name]

    @property
    def attempt(self):
        return partial(run_attempt, command=self.program("advisor.sweeps.worker"))

    def needs_a_real_one(self, why):
        if is_rehearsal():
            pytest.skip(f"not rehearsed: {why}")


def require_whole_gpu():
    """`MeasuringError` that says which part is missing: a slice is refused by every name."""
    need_cuda()
    import torch

    from advisor.sweeps.worker.engine import present_gpu

    found = present_gpu(load_catalog().gpus)
    if found.is_slice:
        raise MeasuringError(
            f"{torch.cuda.get_device_name()} is a slice of a card ({found.memory_mib:,.0f} MiB, "
            f"{found.sm_count} multiprocessors), and these tests need a whole one"
        )


@pytest.fixture(scope="session")
def gpu():
    if is_rehearsal():
        return Gpu("Tesla T4")
    try:
        require_whole_gpu()
    except MeasuringError as error:
        pytest.skip(str(error))
    import torch

    return Gpu(torch.cuda.get_device_name(0))


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    write_samples(folder, range(256), seed=0)
    return folder
