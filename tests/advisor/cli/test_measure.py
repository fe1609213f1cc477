"""`advisor measure`: wrong questions are refused at once, scripts end, no half file stays."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.answers.measuring import measure_reference
from advisor.cli import main
from advisor.domain import Precision, Task
from advisor.errors import DataError, MeasuringError, UsageError
from advisor.runs.measuring_script import measure_script
from advisor.sweeps.measure.document import anchor_of_script
from tests.processes import gone
from tests.sweeps.measure.test_network import recorded, validate

pytestmark = pytest.mark.usefixtures("own_folder")
LOOP = """
import time
from advisor.sweeps.hook import steps
class Tensor:
    shape = (16, 3)
for _ in steps([Tensor()] * {count}):
    time.sleep(0.005)
"""


def advisor(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "advisor", "measure", *arguments, "--", sys.executable, "train.py"],
        capture_output=True,
        text=True,
    )


def anchor_of(script, *options):
    """The anchor of a script that is measured, and what was printed."""
    Path("train.py").write_text(script)
    done = advisor(*options)
    assert done.returncode == 0, done.stderr
    return json.loads(Path("anchor-script.json").read_text()), done.stdout


def test_a_script_is_measured_and_ended_in_time(tmp_path):
    result, printed = anchor_of(LOOP.format(count=100_000), "--minutes", "0.01", "-o", "json")
    validate(result)
    assert json.loads(printed) == result
    assert result["runs"][0]["batch_size"] == 16
    assert min(result["runs"][0]["step_seconds"]) >= 0.005
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchor-script.json", "train.py"]


@pytest.mark.slow
def test_a_script_without_the_hook_is_sampled_and_told_which_instance_it_needs():
    result, _ = anchor_of("import time\nwhile True: time.sleep(0.01)", "--minutes", "0.25", "-o", "json")
    validate(result)
    usage = result["usage"]
    assert (result["runs"], usage["bound_by"], usage["needs"]["vcpus"]) == ([], "nothing_sampled", 1)
    usd = [each["usd_per_hour"] for each in usage["instances"]]
    assert usd == sorted(usd)
    assert len(usd) == 3
    question = ["recommend", "--task=training", "--model=mine", "--anchor=anchor-script.json"]
    program = Path(sys.executable).with_name("advisor")
    done = subprocess.run([program, *question], capture_output=True, text=True)
    assert (done.returncode, "is no anchor" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        (LOOP.format(count=2) + "\nraise RuntimeError('soon')", "exit code 1"),
        ("print('done')", "never called the hook"),
        (LOOP.format(count=0), "made not one step"),
        (LOOP.format(count=2), "too few"),
    ],
)
def test_a_script_that_cannot_be_measured_is_one_line_and_no_file(script, said, tmp_path):
    Path("train.py").write_text(script)
    done = advisor()
    assert done.returncode == 1
    assert said in done.stderr.strip().splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        ("raise RuntimeError('late')", "ended with exit code 1"),
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 15)", "was ended by signal 15"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("import os; os._exit(0)", None),
    ],
)
def test_a_script_that_ends_badly_after_its_loop_is_measured(ending, how):
    result, _ = anchor_of(LOOP.format(count=50) + "\n" + ending)
    assert result["runs"][0]["steps"] >= 20
    assert any(how in warning for warning in result["warnings"]) if how else len(result["warnings"]) == 1


def test_a_script_that_is_interrupted_in_its_loop_keeps_every_step_it_made():
    """Ctrl-C in Python is an exception in the loop: unlike a kill it loses not even a second."""
    script = (
        "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmade = 0\n"
        + LOOP.format(count=10_000)
        + "    made += 1\n    if made == 70: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    result, _ = anchor_of(script)
    (run,) = result["runs"]
    # The 70th was interrupted: it never ended.
    assert len(run["warmup_step_seconds"]) + run["steps"] == 69
    assert any("signal 2" in warning for warning in result["warnings"])


@pytest.mark.slow
def test_evaluation_after_the_loop_is_no_part_of_the_rate():
    """The script itself notes what it reached; with its evaluation that would be a quarter."""
    around = "\nopen('own', 'w').write(str(16 * 60 / (time.monotonic() - begun)))\ntime.sleep(3)"
    script = "import time\nbegun = time.monotonic()" + LOOP.format(count=60) + around
    result, _ = anchor_of(script, "--runs", "2")
    reached = float(Path("own").read_text())
    assert [run["samples_per_second"] for run in result["runs"]] == pytest.approx([reached] * 2, rel=0.4)


def test_a_script_that_does_not_reach_its_loop_is_ended():
    sleeps = [sys.executable, "-c", "import advisor.sweeps.hook, time; time.sleep(600)"]
    with pytest.raises(MeasuringError, match="did not reach"):
        measure_script(sleeps, minutes=1, on_progress=lambda _line: None, seconds_to_begin=0.3)


def test_ctrl_c_leaves_no_process_and_no_file(tmp_path):
    Path("train.py").write_text(
        "import os\nopen('pid', 'w').write(str(os.getpid()))\n" + LOOP.format(count=100_000)
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor", "measure", "--", sys.executable, "train.py"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            if "called the hook" in line:
                break
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.stderr.read()
    assert process.returncode == 130
    assert gone(int(Path("pid").read_text()))
    assert not list(tmp_path.glob("anchor*"))


def child(script, **options):
    return measure_reference(
        "alexnet",
        minutes=0.01,
        tasks=(Task.INFERENCE,),
        precision=Precision.FP32,
        data=None,
        on_progress=lambda _line: None,
        command=(sys.executable, "-c", script),
        **options,
    )


@pytest.mark.parametrize(
    ("script", "error", "said"),
    [
        ("""print('{"error": "no such thing", "usage": true}')""", UsageError, "no such thing"),
        ("""print('{"error": "no torch", "usage": false}')""", MeasuringError, "no torch"),
        ("import sys; sys.exit('killed it')", MeasuringError, "killed it"),
        ("import time; time.sleep(600)", MeasuringError, "no answer"),
    ],
)
def test_a_child_that_cannot_measure_is_one_clear_error(script, error, said):
    with pytest.raises(error, match=said):
        child(script, grace_seconds=0.5)


def test_a_child_that_dies_leaves_what_it_had_measured():
    measured = anchor_of_script(["x"], [recorded([(0.0, 0.5, 16.0)] * 30)], 3.0)
    script = f"import os; print({json.dumps({'so_far': measured})!r}, flush=True); os.abort()"
    result = child(script)
    assert result["runs"] == measured["runs"]
    assert any("signal 6" in warning for warning in result["warnings"])


def test_without_torch_the_extra_is_named():
    script = (
        "import sys; sys.modules['torch'] = None\nfrom advisor.sweeps.measure.__main__ import main; main()"
    )
    with pytest.raises(MeasuringError, match=r"torch is not installed.*\[sweep\]"):
        child(script)


@pytest.mark.machine
@pytest.mark.slow
def test_an_own_network_is_measured_and_shown(tmp_path, capsys):
    Path("net.py").write_text(
        "import torch\nINPUT_SHAPE = (3, 16, 16)\n"
        "def build():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 4))\n"
    )
    assert main.run(["measure", "--model", "net.py:build", "--minutes", "0.05"]) == 0
    result = json.loads((tmp_path / "anchor-net.json").read_text())
    validate(result)
    assert result["what"]["fingerprint"]
    shown = capsys.readouterr().out
    assert "Warning: measured on this CPU" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.slow
def test_the_best_batch_is_measured_again_in_fresh_processes(tmp_path):
    question = ("--model", "cifar10_cnn", "--task", "inference", "--minutes", "0.15", "--runs", "3")
    assert main.run(["measure", *question]) == 0
    result = json.loads((tmp_path / "anchor-cifar10_cnn.json").read_text())
    validate(result)
    again = [run["batch_size"] for run in result["runs"] if run["process"] > 0]
    first = [run for run in result["runs"] if run["process"] == 0]
    best = max(first, key=lambda run: run["samples_per_second"])
    assert again == [best["batch_size"]] * 2


def test_repeats_of_one_run_are_a_row_with_their_spread(monkeypatch, capsys):
    runs = [recorded([(0.1, seconds, 16.0)] * 5) for seconds in (0.4, 0.9, 1.5)]
    measured = anchor_of_script(["python", "x.py"], runs, 3.0)
    monkeypatch.setattr("advisor.cli.measure.measure_script", lambda *_, **__: measured)
    assert main.run(["measure", "--", "python", "x.py"]) == 0
    assert " (3 runs: 10.7 to 40)" in (out := capsys.readouterr().out), out


def test_what_cannot_be_written_any_more_is_printed_and_not_lost(monkeypatch, capsys):
    """A disk that fills up while a network is measured takes nothing of two minutes."""

    def refuse(_path, _text):
        raise DataError("cannot write it: No space left on device", hint="nothing was changed")

    measured = anchor_of_script(["python", "x.py"], [recorded([(0.1, 0.4, 16.0)] * 5)], 3.0)
    monkeypatch.setattr("advisor.cli.measure.measure_script", lambda *_, **__: measured)
    monkeypatch.setattr("advisor.cli.measure.write_whole", refuse)
    assert main.run(["measure", "--", "python", "x.py"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.strip().splitlines()[-1]) == measured
    assert "No space left on device" in printed.err
    assert "save that as the file" in printed.err
