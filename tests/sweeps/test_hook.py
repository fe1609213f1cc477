"""The hook: nothing without the variable, every step with it."""

import itertools
import json

import pytest

from sweeps import hook
from sweeps.hook import FILE_VARIABLE, Recorder, batch_size, steps


class Tensor:
    def __init__(self, *shape):
        self.shape = shape


BATCH = (Tensor(16, 3), Tensor(16))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(hook, "_recorder", None)
    for variable in (FILE_VARIABLE, hook.SECONDS_VARIABLE, "RANK"):
        monkeypatch.delenv(variable, raising=False)


def test_without_the_variable_the_loader_itself_comes_back():
    loader = [1, 2]
    assert steps(loader) is loader


def test_other_processes_of_a_distributed_training_do_not_record(monkeypatch, tmp_path):
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "s.json"))
    monkeypatch.setenv("RANK", "1")
    loader = [1]
    assert steps(loader) is loader


def test_epochs_are_recorded_together_and_batches_unchanged(monkeypatch, tmp_path):
    place = tmp_path / "s.json"
    monkeypatch.setenv(FILE_VARIABLE, str(place))
    monkeypatch.setenv(hook.SECONDS_VARIABLE, "1e-9")
    monkeypatch.setattr(hook.atexit, "register", lambda _call: None)
    assert [list(steps([BATCH] * 3)) for _ in range(2)] == [[BATCH] * 3] * 2
    document = json.loads(place.read_text())
    assert document["warmup"][0][2] == 16
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_steps_after_the_warm_up_count_and_the_time_box_ends_the_recording(tmp_path):
    """Each look at this clock takes a second: a step is two seconds, the loader's half of it."""
    ticks = itertools.count()
    recorder = Recorder(tmp_path / "s.json", seconds=40.0, clock=lambda: float(next(ticks)))
    assert len(list(recorder.watch([BATCH] * 50))) == 50
    document = json.loads((tmp_path / "s.json").read_text())
    assert len(document["warmup"]) == 5
    assert document["counted"] == [[1.0, 2.0, 16.0]] * len(document["counted"])
    assert 20 <= document["counted_seconds"] <= 30
    (tmp_path / "s.json").unlink()
    recorder.finish()
    assert not (tmp_path / "s.json").exists()


def test_a_loop_without_a_step_writes_nothing(tmp_path):
    recorder = Recorder(tmp_path / "s.json", seconds=1.0)
    list(recorder.watch([]))
    recorder.finish()
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (Tensor(8, 3), 8),
        ([Tensor(), Tensor(4)], 4),
        ({"pixels": (Tensor(2, 2), 1)}, 2),
        ("text", 0),
        ([], 0),
        (Tensor(), 0),
    ],
)
def test_the_batch_size_is_the_first_dimension_of_the_first_tensor(batch, size):
    assert batch_size(batch) == size
