"""The data that a sweep reads: the user's, or data sets generated once into the cache folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from advisor.domain import DatasetProfile, Trial
from advisor.runs.sweep_questions import SweepGrid
from advisor.runs.sweeps.sweeping import DEFAULT_SAMPLES, plan_sweep
from advisor.sweeps.datasets.making import (
    PTB_PARTS,
    default_place,
    default_text_place,
    ensure_dataset,
    ensure_text,
)
from advisor.sweeps.datasets.node_cache import CachedData, cached_data, is_cached, remote_profile
from advisor.sweeps.datasets.opening import (
    TEXT,
    copy_to_mount,
    dataset_on_mount,
    profile_folder,
    read_profile,
)
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.planning.networks import StoredData, SweepData, planned_network

Progress = Callable[[int, int], None]
# Typical profiles of generated data, to plan with before they are generated.
_PHOTOGRAPHS = DatasetProfile(
    name="photographs",
    samples=DEFAULT_SAMPLES,
    bytes_per_sample=104_000.0,
    storage_format="jpeg-files",
    width=500,
    height=375,
)
_PENN_TREEBANK = DatasetProfile(
    name="train", samples=PTB_PARTS["train"][0], bytes_per_sample=5.5, storage_format=TEXT, width=1, height=1
)


def planned_data(grid: SweepGrid, on_fetching: Progress = lambda _here, _all: None) -> SweepData:
    """The data's profiles for a plan; trial ids are final only once the data are generated. Data at an
    address without a stored profile are fetched; `on_fetching` gets (fetched files, all files)."""
    return data_of_networks(
        grid.networks, grid.data, on_fetching, with_photographs=bool(grid.preset), is_plan=True
    )


def prepared_data(grid: SweepGrid, on_progress: Progress) -> SweepData:
    """The data, generated or fetched if missing, and copied to mounted disks. A cluster's nodes fetch data
    from addresses themselves."""
    if grid.ray_address and is_address(grid.data or ""):
        return planned_data(grid, on_progress)
    data = data_of_networks(grid.networks, grid.data, on_progress, with_photographs=bool(grid.preset))
    for stored in data.stored:
        for _, mount in grid.disk_path:
            with data_here(stored.path, on_progress) as (path, _):
                copy_to_mount(path, dataset_on_mount(mount, stored.path), stored.profile.samples)
    return data


@contextmanager
def data_here(source: str, on_progress: Progress) -> Iterator[tuple[Path, CachedData | None]]:
    """A data set's path on this machine, valid within the block; from an address it is fetched into the
    cache."""
    if not is_address(source):
        yield Path(source), None
        return
    with cached_data(source, on_progress) as cached:
        yield cached.path, cached


def data_of_networks(
    networks: Sequence[str],
    own: str | None,
    on_progress: Progress,
    *,
    samples: int = DEFAULT_SAMPLES,
    with_photographs: bool = False,
    is_plan: bool = False,
) -> SweepData:
    """The data for the networks: the user's, else `samples` photographs and a text, which are generated
    unless this `is_plan`."""
    own_data = _own_data(own, on_progress, is_plan) if own else None
    if own_data and own_data.profile.storage_format == TEXT:
        return SweepData(text=own_data)
    planned, images, text = [planned_network(name) for name in networks], own_data, None
    if images is None and (with_photographs or any(network.photographs for network in planned)):
        images = (
            _planned(default_place(samples), _PHOTOGRAPHS)
            if is_plan
            else _stored(*ensure_dataset(samples, progress=on_progress))
        )
    if any(network.text for network in planned):
        text = _planned(default_text_place(), _PENN_TREEBANK) if is_plan else _stored(*ensure_text())
    return SweepData(images=images, text=text)


def _own_data(source: str, on_progress: Progress, is_plan: bool) -> StoredData:
    # A profile stored at the address saves fetching the data.
    is_elsewhere = is_plan and is_address(source) and not is_cached(source)
    if profile := remote_profile(source) if is_elsewhere else None:
        return StoredData(profile, source)
    with data_here(source, on_progress) as (path, cached):
        profile = profile_folder(path)
        return StoredData(profile, source) if cached else _stored(path.resolve(), profile)


def _stored(path: Path, profile: DatasetProfile) -> StoredData:
    return StoredData(profile, str(path))


def _planned(folder: Path, nominal: DatasetProfile) -> StoredData:
    """The profile of generated data; the nominal one before they are generated."""
    return StoredData(read_profile(folder, nominal.samples) or nominal, str(folder))


def plan_anywhere(grid: SweepGrid) -> list[Trial]:
    """The trials as planned for a machine without limits; `UsageError` for what every machine would
    refuse."""
    return plan_sweep(grid, planned_data(grid), anywhere=True)
