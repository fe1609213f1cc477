"""`advisor probe` answers from another process; `advisor doctor` by one screen and an exit code."""

import json
import os
import sys

import pytest

from advisor.cli import main
from advisor.extras import install_command
from advisor.runs import doctor, probing
from advisor.runs.doctor import Finding, State
from advisor.runs.probing import probe_machine
from advisor.sweeps.probe.session import PARTS, skipped
from tests.processes import gone
from tests.sweeps.probe.test_showing import document, gpu_part, validate

LIGHT_CORE = (
    sys.executable,
    "-P",
    "-c",
    "import sys; sys.modules['torch'] = sys.modules['PIL'] = None\n"
    "from advisor.sweeps.probe.__main__ import main; raise SystemExit(main())",
)


@pytest.fixture
def answered(monkeypatch):
    """`advisor probe` gets the test's document, without any process."""

    def install(result):
        monkeypatch.setattr("advisor.cli.probe.probe_machine", lambda *_, **__: result)

    return install


def test_json_goes_to_stdout_and_to_a_file_whole(answer, answered, tmp_path):
    answered(document(gpu=gpu_part()))
    out = tmp_path / "probe.json"
    assert answer("probe", "--out", out) == json.loads(out.read_text()) == document(gpu=gpu_part())
    assert [path.name for path in tmp_path.iterdir()] == ["probe.json"]


def test_only_a_whole_probe_of_this_machine_is_kept_for_its_trials(shown, answered, monkeypatch):
    result = document(gpu=gpu_part())
    answered(result)
    shown("probe", "--only", "gpu")
    assert probing.kept_fingerprints() == ()
    shown("probe")
    assert probing.kept_fingerprints() == (), "the sample is of another CPU"
    monkeypatch.setattr(probing, "cpu_model", lambda: result["machine"]["cpu_model"])
    (kept,) = probing.kept_fingerprints()
    assert kept["probed_at"] == result["started_at"]
    assert kept["figures"]


def test_nothing_measured_is_an_error_with_its_reason(ask, answered):
    answered(document(gpu=skipped("no NVIDIA driver")))
    code, out, err = ask("probe", "--only", "gpu", "-o", "json")
    assert (code, json.loads(out)["parts"]["gpu"]) == (1, {"skipped": "no NVIDIA driver"})
    assert "no NVIDIA driver" in err


def _probe(tmp_path, command, parts=("cpu",), **more):
    lines = []
    result = probe_machine(
        parts, quick=True, disk=tmp_path, on_progress=lines.append, command=command, **more
    )
    return result, lines


def test_a_real_process_answers_and_tells_its_progress(tmp_path):
    result, text = _probe(tmp_path, probing.COMMAND)
    validate(result)
    assert result["parts"]["cpu"]["usable_cpus"] == len(os.sched_getaffinity(0))
    assert text == [f"[1/1] cpu: {PARTS['cpu']}"]


def test_a_users_own_files_are_not_taken_for_ours(tmp_path, monkeypatch):
    for name in ("sweeps", "models", "advisor"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "random.py").write_text("raise RuntimeError('nor this one')")
    monkeypatch.chdir(tmp_path)
    assert _probe(tmp_path, probing.COMMAND)[0]["parts"]["cpu"]["model"]


def _says(script):
    return (sys.executable, "-c", script)


def test_the_process_and_its_children_are_gone_however_it_is_left(tmp_path):
    script = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        'print(\'{"progress": "[1/1] started"}\', flush=True); child.wait()'
    )

    def interrupt(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe_machine(("cpu",), quick=True, disk=tmp_path, on_progress=interrupt, command=_says(script))
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_without_torch_and_pillow_the_light_core_answers_and_names_the_extra(tmp_path):
    result, _ = _probe(tmp_path, LIGHT_CORE, parts=("cpu", "decode", "ram", "gemm", "operations"))
    validate(result)
    for part in ("decode", "gemm", "operations"):
        assert install_command("sweep") in result["parts"][part]["skipped"]
    assert result["parts"]["ram"]["one_thread"]["read"]["value"] > 0


@pytest.mark.machine
@pytest.mark.slow
def test_a_whole_quick_probe_is_valid_and_shown(ask, tmp_path):
    code, out, err = ask("probe", "--quick", "--disk", tmp_path, "-o", "json")
    assert code == 0
    result = json.loads(out)
    validate(result)
    assert set(result["parts"]) == set(PARTS)
    assert list(tmp_path.iterdir()) == []
    assert err.count("/7]") == 7


def test_a_probe_that_cannot_be_kept_is_still_an_answer(ask, answered, monkeypatch, tmp_path):
    answered(document(gpu=gpu_part()))
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(probing, "own_fingerprint_path", lambda: tmp_path / "file" / "own.json")
    code, out, err = ask("probe")
    assert (code, "GPU Tesla T4" in out) == (0, True)
    assert "not kept for later trials" in err


FINE = Finding(State.OK, "2.60.0", check="ray")
POOR = Finding(State.WARNING, "old", "upgrade", check="bundle")
BAD = Finding(State.PROBLEM, "none \x1b[2J", "be root", check="limits")


@pytest.fixture
def examined(monkeypatch):
    def install(*findings):
        question = []

        def examine(*, keep_leftovers):
            question.append(keep_leftovers)
            return list(findings)

        monkeypatch.setattr(doctor, "examine", examine)
        return question

    return install


@pytest.mark.parametrize(("findings", "code"), [((FINE,), 0), ((FINE, POOR), 0), ((FINE, POOR, BAD), 1)])
def test_only_a_problem_is_an_exit_code_of_one(examined, shown, answer, findings, code):
    examined(*findings)
    answer("doctor", code=code)
    out = shown("doctor", code=code)
    assert "\x1b" not in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_what_to_do_stands_beneath_what_is_wrong(examined, shown):
    examined(POOR)
    assert shown("doctor").splitlines() == [
        "warning  bundle               old",
        "                              -> upgrade",
    ]


def test_a_dry_run_removes_nothing(examined):
    question = examined(FINE)
    main.run(["doctor", "--dry-run"])
    main.run(["doctor"])
    assert question == [True, False]


@pytest.mark.machine
@pytest.mark.slow
def test_the_real_one_tells_every_check_once(capsys):
    code = main.run(["doctor", "--dry-run", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (document["state"] == "problem")
    assert len(document["checks"]) == len({check["check"] for check in document["checks"]}) == 11
