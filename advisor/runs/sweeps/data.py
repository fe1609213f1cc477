"""The data that a sweep reads: the user's own, or made once and kept in the cache folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.domain import DatasetProfile, Trial
from advisor.runs.sweeps.sweeping import SweepOptions, plan_sweep
from sweeps.datasets.making import (
    PTB_PARTS,
    default_place,
    default_text_place,
    ensure_dataset,
    ensure_text,
)
from sweeps.datasets.opening import profile_folder, read_profile
from sweeps.datasets.places import copy_to_mount
from sweeps.datasets.text import TEXT
from sweeps.planning.networks import StoredData, SweepData, planned_network

if TYPE_CHECKING:
    from advisor.runs.sweeps.sweeping import SweepOptions


Make = Callable[[], tuple[Path, DatasetProfile]]
_NOMINAL_BYTES_PER_SAMPLE = 104_000.0
_NOMINAL_BYTES_PER_TOKEN = 5.5


def planned_data(options: SweepOptions) -> SweepData:
    """The data as far as they are known without making them: what a plan may be shown with.

    Trial ids are final once the data exist.
    """
    return _data(options, lambda: _planned_photographs(options.samples), _planned_text)


def prepared_data(options: SweepOptions, on_progress: Callable[[int, int], None]) -> SweepData:
    """The data, made if they have to be and copied to the mounted disks; `on_progress` is told
    (made, all)."""
    data = _data(
        options,
        lambda: ensure_dataset(options.samples, progress=on_progress),
        ensure_text,
    )
    for stored in data.stored:
        for mount in options.disk_paths.values():
            copy_to_mount(Path(stored.path), mount, stored.profile.samples)
    return data


def _data(options: SweepOptions, photographs: Make, words: Make) -> SweepData:
    networks = [planned_network(name) for name in options.networks]
    reads_images = bool(options.preset) or any(one.photographs for one in networks)
    reads_text = any(one.text for one in networks)
    own = options.data and _stored(options.data.resolve(), profile_folder(options.data))
    if own and own.profile.storage_format == TEXT:
        return SweepData(text=own)
    images = own or (_stored(*photographs()) if reads_images else None)
    return SweepData(images=images, text=_stored(*words()) if reads_text else None)


def _stored(path: Path, profile: DatasetProfile) -> StoredData:
    return StoredData(profile, str(path))


def _planned_photographs(samples: int) -> tuple[Path, DatasetProfile]:
    place = default_place(samples)
    return place, read_profile(place, samples) or DatasetProfile(
        name="photographs",
        samples=samples,
        bytes_per_sample=_NOMINAL_BYTES_PER_SAMPLE,
        storage_format="jpeg-files",
        width=500,
        height=375,
    )


def _planned_text() -> tuple[Path, DatasetProfile]:
    place = default_text_place()
    return place, read_profile(place) or DatasetProfile(
        name="train",
        samples=PTB_PARTS["train"][0],
        bytes_per_sample=_NOMINAL_BYTES_PER_TOKEN,
        storage_format=TEXT,
        width=1,
        height=1,
    )


_SOMEWHERE = "somewhere"


def plan_anywhere(options: SweepOptions) -> list[Trial]:
    """The trials as a machine would plan them that has whatever they need, on the data as far as
    they are known here; `UsageError` for what every machine would refuse, as a mistyped network.
    """
    anywhere = replace(options, ray_address=options.ray_address or _SOMEWHERE)
    return plan_sweep(anywhere, planned_data(anywhere))
