"""One run of a campaign: opens what it needs, and measures what the file has not. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.errors import AdvisorError, MeasuringError, UsageError
from models.zoo.opening import Runnable, open_network
from sweeps.campaign.cells import (
    BRIEF,
    BenchmarkBudget,
    batch_ranges,
    default_networks,
    in_order,
    pipeline_trials,
    with_pipeline,
)
from sweeps.campaign.records import Records
from sweeps.campaign.running import Campaign, run_ladder, run_pipeline
from sweeps.campaign.surroundings import (
    ONE_THREAD_TIMING,
    describe,
    is_one_thread,
    short_fingerprint,
    this_machine,
)
from sweeps.datasets.making import ensure_dataset
from sweeps.datasets.opening import profile_folder

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
        profile_folder(data)  # a wrong folder is told before minutes are spent
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
