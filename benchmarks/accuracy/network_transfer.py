"""Suite `network_transfer`: rates of a network never measured, from what torch tells of it.

The same directory twice: whole families are left out, in ten folds with at most one family of
torchvision each. Two directories: every row of a scored network leaves the training side first.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from advisor.domain import Task
from advisor.errors import AdvisorError
from benchmarks.accuracy.data_sheets import DataSheet, find_sheet, read_data_sheets
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.network_baselines import forest_seconds, linear_seconds, ratio_seconds
from benchmarks.accuracy.network_prediction import Fold, Known, probe_settings
from benchmarks.accuracy.network_rows import Row, read_rows
from models.performance.layerwise import OperationTable, Setting, read_operations
from models.performance.layerwise.form import Peaks, peaks_of
from models.performance.step_work import HALF, capability

OPERATIONS = Path(__file__).parents[1] / "data" / "operations.csv.gz"
_FOLDS = 10
_CAPTURE_SECONDS = 60.0
_NO_PROBE, _PROBE, _RATIO = "no probe", "one probe", "GPU ratio"
# The probe ran the very same software: only the GPU differs.
_SAME_SOFTWARE = "one probe, same software"
_LINEAR, _FOREST = "log-linear on whole-network numbers", "forest on whole-network numbers"


@dataclass
class _Scores:
    """Predictions by method: (row, predicted seconds); `unknown` settings have nothing to learn
    from."""

    by_method: dict[str, list[tuple[Known, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    unknown: set[Setting] = field(default_factory=set)

    def add(self, method: str, rows: Sequence[Known], seconds: Sequence[float]) -> None:
        self.by_method[method] += [
            (row, value) for row, value in zip(rows, seconds, strict=True) if np.isfinite(value)
        ]

    def figures(self, method: str, name: str, library: str | None, task: Task) -> Figures | None:
        """Errors in the rate, grouped by family; None where there is no such row."""
        chosen = [
            (known, seconds)
            for known, seconds in self.by_method[method]
            if library in (None, known.row.library) and known.row.setting.task is task
        ]
        if not chosen:
            return None
        predicted = [known.row.batch_size / seconds for known, seconds in chosen]
        true = [known.row.batch_size / known.row.seconds for known, _ in chosen]
        return figures(name, predicted, true, [known.row.family for known, _ in chosen])


def run(train: Path, score: Path) -> SuiteResult:
    """Figures of all variants; `NothingToScore` where no row is left."""
    sheets = read_data_sheets(train)
    learn_rows, skipped = read_rows(train)
    score_rows, more = (learn_rows, []) if score == train else read_rows(score)
    table = read_operations(OPERATIONS)
    said = [*skipped, *(reason for reason in more if reason not in skipped)]
    said += _capture_missing(table, [*score_rows, *learn_rows])
    peaks = _peaks([*learn_rows, *score_rows], sheets, said)
    learn = _known(learn_rows, table, peaks, said)
    scored = learn if score == train else _known(score_rows, table, peaks, said)
    scores = _Scores()
    folds = _family_folds(scored) if score == train else [_scored_networks(scored)]
    for left_out in folds:
        kept = [known for known in learn if known.row.network not in left_out]
        asked = [known for known in scored if known.row.network in left_out]
        if kept and asked:
            _score_fold(Fold(kept, table, peaks), kept, asked, table, peaks, scores)
    said += [
        f"{one.source} on {one.gpu}, {one.precision} {one.task}: nothing measured to learn from"
        for one in scores.unknown
    ]
    return _result(scores, sorted(set(said)))


def _family_folds(rows: Sequence[Known]) -> Iterator[set[str]]:
    """Networks left out together: whole families, in balanced folds.

    Each family of torchvision has a fold of its own, which timm's families fill up: so none of
    either library is left out beside another one of torchvision.
    """
    networks: dict[str, set[str]] = defaultdict(set)
    for known in rows:
        networks[known.row.family].add(known.row.network)
    single = sorted({known.row.family for known in rows if known.row.library == "torchvision"})
    bins: list[set[str]] = [set() for _ in range(max(_FOLDS, len(single)))]
    for fold, name in enumerate(single):
        bins[fold].update(networks.pop(name))
    for name in sorted(networks, key=lambda one: (-len(networks[one]), one)):
        min(bins, key=len).update(networks[name])
    yield from filter(None, bins)


def _scored_networks(rows: Sequence[Known]) -> set[str]:
    return {known.row.network for known in rows}


def _score_fold(
    fold: Fold,
    kept: Sequence[Known],
    asked: Sequence[Known],
    table: OperationTable,
    peaks: Mapping[Setting, Peaks],
    scores: _Scores,
) -> None:
    learnt, wanted = _by_setting(kept), _by_setting(asked)
    scores.unknown.update(setting for setting in wanted if not fold.knows(setting))
    likest = probe_settings(sorted(set(learnt) & set(wanted)), peaks)
    for setting, rows in wanted.items():
        if not fold.knows(setting):
            continue
        scores.add(_NO_PROBE, rows, fold.seconds(rows))
        scores.add(_LINEAR, rows, linear_seconds(learnt[setting], rows, table))
        scores.add(_FOREST, rows, forest_seconds(learnt[setting], rows, table))
        for other, pairs in _probed(rows, likest[setting], wanted).items():
            probed, probes = zip(*pairs, strict=True)
            seconds = fold.seconds_with_probes(probed, probes)
            scores.add(_PROBE, probed, seconds)
            if other.source == setting.source:
                scores.add(_SAME_SOFTWARE, probed, seconds)
            both = _matched(learnt[setting], learnt[other])
            scores.add(_RATIO, probed, ratio_seconds(both, probes, probed))


def _probed(
    rows: Sequence[Known], likest: Sequence[Setting], wanted: Mapping[Setting, Sequence[Known]]
) -> dict[Setting, list[tuple[Known, Known]]]:
    """Each row with the probe of the likest setting that has one, by that setting."""
    found: dict[Setting, list[tuple[Known, Known]]] = defaultdict(list)
    left = list(rows)
    for other in likest:
        pairs = _matched(left, wanted[other])
        if pairs:
            found[other] = pairs
            taken = {id(row) for row, _ in pairs}
            left = [row for row in left if id(row) not in taken]
    return found


def _matched(rows: Sequence[Known], probes: Sequence[Known]) -> list[tuple[Known, Known]]:
    by_cell = {probe.cell: probe for probe in probes}
    return [(row, by_cell[row.cell]) for row in rows if row.cell in by_cell]


def _by_setting(rows: Sequence[Known]) -> dict[Setting, list[Known]]:
    found: dict[Setting, list[Known]] = defaultdict(list)
    for known in rows:
        found[known.row.setting].append(known)
    return found


def _capture_missing(table: OperationTable, rows: Sequence[Row]) -> list[str]:
    """Capture what the rows name and the file has not, while there is time; what failed."""
    from advisor.operations.capturing import capture_library_rows

    unknown = [row.candidates[0] for row in rows if not any(key in table for key in row.candidates)]
    # Inference first: its figures are the main ones.
    missing = sorted(set(unknown), key=lambda key: (key.task is Task.TRAINING, key))
    ends_at = time.monotonic() + _CAPTURE_SECONDS
    said: list[str] = []
    for done, key in enumerate(missing):
        if time.monotonic() > ends_at:
            left = len(missing) - done
            said.append(f"{left} networks not captured in {_CAPTURE_SECONDS:g} s; complete "
                        "benchmarks/data with python -m benchmarks.network_operations")  # fmt: skip
            break
        try:
            table.add(key, *capture_library_rows(key))
        except AdvisorError as error:
            said.append(str(error))
    if missing:
        sys.stderr.write(f"{len(missing)} networks were not in {OPERATIONS.name}\n")
    return said


def _peaks(
    rows: Sequence[Row], sheets: Mapping[str, DataSheet], said: list[str]
) -> dict[Setting, Peaks]:
    """Data sheets of the settings; what has none, or none of that precision, is said."""
    found: dict[Setting, Peaks] = {}
    for setting in sorted({row.setting for row in rows}):
        sheet = find_sheet(setting.gpu, sheets)
        if sheet is None:
            said.append(f"no data sheet of {setting.gpu}: its rows are left out")
        elif setting.precision == HALF and capability(sheet.gpu) < 7:
            # As in models.performance.published: libraries of the time disagreed by 2x.
            said.append(f"{setting.gpu} in half precision: it has no tensor cores, left out")
        else:
            found[setting] = peaks_of(sheet.gpu, setting.precision, sheet.multiprocessors)
    return found


def _known(
    rows: Sequence[Row], table: OperationTable, peaks: Mapping[Setting, Peaks], said: list[str]
) -> list[Known]:
    """Rows with a data sheet and a capture."""
    found, without = [], 0
    for row in rows:
        if row.setting not in peaks:
            continue
        captured = [key for key in row.candidates if key in table]
        without += not captured
        if captured:
            found.append(Known(row, min(captured, key=lambda key: _distance(row, key, table))))
    if without:
        said.append(f"{without} rows of networks without a capture")
    return found


def _distance(row: Row, key: object, table: OperationTable) -> float:
    """How far a capture's work is from what the file says of the network (folded or not)."""
    if row.gmacs is None or len(row.candidates) < 2:
        return 0.0
    step = table.step(key)  # type: ignore[arg-type]
    return abs(float(np.log(step.flops @ step.count / 2e9 / row.gmacs)))


def _result(scores: _Scores, said: Sequence[str]) -> SuiteResult:
    main = scores.figures(_NO_PROBE, _NO_PROBE, None, Task.INFERENCE)
    if main is None:
        raise NothingToScore("no inference rate of timm or torchvision could be predicted")
    variants = [
        scores.figures(method, f"{library}, {task}, {method}", library, task)
        for library in ("torchvision", "timm")
        for task in (Task.INFERENCE, Task.TRAINING)
        for method in (_NO_PROBE, _PROBE, _SAME_SOFTWARE)
    ]
    baselines = [
        scores.figures(method, f"{library}, {Task.INFERENCE}, {method}", library, Task.INFERENCE)
        for library in ("torchvision", "timm")
        for method in (_LINEAR, _FOREST, _RATIO)
    ]
    return SuiteResult(
        suite="network_transfer",
        main=main,
        variants=[one for one in variants if one],
        baselines=[one for one in baselines if one],
        skipped=said,
    )
