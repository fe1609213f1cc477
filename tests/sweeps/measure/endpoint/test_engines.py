"""Engines are started on the loopback, waited for, and gone after their use."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from advisor.errors import MeasuringError, UsageError
from advisor.sweeps.machine.processes import is_running, start_ticks
from advisor.sweeps.measure.endpoint import engines as starting

QUIETLY = {"patience_seconds": 60, "report": lambda _: None}
# Says 503 for a moment, then 200; has a child of its own, in another session.
_SERVER = textwrap.dedent("""
    import http.server, os, subprocess, sys, time
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    open(sys.argv[2], "w").write(f"{os.getpid()} {child.pid}")
    begun = time.monotonic()
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if time.monotonic() > begun + 0.3 else 503)
            self.end_headers()
        def log_message(self, *args):
            pass
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
""")


def server_command(tmp_path, port, late=0):
    return [
        sys.executable,
        "-c",
        f"import time; time.sleep({late})\n{_SERVER}",
        str(port),
        str(tmp_path / "pids"),
    ]


def pids(tmp_path):
    return [(pid, start_ticks(pid)) for pid in map(int, (tmp_path / "pids").read_text().split())]


def all_gone(processes):
    deadline = time.monotonic() + 30
    while any(is_running(pid, ticks) for pid, ticks in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_replicas_are_ready_each_in_its_own_time_with_its_own_gpus_and_gone_afterwards(tmp_path):
    """Their children in other sessions, too; the first listens seconds late, and the second does not wait."""
    starts = []
    for gpu, (late, port) in enumerate(zip((3, 0), starting.free_ports(2), strict=True)):
        (folder := tmp_path / str(gpu)).mkdir()
        starts.append(starting.EngineStart(server_command(folder, port, late), port, str(gpu)))
    with starting.running_engines(starts, **QUIETLY) as (first, second):
        assert first.ready_seconds > 3
        assert second.listening_seconds <= second.ready_seconds < first.ready_seconds
        assert first.url == f"http://127.0.0.1:{starts[0].port}"
        processes = [pids(tmp_path / str(gpu)) for gpu in range(2)]
        for gpu, ((server, _), _child) in enumerate(processes):
            seen = Path(f"/proc/{server}/environ").read_bytes().split(b"\0")
            assert f"CUDA_VISIBLE_DEVICES={gpu}".encode() in seen
        assert all(is_running(*entry) for both in processes for entry in both)
    assert all_gone([entry for both in processes for entry in both])


def test_an_engine_that_ends_says_its_last_words_and_one_that_is_never_ready_is_ended(tmp_path):
    """The end of its output is the reason, in one line."""
    command = [sys.executable, "-c", "import sys; sys.exit('no\\nsuch model')"]
    with (
        pytest.raises(MeasuringError, match="exit code 1 before it served: no such model"),
        starting.running_engines([starting.EngineStart(command, starting.free_ports(1)[0])], **QUIETLY),
    ):
        pass
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
    command = [sys.executable, "-c", script, str(tmp_path / "pids")]
    with (
        pytest.raises(MeasuringError, match="did not serve within 2 s"),
        starting.running_engines(
            [starting.EngineStart(command, starting.free_ports(1)[0])], patience_seconds=2, report=print
        ),
    ):
        pass
    assert all_gone(pids(tmp_path))


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_engine_outlives_the_command_that_started_it(tmp_path, number):
    port = starting.free_ports(1)[0]
    script = textwrap.dedent(f"""
        import time
        from advisor.sweeps.measure.endpoint.engines import EngineStart, running_engines
        start = EngineStart({server_command(tmp_path, port)!r}, {port})
        with running_engines([start], patience_seconds=60, report=print):
            print("serving", flush=True)
            time.sleep(1000)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[4],
    ) as parent:
        for line in parent.stdout:
            if line.strip() == "serving":
                break
        processes = pids(tmp_path)
        os.kill(parent.pid, number)
        parent.wait(30)
    assert all_gone(processes)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs by these names, first on the path."""
    for name in ("vllm", "transformers", "llama-server"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def settings(**more):
    return starting.EngineSettings(
        **{"model": "org/model", "port": 4000, "sequences": 16, "context_tokens": 832} | more
    )


def test_engines_are_told_formats_parts_and_room_and_what_one_cannot_do_is_refused_before_it_starts(programs):
    """The user's own words come last, so that they win; llama.cpp's context is shared by all slots."""
    command = starting.engine_command(
        starting.StartedEngine.VLLM,
        settings(precision="fp8", kv_precision="fp8", tensor_parallel=2, arguments=("--x", "1")),
    )
    words = (
        "serve org/model --host 127.0.0.1 --port 4000 --tensor-parallel-size 2 --no-enable-prefix-caching "
        "--quantization fp8 --kv-cache-dtype fp8 --x 1"
    )
    assert command == [str(programs / "vllm"), *words.split()]
    assert "bfloat16" in starting.engine_command(starting.StartedEngine.VLLM, settings(precision="bf16"))
    (programs / "m.gguf").touch()
    command = starting.engine_command(
        starting.StartedEngine.LLAMA_CPP, settings(model=str(programs / "m.gguf"))
    )
    assert command[command.index("--ctx-size") + 1] == str(16 * 832)
    assert command[command.index("--parallel") + 1] == "16"
    with pytest.raises(UsageError, match="GGUF"):
        starting.engine_command(starting.StartedEngine.LLAMA_CPP, settings())
    for more in ({"precision": "fp8"}, {"kv_precision": "fp8"}, {"tensor_parallel": 2}):
        with pytest.raises(UsageError):
            starting.engine_command(starting.StartedEngine.TRANSFORMERS, settings(**more))


def test_an_engine_that_is_not_installed_is_named_with_the_way_to_it(tmp_path, monkeypatch):
    """By which command it comes, and that one that runs elsewhere will do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(MeasuringError, match=r"--endpoint.*pip install vllm"):
        starting.engine_command(starting.StartedEngine.VLLM, settings())
