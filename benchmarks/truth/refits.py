"""Answers of the predictor refitted without what is asked: made as what ships is made."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import cycle
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Observation
from advisor.infra.build.fitting.bundled_model import PUBLISHED_FOLDER
from advisor.infra.build.fitting.network_effects import Fit
from advisor.infra.build.fitting.observations import (
    MeasuredStep,
    kernel_frame,
    kernel_steps,
    measured_steps,
    observation_frame,
)
from advisor.infra.build.fitting.step_times import step_times_of
from advisor.models.performance.persistence import bundled_step_times
from advisor.models.performance.step_times import StepTimes
from benchmarks.truth.asking import Answer, RefusalError, ScoredModel, groups, groups_of_fit, put
from benchmarks.truth.rows import ASKED, Row

# What may be left out; `family+gpu` is both at once, `batch` one batch size of a measured cell.
KINDS = ("network", "family", "gpu", "gpu+precision", "architecture", "source", "family+gpu", "batch")
# What is known of a GPU that is left out: its kernels, or what a user measured of six networks.
KEEPS = ("kernels", "probes")
# Each value of these is left out alone where it has so many rows; a fit without one network
# among hundreds, or one of a hundred families, is hardly another fit.
_OF_GPUS = frozenset({"gpu", "gpu+precision", "architecture"})
_ENOUGH_ROWS, _FOLDS, _BATCH_FOLDS = 20, 8, 4
_MOST_OF_A_PROBE = 6
_PROBES = ("resnet50", "vgg16", "densenet121", "mobilenet", "bert", "vit")
_SEED = 18


class Without(Struct, frozen=True):
    """What a refit leaves out; `keep` what it still knows of a GPU, `anchor` whether the user then
    measures one row of the network on another GPU."""

    kind: str
    keep: str | None = None
    anchor: bool = False

    @property
    def alike(self) -> str:
        """The groups that weigh the same in `all`."""
        return {"batch": "cell", "family+gpu": "gpu"}.get(self.kind, self.kind)

    def __str__(self) -> str:
        return self.kind + (f", {self.keep} kept" if self.keep else "") + ", anchored" * self.anchor


class Fold(NamedTuple):
    """Left out is what has any of these values, scored what has all of them."""

    values: Mapping[str, frozenset[str]]

    def leaves_out(self, keys: Mapping[str, str]) -> bool:
        """Whether a row of the fit goes."""
        return any(keys[kind] in values for kind, values in self.values.items())

    def leaves_out_kernel(self, keys: Mapping[str, str]) -> bool:
        """Whether a GPU's kernel goes: it has no family, network or source."""
        return any(keys[kind] in values for kind, values in self.values.items() if kind in _OF_GPUS)

    def scores(self, keys: Mapping[str, str]) -> bool:
        """Whether a row is new to the refit."""
        return all(keys[kind] in values for kind, values in self.values.items())


class _Taught(NamedTuple):
    """What the shipped predictor learnt from, with what each row belongs to; `pytorch`: of rows that are
    asked about."""

    rows: Sequence[MeasuredStep]
    kernels: Sequence[MeasuredStep]
    keys: Sequence[Mapping[str, str]]
    kernel_keys: Sequence[Mapping[str, str]]
    pytorch: Sequence[Mapping[str, str]]


@cache
def _taught() -> _Taught:
    several, _ = measured_steps(observation_frame(PUBLISHED_FOLDER))
    rows = [step for step in several if step]
    kernels = [step for step in kernel_steps(kernel_frame(PUBLISHED_FOLDER)) if step]
    keys, kernel_keys = ([groups_of_fit(step) for step in steps] for steps in (rows, kernels))
    asked = [found for found, row in zip(keys, rows, strict=True) if row.cell.step.conditions.stack in ASKED]
    return _Taught(rows, kernels, keys, kernel_keys, asked)


