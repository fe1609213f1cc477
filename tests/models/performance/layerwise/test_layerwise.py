"""Behaviour of the layer-wise model, on operations and GPUs made up here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Task
from advisor.errors import DataError, UsageError
from models.performance.layerwise import (
    PRIOR,
    LayerwiseModel,
    MeasuredStep,
    NetworkKey,
    OperationTable,
    Setting,
    read_operations,
    step_operations,
    steps_of,
)
from models.performance.layerwise.form import (
    NAMES,
    Peaks,
    seconds_and_slopes,
    step_seconds,
)
from models.performance.layerwise.operations import KINDS
from models.performance.layerwise.probing import fit_carrying, told_by_probe

SMALL = Peaks(np.full(len(KINDS), 10e12), 300e9, 40)
BIG = Peaks(np.full(len(KINDS), 60e12), 900e9, 80)


def made_up_rows(seed: int, depth: int = 6) -> list[tuple[object, ...]]:
    """Rows of a network of convolutions, normalisations and additions."""
    draw = np.random.default_rng(seed)
    rows: list[tuple[object, ...]] = []
    for _ in range(depth):
        channels = int(draw.choice([32, 64, 100, 256]))
        pixels = float(draw.choice([49, 784, 3136]))
        moved = 8 * channels * pixels
        flops = 2 * pixels * channels * channels * 9
        kind = str(draw.choice(["conv_3x3", "conv_1x1", "linear"]))
        rows.append((kind, 0, flops, moved, 4.0 * channels**2, channels * 9, channels, 2))
        rows.append((str(draw.choice(["norm", "elementwise"])), 0, 0, moved, 0, 0, 0, 3))
    return rows


def key(name: str) -> NetworkKey:
    return NetworkKey("timm", name, 224, Task.INFERENCE, True)


def setting(source: str, gpu: str) -> Setting:
    return Setting(source, gpu, "amp", Task.INFERENCE)


def table_of(count: int) -> OperationTable:
    table = OperationTable({})
    for number in range(count):
        rows = made_up_rows(number)
        table.add(key(f"net{number}"), rows, rows[::2])
    return table


def test_slopes_are_those_of_the_seconds() -> None:
    """The fit's exact derivatives agree with small differences, for every parameter."""
    steps = steps_of([step_operations(made_up_rows(n)) for n in range(4)], [8, 1, 64, 512], SMALL)
    seconds, slopes = seconds_and_slopes(steps, PRIOR.mean)
    for place, name in enumerate(NAMES):
        moved = PRIOR.mean.copy()
        moved[place] += 1e-5
        change = (np.log(step_seconds(steps, moved)) - np.log(seconds)) / 1e-5
        np.testing.assert_allclose(slopes[:, place], change, atol=1e-4, err_msg=name)


@given(st.integers(0, 50), st.floats(1, 500))
def test_more_work_never_takes_less_time(seed: int, batch: float) -> None:
    """A larger batch takes longer, and a better GPU never does."""
    operations = [step_operations(made_up_rows(seed))]
    small, larger = (
        step_seconds(steps_of(operations, [size], SMALL), PRIOR.mean) for size in (batch, 2 * batch)
    )
    better = step_seconds(
        steps_of(operations, [batch], BIG._replace(multiprocessors=40)), PRIOR.mean
    )
    assert small < larger
    assert better <= small


def test_a_network_never_measured_is_predicted() -> None:
    """Parameters fitted to some networks tell the seconds of others of the same layers."""
    table = table_of(60)
    truth = PRIOR.mean + 0.3 * np.sin(np.arange(len(NAMES)))
    places = {setting("a", "small"): SMALL, setting("b", "big"): BIG}
    measured, wanted = [], {}
    for where, peaks in places.items():
        steps = steps_of([table.step(key(f"net{n}")) for n in range(60)], [64] * 60, peaks)
        seconds = step_seconds(steps, truth)
        measured += [MeasuredStep(where, key(f"net{n}"), 64, seconds[n]) for n in range(50)]
        wanted[where] = seconds[50:]
    model = LayerwiseModel.fit(measured, table, places)
    for where, seconds in wanted.items():
        asked = [table.step(key(f"net{n}")) for n in range(50, 60)]
        found = LayerwiseModel.from_document(model.as_document()).seconds(where, asked, [64] * 10)
        np.testing.assert_allclose(found, seconds, rtol=0.06)
    with pytest.raises(UsageError, match="measure a few networks there first"):
        model.seconds(setting("c", "other"), [table.step(key("net0"))], [1])


