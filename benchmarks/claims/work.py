"""The folder of a run: data sets, the store of trials, and other results line by line.

Whatever is there is not done again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Status, Trial
from advisor.runs.datasets import convert_dataset, make_photographs, make_text
from advisor.runs.sweeps.sweeping import execute_sweep
from advisor.store.measurements import open_store
from advisor.sweeps.datasets.jpeg_files import JpegFiles
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.datasets.places import made_whole
from advisor.sweeps.driver.runner import Progress
from advisor.sweeps.planning.networks import StoredData
from benchmarks.claims.trials import FORMATS, Datasets, Size

_STORE, _LINES = "trials.sqlite", "results.jsonl"


class Work:
    """A work folder; one process at a time writes it."""

    def __init__(self, folder: Path, size: Size, *, retry_failed: bool = False) -> None:
        self.size = size
        self._retry_failed = retry_failed
        self._tried: set[str] = set()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._store = open_store(f"sqlite:///{(folder / _STORE).absolute()}")
        self._lines = folder / _LINES
        self.corpus = folder / "ptb"
        self.photographs = folder / "files"
        self._some = folder / "to-convert"
        self.scratch = folder / "converted"
        self._begun = time.monotonic()

    def datasets(self, formats: Sequence[str] = FORMATS) -> Datasets:
        """The photographs in each format, made and converted where they are not there yet."""
        self.make_photographs()
        for name in formats:
            folder = self.folder / name
            if name != "files" and not folder.exists():
                self.tell(f"converting photographs to {name}")
                convert_dataset(
                    self.photographs,
                    name,
                    folder,
                    shorter_edge=None,
                    quality=None,
                    processes=None,
                    progress=lambda _made, _all: None,
                )
        places = {name: self.folder / name for name in {"files", *formats}}
        return {name: (place, profile_folder(place)) for name, place in places.items()}

    def text(self) -> StoredData:
        """The text that language models read."""
        return StoredData(profile_folder(self.make_corpus()), str(self.corpus))

    def has_datasets(self) -> bool:
        """Whether the text is there, and the photographs in each format."""
        return self.corpus.exists() and all((self.folder / name).exists() for name in FORMATS)

    def make_photographs(self) -> None:
        """JPEG files like ImageNet's."""
        if not self.photographs.exists():
            self.tell(f"making {self.size.samples} photographs")
            make_photographs(self.photographs, self.size.samples, lambda _made, _all: None)

    def some_photographs(self) -> Path:
        """A folder of as many of them as a conversion takes: hard links."""
        self.make_photographs()
        if not self._some.exists():
            with made_whole(self._some) as folder:
                for file in JpegFiles(self.photographs).files[: self.size.converted]:
                    (folder / file.name).hardlink_to(file)
        return self._some

    def make_corpus(self) -> Path:
        """A text of the Penn Treebank's size."""
        if not self.corpus.exists():
            self.tell("making a text")
            make_text(self.corpus)
        return self.corpus

    def measure(self, what: str, trials: Sequence[Trial]) -> dict[str, Measurement]:
        """The rows of the trials by id, measured now where they are missing."""
        known = self.rows()
        missing = [trial for trial in trials if trial.trial_id not in known]
        failed = {trial.trial_id for trial in trials} - self._tried - _good(known)
        if missing or (failed and self._retry_failed):
            self._tried |= failed
            self.tell(f"{what}: {len(missing)} of {len(trials)} trials")
            execute_sweep(
                trials,
                self._store,
                executor="process",
                ray_address=None,
                retry_failed=self._retry_failed,
                on_progress=self._told,
            )
        rows = self.rows()
        return {trial.trial_id: rows[trial.trial_id] for trial in trials}

    def rows(self) -> dict[str, Measurement]:
        """All stored measurements by trial id."""
        return {row.trial.trial_id: row for row in self._store.all()}

    def once(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A result that is no trial, by key; made and stored when it is not there."""
        known = self.results().get(key)
        if known is not None and not (self._retry_failed and known.get("spoiled")):
            return known
        self.tell(key)
        content = make()
        with self._lines.open("a") as file:
            # On a line of its own, whatever a kill left of the one before.
            file.write("\n" + json.dumps({"key": key, "content": content}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return content

    def results(self) -> dict[str, dict[str, Any]]:
        """What `once` stored; a line that a kill cut off is left out."""
        if not self._lines.exists():
            return {}
        found: dict[str, dict[str, Any]] = {}
        for line in self._lines.read_text().splitlines():
            try:
                document = json.loads(line)
            except ValueError:
                continue
            found[document["key"]] = document["content"]
        return found

    def tell(self, text: str) -> None:
        """A line of progress on stderr."""
        sys.stderr.write(f"[{time.monotonic() - self._begun:6.0f} s] {text}\n")
        sys.stderr.flush()

    def _told(self, progress: Progress) -> None:
        row = progress.measurement
        if row is None:
            return
        trial, rate = row.trial, row.throughput_samples_per_second
        shown = f"{rate:.1f}/s" if rate else (row.reason or "no rate")
        self.tell(
            f"  {progress.done}/{progress.total} {trial.workload.network} {trial.workload.task} "
            f"{trial.workload.dataset.storage_format} {trial.resources.vcpus:g} vCPUs "
            f"{trial.resources.memory_mib:.0f} MiB {trial.resources.disk.type} {trial.cache}: "
            f"{row.status} {shown}"
        )


def _good(rows: Mapping[str, Measurement]) -> set[str]:
    return {trial_id for trial_id, row in rows.items() if row.status is Status.OK}
