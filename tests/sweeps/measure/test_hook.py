"""The hook: nothing without the variable, every step with it, and never a word to the script."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps import hook
from advisor.sweeps.hook import FILE_VARIABLE, Recorder, batch_size, steps, unfinished
from advisor.sweeps.measure.document import read_steps
from tests.sweeps.cuda_standin import StandIn, installed


class Tensor:
    def __init__(self, *shape):
        self.shape = shape


BATCH = (Tensor(16, 3), Tensor(16))


class Loop:
    """A script whose time passes where it says so: its own clock."""

    def __init__(self, path, seconds=1e9):
        self.now = 0.0
        self.recorder = Recorder(path, seconds, profiles=False, clock=lambda: self.now)

    def loader(self, count, start, wait):
        self.now += start
        for _ in range(count):
            self.now += wait
            yield BATCH

    def epoch(self, count, *, start=0.0, wait=0.0, step=1.0):
        for _ in self.recorder.watch(self.loader(count, start, wait)):
            self.now += step


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(hook, "_recorder", None)
    for variable in (FILE_VARIABLE, hook.SECONDS_VARIABLE, "RANK"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def steps_file(tmp_path):
    return tmp_path / "s.jsonl"


@pytest.mark.parametrize("variables", [(), (FILE_VARIABLE, "RANK")])
def test_without_the_variable_and_beside_the_first_process_the_loader_itself_comes_back(
    monkeypatch, variables
):
    for variable in variables:
        monkeypatch.setenv(variable, "1")
    loader = [1, 2]
    assert steps(loader) is loader


def test_what_is_timed_still_looks_like_the_loader(monkeypatch, steps_file):
    class Loader(list):
        num_workers = 3

    monkeypatch.setenv(FILE_VARIABLE, str(steps_file))
    monkeypatch.setattr(hook.atexit, "register", lambda _call: None)
    watched = steps(Loader([BATCH] * 3))
    assert (len(watched), watched.num_workers, list(watched)) == (3, 3, [BATCH] * 3)
    result = read_steps(unfinished(steps_file))
    assert len(result.rows) == 3
    assert result.period == 3


def test_the_loaders_start_is_part_of_an_epochs_first_step_and_what_lies_between_of_none(steps_file):
    loop = Loop(steps_file)
    loop.epoch(2, start=5.0, wait=0.25)
    loop.now += 30.0
    loop.epoch(2, start=5.0, wait=0.25)
    loop.recorder.finish()
    result = read_steps(steps_file)
    assert result.rows == [[5.25, 6.25, 16.0], [0.25, 1.25, 16.0]] * 2
    assert result.epochs == [
        {"first_step": 0, "gap_seconds": 0.0, "loader_start_seconds": 5.25},
        {"first_step": 2, "gap_seconds": 30.0, "loader_start_seconds": 5.25},
    ]


def test_the_time_box_ends_the_recording_and_batches_still_come(steps_file):
    loop = Loop(steps_file, seconds=10.0)
    loop.epoch(25)
    assert loop.now == 25.0
    assert len(read_steps(steps_file).rows) == 10
    assert not unfinished(steps_file).exists()


@given(st.data())
def test_a_kill_at_any_byte_leaves_the_steps_before_it(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("hook") / "s.jsonl"
    Loop(file).epoch(40)
    whole = read_steps(unfinished(file)).rows
    content = unfinished(file).read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    rows = read_steps(file).rows
    assert rows == whole[: len(rows)]


def test_what_is_in_the_file_is_a_second_old_at_most(steps_file):
    loop = Loop(steps_file)
    for _ in loop.recorder.watch(loop.loader(100, 0.0, 0.0)):
        loop.now += 0.3
        assert loop.now - 0.3 * len(read_steps(unfinished(steps_file)).rows) <= 2.0


def test_a_loop_without_a_step_leaves_no_finished_file_and_a_place_that_cannot_be_written_disturbs_no_script(
    steps_file, tmp_path
):
    loop = Loop(steps_file)
    loop.epoch(0)
    loop.recorder.finish()
    assert not steps_file.exists()
    assert read_steps(unfinished(steps_file)).rows == []
    recorder = Recorder(tmp_path / "none" / "s.jsonl", seconds=0.0)
    assert list(recorder.watch([BATCH] * 9)) == [BATCH] * 9
    recorder.finish()


def gpu_loop(path, *, wait, step_seconds=0.02, steps=30):
    """A loop whose host takes 1 ms a step beside `wait` for its loader; the recorded steps but
    the first three (whose events begin), and the seconds that the loop took."""
    loop = Loop(path)

    def sleep(seconds):
        loop.now += seconds

    device = StandIn(step_seconds=step_seconds, clock=lambda: loop.now, sleep=sleep)
    with installed(device):
        for number, _ in enumerate(loop.recorder.watch(loop.loader(steps, 0.0, wait)), 1):
            device.work(step_seconds)
            loop.now += 0.001
            if number == steps - 1:
                host_seconds = loop.now
        loop.recorder.finish()
    return read_steps(path).rows[3:], host_seconds


@pytest.mark.parametrize(("wait", "step", "waited"), [(0.004, 0.02, 0.0), (0.05, 0.051, 0.031)])
def test_on_a_gpu_steps_are_its_own_and_a_loader_that_starves_it_is_seen(steps_file, wait, step, waited):
    rows, host_seconds = gpu_loop(steps_file, wait=wait)
    assert [row[1] for row in rows] == pytest.approx([step] * 27)
    assert [row[0] for row in rows] == pytest.approx([waited] * 27, abs=1e-9)
    # The loader's 4 ms pass while the GPU computes: the loop waits for nothing, and runs ahead.
    assert waited or host_seconds == pytest.approx(29 * 0.005)


def test_steps_of_an_older_hook_are_read(steps_file):
    steps = {"warmup": [[0.0, 9.0, 8.0]], "counted": [[0.0, 1.0, 8.0]] * 3, "counted_seconds": 3.0}
    steps_file.write_text(json.dumps({"schema": "advisor.steps/1", **steps, "device": "cpu"}))
    result = read_steps(steps_file)
    assert [row[1] for row in result.rows] == [9.0, 1.0, 1.0, 1.0]
    assert result.facts["device"] == "cpu"


def test_the_steps_after_the_counted_ones_are_profiled(steps_file):
    import torch

    recorder = Recorder(steps_file, seconds=0.0)
    weights = torch.ones(64, 64)
    for batch in recorder.watch([torch.ones(16, 64)] * 20):
        torch.mm(batch, weights)
    result = read_steps(steps_file)
    assert len(result.rows) == 1
    table = {row["name"]: row for row in result.facts["operators"]}
    assert table["aten::mm"]["calls_per_step"] == 1.0


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
