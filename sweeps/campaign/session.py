"""One run of a campaign: opens what it needs, and measures what the file has not. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from advisor.domain import DatasetProfile
from advisor.errors import AdvisorError, MeasuringError, UsageError
from models.zoo.opening import Runnable, open_network
from sweeps.campaign.cells import (
    BRIEF,
    BenchmarkBudget,
    Machine,
    batch_ranges,
    default_networks,
    host_resources,
    in_order,
    pipeline_trials,
    with_pipeline,
)
from sweeps.campaign.records import Records
from sweeps.campaign.running import Campaign, run_ladder, run_pipeline
from sweeps.datasets.making import ensure_dataset
from sweeps.datasets.opening import profile_folder
from sweeps.machine.environment import (
    describe_machine,
    describe_versions,
)
from sweeps.machine.size import machine_size
from sweeps.probe.accelerator import need_cuda
from sweeps.probe.figures import fingerprint
from sweeps.probe.session import run_probe
from sweeps.worker.torch_facts import torch_facts

_MADE_SAMPLES = 2000
_PLACE = Path("~/.cache/instance-sizing-advisor/datasets")
# Below this, probing would eat the run.
_LEAST_SECONDS_FOR_A_PROBE = 240.0
# Photographs may have to be made first.
_LEAST_SECONDS_FOR_REAL_INPUT = 30.0


def run_campaign(
    accelerator: str,
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
    is missing or stops computing, `DataError` for a file that cannot be used.
    """
    result = _networks(networks)
    if data is not None:
        profile_folder(data)  # a wrong folder is refused before minutes are spent
    machine = this_machine(accelerator)
    records = Records(out)
    environment = describe(machine)
    campaign = Campaign(
        machine=machine, budget=budget, records=records, environment=environment, report=report,
        ends_at=ends_at, by_cpu_time=is_one_thread(machine) and budget is BRIEF,
    )  # fmt: skip
    if campaign.by_cpu_time:
        environment["timing"] = ONE_THREAD_TIMING
    report(f"campaign: {machine.gpu or environment['cpu_model']}; {len(records.done)} cells are "
         f"in {out} already")  # fmt: skip
    if accelerator == "cuda" and campaign.seconds_left > _LEAST_SECONDS_FOR_A_PROBE:
        environment["fingerprint"] = short_fingerprint(report)
    finished = _all_ladders(campaign, result) and _real_input(campaign, result, data)
    for line in dict.fromkeys(campaign.skipped):
        report(f"campaign: not measured: {line}")
    report(f"campaign: {campaign.measured} cells measured in this run")
    return finished


def _networks(names: Sequence[str] | None) -> list[Runnable]:
    if names is None:
        return [open_network(info.name) for info in default_networks()]
    opened = {network.info.name: network for network in map(open_network, names)}
    return [opened[info.name] for info in in_order(entry.info for entry in opened.values())]


def _all_ladders(campaign: Campaign, networks: Sequence[Runnable]) -> bool:
    by_name = {network.info.name: network for network in networks}
    for batch_range in batch_ranges([network.info for network in networks], campaign.budget):
        network = by_name[batch_range.info.name]
        marked = replace(batch_range, fingerprint=network.fingerprint)
        if not run_ladder(campaign, marked, network):
            return False
    return True


def _real_input(campaign: Campaign, networks: Sequence[Runnable], data: Path | None) -> bool:
    # The worker builds networks of the zoo by name.
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
        campaign.skipped.append(f"the real input pipeline: {error}")
        return True
    trials = pipeline_trials(infos, campaign.machine, campaign.budget, profile, str(folder))
    return run_pipeline(campaign, trials)


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


_VERSIONS = ("torch", "torchvision", "numpy", "Pillow", "timm")
_PROBED = ("gpu", "gemm")
ONE_THREAD_TIMING = "process_time around each step: CPU seconds of the only thread"


def this_machine(accelerator: str) -> Machine:
    """The whole of this machine; `MeasuringError` where CUDA is asked for and not usable."""
    if accelerator == "cuda":
        need_cuda()
    size = machine_size()
    return Machine(
        accelerator=accelerator,
        # Whole MiB: a reboot must not make other trials of the same ones.
        resources=host_resources(size.vcpus, size.physical_cores, round(size.memory_mib)),
        gpu=torch.cuda.get_device_name(0) if accelerator == "cuda" else None,
    )


def is_one_thread(machine: Machine) -> bool:
    """Whether steps run on one CPU in one thread, so that its CPU seconds are theirs."""
    return (
        machine.accelerator == "cpu"
        and machine.resources.vcpus == 1
        and torch.get_num_threads() == 1
    )


def describe(machine: Machine) -> dict[str, Any]:
    """The environment of every row: machine, versions, GPU, driver, clocks, and how torch is
    set to compute."""
    return {
        **describe_machine(),
        "versions": describe_versions(*_VERSIONS),
        "gpu": None,
        **torch_facts(machine.accelerator),
        "timing": "perf_counter around each step, device synchronised after each",
    }


def short_fingerprint(report: Callable[[str], None]) -> dict[str, Any]:
    """Copy rates and matrix products of the GPU, in about ten seconds."""
    from pathlib import Path

    return fingerprint(run_probe(_PROBED, quick=True, disk=Path(), report=report))
