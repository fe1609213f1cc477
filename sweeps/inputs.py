"""Where a trial's batches come from: stored photographs, or memory. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.domain import Task, Trial
from models.zoo import Kind, Runnable
from sweeps.datasets.decoding import PILLOW
from sweeps.datasets.source import SampleSource
from sweeps.pipeline.loading import make_loader

Batches = Iterator[tuple[Any, Any]]


class PhotographBatches:
    """Endless batches (images, targets) of a loader over the stored images of a trial.

    Targets are the loader's class numbers where those are what the network learns from; else
    (boxes, masks, an own file's targets) they are made once, from the first batch, since they
    cost the input pipeline nothing.
    """

    def __init__(
        self, trial: Trial, opened: Runnable, source: SampleSource, batch_size: int | None = None
    ) -> None:
        plan = trial.plan
        self._opened = opened
        self._batches: Batches = iter(
            make_loader(
                source,
                pixels=opened.info.input_pixels,
                batch_size=batch_size or trial.workload.batch_size,
                workers=plan["loader_workers"],
                prefetch_factor=plan["prefetch_factor"],
                pin_memory=trial.accelerator == "cuda",
                decoder_name=plan.get("decoder", PILLOW),
            )
        )
        labelled = opened.info.kind is Kind.IMAGE and not opened.fingerprint
        self._own_targets = trial.workload.task is Task.TRAINING and not labelled
        self._targets: Any = None

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> tuple[Any, Any]:
        images, targets = next(self._batches)
        if not self._own_targets:
            return images, targets
        if self._targets is None:
            self._targets = self._opened.synthetic_targets(images)
        return images, self._targets

    def close(self) -> None:
        """End the loader's processes now."""
        self._batches = iter(())


class MadeBatches:
    """Endless batches (inputs, targets) made on the host at every step.

    The text of a language model lies in memory as numbers, and CIFAR-10 is stored decoded:
    reading them costs nothing beside a step, and so does making them.
    """

    def __init__(self, trial: Trial, opened: Runnable) -> None:
        self._opened = opened
        self._batch_size = trial.workload.batch_size

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> tuple[Any, Any]:
        return self._opened.synthetic_batch(self._batch_size)

    def close(self) -> None:
        """Nothing was started."""


def open_batches(
    trial: Trial, opened: Runnable, source: SampleSource | None
) -> PhotographBatches | MadeBatches:
    """The batches of a trial's main run."""
    if source is None:
        return MadeBatches(trial, opened)
    return PhotographBatches(trial, opened, source)
