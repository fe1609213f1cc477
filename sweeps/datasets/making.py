"""Makes a data set once, whole or not at all, and finds it again."""

from __future__ import annotations

import json
import multiprocessing
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.places import datasets_folder
from sweeps.datasets.folder import image_files, read_profile
from sweeps.datasets.photographs import write_samples
from sweeps.datasets.places import PROFILE_FILE, made_whole
from sweeps.datasets.side_processes import be_a_side_process
from sweeps.trial.orphans.owning import deferred_signals

SEED = 0
_PROCESSES = 2
_CHUNK = 64
Progress = Callable[[int, int], None]


def default_place(samples: int) -> Path:
    """Where a made data set of that size lives: the user's cache folder."""
    return datasets_folder() / f"photographs-{samples}"


def ensure_dataset(
    samples: int, place: Path | None = None, progress: Progress | None = None
) -> tuple[Path, DatasetProfile]:
    """The folder of a made data set of `samples` files, made now if it is not there yet.

    `progress` is told (made, all) from time to time. Raises `DataError` when it cannot be
    written; then nothing half-made is left.
    """
    folder = place or default_place(samples)
    profile = read_profile(folder, samples)
    if profile:
        return folder, profile
    with made_whole(folder) as unfinished:
        profile = _make(unfinished, samples, progress or (lambda _made, _all: None))
    return folder, profile


def _make(folder: Path, samples: int, progress: Progress) -> DatasetProfile:
    chunks = [
        (folder, range(first, min(first + _CHUNK, samples)), SEED)
        for first in range(0, samples, _CHUNK)
    ]
    made = 0
    # Not forked: the parent may run threads by now (a progress bar).
    context = multiprocessing.get_context("spawn")
    with ExitStack() as started:
        with deferred_signals():  # a process just being born would tell that its parent went
            pool = started.enter_context(context.Pool(_PROCESSES, be_a_side_process))
        for count in pool.imap_unordered(_write_chunk, chunks):
            made += count
            progress(made, samples)
    profile = _profile(folder)
    document = {"profile": asdict(profile), "seed": SEED}
    (folder / PROFILE_FILE).write_text(json.dumps(document, indent=1))
    return profile


def _write_chunk(chunk: tuple[Path, range, int]) -> int:
    write_samples(*chunk)
    return len(chunk[1])


def _profile(folder: Path) -> DatasetProfile:
    files = image_files(folder)
    return DatasetProfile(
        name="photographs",
        samples=len(files),
        bytes_per_sample=statistics.fmean(path.stat().st_size for path in files),
        storage_format="jpeg-files",
        width=500,
        height=375,
    )