def test_wrong_rows_do_not_carry_the_fit_away() -> None:
    """One row of ten that is ten times too slow moves the others by a few per cent."""
    table = table_of(40)
    where = setting("a", "small")
    steps = steps_of([table.step(key(f"net{n}")) for n in range(40)], [64] * 40, SMALL)
    true = step_seconds(steps, PRIOR.mean)
    seconds = np.where(np.arange(40) % 10 == 0, 10 * true, true)
    measured = [MeasuredStep(where, key(f"net{n}"), 64, seconds[n]) for n in range(40)]
    model = LayerwiseModel.fit(measured, table, {where: SMALL})
    found = model.seconds(where, [table.step(key(f"net{n}")) for n in range(40)], [64] * 40)
    assert np.median(np.abs(found / true - 1)) < 0.05


def test_a_probe_tells_what_the_network_is_slower_by() -> None:
    """A network that takes 1.3 times as long on one GPU is slower on another one too, unless the
    other waits for launches."""
    table = table_of(1)
    model_parts = {}
    for name, peaks, batch in (("probe", SMALL, 64), ("busy", BIG, 64), ("waiting", BIG, 0.01)):
        where = setting("a", name)
        model = LayerwiseModel({where: peaks}, {where: PRIOR.mean})
        model_parts[name] = model.parts(where, [table.step(key("net0"))], [batch])
    measured = 1.3 * model_parts["probe"].seconds
    busy = told_by_probe(model_parts["probe"], measured, model_parts["busy"])
    waiting = told_by_probe(model_parts["probe"], measured, model_parts["waiting"])
    assert 0.1 < busy[0] < np.log(1.31)
    assert abs(waiting[0]) < busy[0] / 2


def test_carrying_learns_how_much_of_a_probe_holds() -> None:
    """From many pairs the share is found; from a few nothing is claimed to be known."""
    told = np.linspace(-0.3, 0.3, 40)
    found = fit_carrying(told, 0.02 + 0.8 * told)
    assert found.offset == pytest.approx(0.02, abs=0.01)
    assert found.share == pytest.approx(0.8, abs=0.05)
    assert fit_carrying(told[:5], told[:5] * 3).share == 1.0


def test_the_file_of_operations_gives_back_what_was_written(tmp_path: Path) -> None:
    """Eager and compiled steps come back as they were, and the file is the same each time."""
    table = table_of(3)
    path, again = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
    table.write(path)
    read = read_operations(path)
    read.write(again)
    assert path.read_bytes() == again.read_bytes()
    for name in table.keys:
        for compiled in (False, True):
            one, two = (each.step(name, compiled=compiled) for each in (table, read))
            sizes = [np.sort(each.sample_bytes) for each in (one, two)]
            np.testing.assert_allclose(*sizes, rtol=1e-5)
    assert len(read.step(key("net0"), compiled=True).count) == 6


@pytest.mark.parametrize("text", [b"", b"a,b\n1,2\n", b"not gzip"])
def test_a_damaged_file_is_named(tmp_path: Path, text: bytes) -> None:
    """Whatever is wrong with the file, the error says which one and what to do."""
    path = tmp_path / "operations.csv.gz"
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"operations\.csv\.gz"):
        read_operations(path)


def test_unknown_kinds_are_refused() -> None:
    """A file of a newer version is not silently misread."""
    with pytest.raises(DataError, match="unknown kinds"):
        step_operations([("conv_4d", 0, 1, 1, 1, 1, 1, 1)])
