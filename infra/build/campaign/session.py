"""One run of a campaign: each cell that the file has not, in a process of its own.

This process loads no torch: it takes nothing of the GPU's memory, and no fault of CUDA ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Accelerator, DatasetProfile, Measurement, Stack, Status, Trial
from advisor.errors import AdvisorError, MeasuringError, UsageError
from advisor.infra.build.campaign.cells import (
    BRIEF,
    BenchmarkBudget,
    Ladder,
    Machine,
    host_resources,
    in_order,
    ladders,
    next_cell,
    pipeline_trials,
    with_pipeline,
)
from advisor.infra.build.campaign.device import gpu_name, short_fingerprint
from advisor.infra.build.campaign.records import Records
from advisor.models.zoo.networks import NETWORKS
from advisor.models.zoo.opening import Runnable, open_network
from advisor.sweeps.datasets.making import ensure_dataset
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.planning.repeating import merged
from advisor.sweeps.trial.trial_process import run_attempt
from advisor.sweeps.worker.policy import is_synthetic

_OWN_NETWORKS = Path(__file__).with_name("networks")
_MORE_NETWORKS = (
    "vision.py:resnet18",
    "vision.py:vit_b_16",
    "vision.py:convnext_tiny",
    "language.py:pythia_1b",
)
_MADE_SAMPLES = 2000
_PLACE = Path("~/.cache/instance-sizing-advisor/datasets")
# Below this, probing would eat the run.
_LEAST_SECONDS_FOR_A_PROBE = 240.0
# Photographs may have to be made first.
_LEAST_SECONDS_FOR_REAL_INPUT = 30.0
# Loading torch, building the network, the first steps, the stages; compiling on top.
_STARTING_SECONDS = 20.0
_COMPILING_SECONDS = 90.0


def run_campaign(
    accelerator: Accelerator,
    *,
    networks: Sequence[str] | None,
    budget: BenchmarkBudget,
    out: Path,
    data: Path | None,
    ends_at: float,
    report: Callable[[str], None],
) -> bool:
    """Measure the missing cells until `ends_at` (time.monotonic()); whether all are done.

    Raises `UsageError` for an unknown network or folder, `MeasuringError` where the accelerator
    is missing, `DataError` for a file that cannot be used.
    """
    chosen = _networks(networks, accelerator)
    if data is not None:
        profile_folder(data)  # a wrong folder is refused before minutes are spent
    machine = this_machine(accelerator, budget)
    campaign = Campaign(machine=machine, budget=budget, records=Records(out), report=report, ends_at=ends_at)
    where = machine.gpu or (machine.resources.cpu and machine.resources.cpu.model)
    report(f"campaign: {where}; {len(campaign.records.done)} cells are in {out} already")
    if accelerator.is_gpu and campaign.seconds_left > _LEAST_SECONDS_FOR_A_PROBE:
        report("campaign: copies and matrix products of the GPU")
        campaign.environment["fingerprint"] = short_fingerprint()
    finished = _all_ladders(campaign, chosen) and _real_input(campaign, chosen, data)
    report(f"campaign: {campaign.measured} cells measured in this run")
    return finished


class Campaign(Struct, kw_only=True):
    """What all cells are measured with. `ends_at` is a time.monotonic() moment; a cell that takes
    `patience_seconds` longer than usual hangs."""

    machine: Machine
    budget: BenchmarkBudget
    records: Records
    report: Callable[[str], None]
    ends_at: float
    patience_seconds: float = 180.0
    attempt: Callable[..., Measurement] = run_attempt
    environment: dict[str, Any] = field(default_factory=dict)
    measured: int = 0

    @property
    def seconds_left(self) -> float:
        """Until nothing new is begun."""
        return self.ends_at - time.monotonic()

    def measure(self, trial: Trial) -> bool:
        """Measure one cell in a process of its own, which is ended where it hangs; False where the
        time does not suffice, and nothing is known of the cell."""
        plan = trial.plan
        usual = plan.get("warmup_seconds", 0.0) + plan["max_seconds"] + _STARTING_SECONDS
        if trial.workload.stack is Stack.COMPILE:
            usual += _COMPILING_SECONDS
        if self.seconds_left < usual:
            return False
        deadline = usual + self.patience_seconds
        row = self.attempt(trial, timeout_seconds=min(deadline, self.seconds_left))
        # Only a cell that had its deadline, or a whole run, is known to hang.
        if row.status is Status.TIMED_OUT and self.seconds_left <= 0 and self.measured:
            return False
        row = replace(row, environment={**self.environment, **row.environment})
        self.records.append(merged(self.records.done.get(trial.trial_id), row))
        self.measured += 1
        self.report(_line(row))
        return True


def measure_ladder(campaign: Campaign, ladder: Ladder) -> bool:
    """Measure the ladder's cells that are missing; False when the time was used up."""
    while trial := next_cell(ladder, campaign.machine, campaign.budget, campaign.records.done):
        if not campaign.measure(trial):
            return False
    return True