def refitted(fold: Fold, *, keep_kernels: bool = False, with_sources: bool = False) -> StepTimes:
    """What ships, made by the same command but without a fold; its intervals' quantiles stay."""
    taught, shipped = _taught(), bundled_step_times()
    rows = [row for row, keys in zip(taught.rows, taught.keys, strict=True) if not fold.leaves_out(keys)]
    kernels = [
        kernel
        for kernel, keys in zip(taught.kernels, taught.kernel_keys, strict=True)
        if keep_kernels or not fold.leaves_out_kernel(keys)
    ]
    # From where the whole fit ended it takes half the steps.
    nothing = np.zeros(0)
    start = Fit(
        shipped.posterior.names, shipped.posterior.mean, shipped.posterior.covariance, nothing, nothing
    )
    times, _ = step_times_of(rows, kernels, start, with_sources=with_sources)
    return replace(times, quantiles=shipped.quantiles)


class Refit(NamedTuple):
    """Step times, and the places of the rows that are new to them."""

    indices: list[int]
    times: StepTimes


def refits(scored_model: ScoredModel, rows: Sequence[Row], without: Without) -> Iterator[Refit]:
    """Every fit that leaves out some of the rows. What no row of the fit has cannot be left out:
    the shipped step times answer."""
    keys = [groups(scored_model, row) for row in rows]
    known = {row_keys[without.kind] for row_keys in _taught().keys}
    new = [index for index, row_keys in enumerate(keys) if row_keys[without.kind] not in known]
    if new and without.kind not in ("batch", "family+gpu") and not without.keep:
        yield Refit(new, scored_model.model.step_times)
    folds = folds_of(_taught().pytorch, without)
    for number, fold in enumerate(folds, 1):
        indices = [index for index, row_keys in enumerate(keys) if fold.scores(row_keys)]
        if indices:
            some = {kind: sorted(values)[:3] for kind, values in fold.values.items()}
            sys.stderr.write(f"fit {number} of {len(folds)}: {len(indices)} rows without {some}\n")
            times = refitted(
                fold, keep_kernels=without.keep == "kernels", with_sources=scored_model.tells_source
            )
            yield Refit(indices, times)


def answers_of(scored_model: ScoredModel, rows: Sequence[Row], without: Without) -> list[Answer | str]:
    """Each row's answer by a fit without the row's own group, or why there is none."""
    found: list[Answer | str] = ["nothing to score it by"] * len(rows)
    for indices, times in refits(scored_model, rows, without):
        test = [rows[index] for index in indices]
        if without.anchor:
            put(found, indices, anchored(scored_model, test, times))
        elif without.keep == "probes":
            put(found, indices, probed(scored_model, test, times))
        else:
            put(found, indices, scored_model.rates(test, times))
    return found


def folds_of(keys: Sequence[Mapping[str, str]], without: Without) -> list[Fold]:
    """What is left out together, one fit each, of rows with these keys."""
    if without.kind == "batch":
        return _batch_folds(keys)
    if without.kind == "family+gpu":
        families, gpus = (_values([row_keys[kind] for row_keys in keys], kind) for kind in ("family", "gpu"))
        return [
            Fold({"family": family, "gpu": gpu}) for family, gpu in zip(cycle(families), gpus, strict=False)
        ]
    kept = [row_keys for row_keys in keys if _is_scored(row_keys, without)]
    values = _values([row_keys[without.kind] for row_keys in kept], without.kind)
    return [Fold({without.kind: names}) for names in values]


def _is_scored(keys: Mapping[str, str], without: Without) -> bool:
    """Whether the GPU has kernels, or rows in another precision, where that is the question."""
    if without.keep == "kernels":
        return keys["gpu"] in {row_keys["gpu"] for row_keys in _taught().kernel_keys}
    if without.kind == "gpu+precision":
        return keys["gpu"] in _gpus_in_both_precisions()
    return True


@cache
def _gpus_in_both_precisions() -> frozenset[str]:
    found = {(row_keys["gpu"], row_keys["gpu+precision"]) for row_keys in _taught().pytorch}
    counts = Counter(gpu for gpu, _ in found)
    return frozenset(gpu for gpu, count in counts.items() if count > 1)


def _values(names: Sequence[str], kind: str) -> list[frozenset[str]]:
    """Large groups by themselves where `kind` wants it, the others shared out evenly."""
    counts = Counter(names)
    alone = sorted(name for name, n in counts.items() if kind in _OF_GPUS and n >= _ENOUGH_ROWS)
    rest = sorted(set(counts) - set(alone))
    random.Random(_SEED).shuffle(rest)
    shares: list[list[str]] = [[] for _ in range(min(1 if alone else _FOLDS, len(rest)))]
    # The largest groups first, each to the share that has the fewest rows.
    for name in sorted(rest, key=lambda key: -counts[key]):
        min(shares, key=lambda share: sum(counts[key] for key in share)).append(name)
    return [frozenset([name]) for name in alone] + [frozenset(share) for share in shares]


def _batch_folds(keys: Sequence[Mapping[str, str]]) -> list[Fold]:
    """Every cell keeps a batch size in every fit."""
    sizes: dict[str, set[str]] = defaultdict(set)
    for row_keys in keys:
        sizes[row_keys["cell"]].add(row_keys["batch"])
    folds: list[set[str]] = [set() for _ in range(_BATCH_FOLDS)]
    for found in sizes.values():
        if len(found) > 1:
            for index, batch in enumerate(sorted(found)):
                folds[index % _BATCH_FOLDS].add(batch)
    return [Fold({"batch": frozenset(names)}) for names in folds if names]


def _six(counts: Counter[str]) -> list[str]:
    usual = [
        min(like, key=lambda key: (len(key), key))
        for name in _PROBES
        if (like := [key for key in counts if key.startswith(name)])
    ]
    most = sorted(set(counts) - set(usual), key=lambda name: (-counts[name], name))
    return [*usual, *most][: len(_PROBES)]


def probed(scored_model: ScoredModel, rows: Sequence[Row], times: StepTimes) -> list[Answer | str]:
    """As `Asked.rates`, once somebody measured six networks on the GPU: each source's rows but
    those, by what the source's rows of six networks tell."""
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        alike[row.source, scored_model.chip(row.gpu)].append(index)
    found: list[Answer | str] = ["one of the six networks, or no more than those"] * len(rows)
    for indices in alike.values():
        six = _six(Counter(rows[index].network for index in indices))
        others = [index for index in indices if rows[index].network not in six]
        if len(six) < len(_PROBES) or not others:
            continue
        taken = [row for name in six for row in _some([rows[p] for p in indices], name)]
        known = conditioned(scored_model, taken, times)
        put(found, others, scored_model.rates([rows[index] for index in others], known))
    return found


def _some(rows: Sequence[Row], network: str) -> list[Row]:
    """As many of the network's rows as somebody measures: a few batches, tasks and precisions."""
    own = [row for row in rows if row.network == network]
    return random.Random(_SEED).sample(own, min(len(own), _MOST_OF_A_PROBE))


def anchored(scored_model: ScoredModel, rows: Sequence[Row], times: StepTimes) -> list[Answer | str]:
    """As `Asked.rates`, once one other row is known: the same source's of the same network, input,
    task, precision and stack on another GPU, at the batch size that is nearest."""
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        alike[
            row.source, row.network, row.input, row.task, row.precision, row.stack, row.memory_format
        ].append(index)
    found: list[Answer | str] = ["no row on another GPU to anchor on"] * len(rows)
    for indices in alike.values():
        chips = {scored_model.chip(rows[index].gpu) for index in indices}
        for name in sorted(chips) if len(chips) > 1 else ():
            here = [index for index in indices if scored_model.chip(rows[index].gpu) == name]
            there = [rows[index] for index in indices if index not in here]
            middle = float(np.median([np.log(rows[index].batch_size) for index in here]))
            nearest = [(abs(np.log(row.batch_size) - middle), row.gpu) for row in there]
            anchor = there[nearest.index(min(nearest))]
            known = conditioned(scored_model, [anchor], times)
            put(found, here, scored_model.rates([rows[index] for index in here], known))
    return found


def conditioned(scored_model: ScoredModel, rows: Sequence[Row], times: StepTimes) -> StepTimes:
    """What is known once a user measured the rows, those apart that cannot be asked of."""
    found = []
    for row in rows:
        with suppress(RefusalError):
            workload, gpu = scored_model.cell(row)
            if row.seconds is not None:
                found.append(Observation(workload=workload, gpu=gpu, seconds=row.seconds))
    return times.condition(found, scored_model.model.table)