def _all_ladders(campaign: Campaign, networks: Sequence[Runnable]) -> bool:
    infos = [network.info for network in networks]
    fingerprints = {network.info.name: network.fingerprint for network in networks}
    return all(measure_ladder(campaign, ladder) for ladder in ladders(infos, campaign.budget, fingerprints))


def _real_input(campaign: Campaign, networks: Sequence[Runnable], data: Path | None) -> bool:
    infos = with_pipeline(network.info for network in networks if not network.fingerprint)
    if not (infos and campaign.budget.pipeline_tasks):
        return True
    if campaign.seconds_left < _LEAST_SECONDS_FOR_REAL_INPUT:
        return False
    try:
        folder, profile = _dataset(data, campaign.report)
    except UsageError:
        raise
    except (AdvisorError, ImportError) as error:
        campaign.report(f"campaign: not measured: the real input pipeline: {error}")
        return True
    trials = pipeline_trials(infos, campaign.machine, campaign.budget, profile, str(folder))
    return _all_measured(campaign, trials)


def _all_measured(campaign: Campaign, trials: Iterable[Trial]) -> bool:
    return all(trial.trial_id in campaign.records.done or campaign.measure(trial) for trial in trials)


def _networks(names: Sequence[str] | None, accelerator: Accelerator) -> list[Runnable]:
    if names is None:
        more = [f"{_OWN_NETWORKS}/{name}" for name in _MORE_NETWORKS] if accelerator.is_gpu else []
        names = [*NETWORKS, *more]
    opened = {network.info.name: network for network in map(open_network, names)}
    return [opened[info.name] for info in in_order(entry.info for entry in opened.values())]


def _dataset(data: Path | None, report: Callable[[str], None]) -> tuple[Path, DatasetProfile]:
    if data is not None:
        return data.resolve(), profile_folder(data)
    report(f"campaign: {_MADE_SAMPLES} photographs for the real input pipeline")
    return ensure_dataset(_MADE_SAMPLES, _place())


def _place() -> Path:
    try:
        return _PLACE.expanduser() / f"photographs-{_MADE_SAMPLES}"
    except RuntimeError as error:
        raise MeasuringError("there is no home folder", hint="name images with --data") from error


def this_machine(accelerator: Accelerator, budget: BenchmarkBudget) -> Machine:
    """The whole of this machine; `MeasuringError` where CUDA is asked for and not usable."""
    # Whole MiB: a reboot must not make other trials of the same ones.
    size = machine_size()
    resources = host_resources(size.vcpus, size.physical_cores, round(size.memory_mib))
    one_thread = accelerator.is_cpu and resources.vcpus == 1
    return Machine(
        accelerator=accelerator,
        resources=resources,
        gpu=gpu_name() if accelerator.is_gpu else None,
        by_cpu_time=one_thread and budget is BRIEF,
    )


def _line(row: Measurement) -> str:
    workload, rate = row.trial.workload, row.throughput_samples_per_second
    name = f"{workload.network} {workload.task} {workload.precision} batch {workload.batch_size}"
    if not is_synthetic(row.trial.plan):
        workers = row.trial.plan["loader_workers"]
        name += f", {row.trial.resources.vcpus:g} vCPUs, real input by {workers}"
    answer = "-" if rate is None else f"{rate:.4g} rows/s"
    memory = row.environment.get("gpu_peak_reserved_mib")
    used = f", {memory:,.0f} MiB" if memory else ""
    ending = "" if row.status is Status.OK else f" {row.status.value.replace('_', ' ')}"
    return f"{name}: {answer}{used}{ending} {row.reason[:100]}".rstrip()
