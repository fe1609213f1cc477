"""Starts engines on this machine, waits until they are ready, and ends them.

A guard between us and an engine runs it, and ends it with all its processes when we end: its standard input
is a pipe from us, which the kernel closes even after kill -9. If the guard is killed too, the next command of
the advisor finds the engine by the mark in its environment."""

from __future__ import annotations

import http.client
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

from msgspec import Struct, field

import advisor
from advisor.errors import MeasuringError, UsageError, one_line
from advisor.extras import install_command
from advisor.sweeps.machine.processes import end_group
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, orphan_processes, own_tag, owner_is_me, remove

HOST = "127.0.0.1"
_BLOCK_TOKENS = 256


class StartedEngine(StrEnum):
    """The engines that `advisor measure` can start."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
    TRANSFORMERS = "transformers"

    @property
    def version(self) -> str:
        """The version of the engine's package in this environment; '' if it is not installed here."""
        with suppress(metadata.PackageNotFoundError):
            return metadata.version("llama-cpp-python" if self is StartedEngine.LLAMA_CPP else self.value)
        return ""


class EngineSettings(Struct, frozen=True, kw_only=True):
    """Settings of an engine: at most `sequences` of `context_tokens`; a user's `arguments` come last."""

    model: str
    port: int
    sequences: int
    context_tokens: int
    precision: str | None = None
    kv_precision: str | None = None
    tensor_parallel: int = 1
    arguments: Sequence[str] = field(default=())


def engine_command(engine: StartedEngine, settings: EngineSettings) -> list[str]:
    """The engine's command. Raises `MeasuringError` if it is missing, `UsageError` for bad settings."""
    return [*_COMMANDS[engine](settings), *settings.arguments]


_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def _vllm_command(settings: EngineSettings) -> list[str]:
    """The command of vLLM (https://docs.vllm.ai/en/latest/cli/serve/). Quantised checkpoints include their
    format; fp8 is quantised from 16-bit weights during loading."""
    options = f"--host {HOST} --port {settings.port} --tensor-parallel-size {settings.tensor_parallel}"
    options += " --no-enable-prefix-caching"
    if settings.precision in _DTYPES:
        options += f" --dtype {_DTYPES[settings.precision]}"
    if settings.precision == "fp8":
        options += " --quantization fp8"
    if settings.kv_precision == "fp8":
        options += " --kv-cache-dtype fp8"
    return [_required_program("vllm", "pip install vllm"), "serve", settings.model, *options.split()]


def _transformers_command(settings: EngineSettings) -> list[str]:
    _refuse_split(settings, StartedEngine.TRANSFORMERS)
    if settings.precision not in (None, *_DTYPES) or settings.kv_precision == "fp8":
        raise UsageError(
            f"transformers serves bf16 and fp16, not {settings.precision or 'an fp8 cache'}",
            field="precision",
            hint="leave it out, or take --engine vllm",
        )
    dtype = _DTYPES.get(settings.precision or "", "auto")
    # By default it takes nearly all memory of a machine without GPU, and is killed.
    blocks = settings.sequences * (1 + math.ceil(settings.context_tokens / _BLOCK_TOKENS))
    options = (
        f"--host {HOST} --port {settings.port} --continuous-batching --dtype {dtype} "
        f"--cb-block-size {_BLOCK_TOKENS} --cb-num-blocks {blocks}"
    )
    program = _required_program("transformers", install_command("endpoint", "engine"))
    return [program, "serve", settings.model, *options.split()]


def _llama_cpp_command(settings: EngineSettings) -> list[str]:
    """The command of llama.cpp's server, whose slots share the context; else llama-cpp-python's."""
    _refuse_split(settings, StartedEngine.LLAMA_CPP)
    if not Path(settings.model).is_file():
        raise UsageError(
            f"llama.cpp reads a GGUF file, and '{settings.model}' is none",
            field="served_model",
            hint="name the file by --served-model",
        )
    if server := _program_path("llama-server"):
        context = settings.sequences * settings.context_tokens
        options = f"--host {HOST} --port {settings.port} --parallel {settings.sequences} --ctx-size {context}"
        return [server, "--model", settings.model, *options.split(), "--n-gpu-layers", "999"]
    if not StartedEngine.LLAMA_CPP.version:
        _required_program("llama-server", "https://github.com/ggml-org/llama.cpp/releases")
    options = f"--host {HOST} --port {settings.port} --n_ctx {settings.context_tokens} --n_gpu_layers -1"
    return [sys.executable, "-m", "llama_cpp.server", "--model", settings.model, *options.split()]


_COMMANDS: Mapping[StartedEngine, Callable[[EngineSettings], list[str]]] = {
    StartedEngine.VLLM: _vllm_command,
    StartedEngine.LLAMA_CPP: _llama_cpp_command,
    StartedEngine.TRANSFORMERS: _transformers_command,
}


def _refuse_split(settings: EngineSettings, engine: StartedEngine) -> None:
    if settings.tensor_parallel > 1:
        raise UsageError(
            f"{engine} is started on one GPU",
            field="tensor_parallel",
            hint="start it yourself, and name it by --endpoint",
        )


def _program_path(name: str) -> str | None:
    """The path of a program on PATH or in the folder of this Python, whose environment may not be active."""
    beside = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return shutil.which(name, path=beside)


def _required_program(name: str, source: str) -> str:
    path = _program_path(name)
    if path is None:
        raise MeasuringError(
            f"{name} is not installed",
            hint=f"start the engine where it is and name it by --endpoint, or install it: {source}",
        )
    return path


# Finds this package without PYTHONPATH, which the engine would inherit.
_GUARD = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from advisor.sweeps.measure.endpoint.engines import guard; raise SystemExit(guard(sys.argv[2:]))"
)
_ROOT = str(Path(advisor.__file__).parents[1])
_POLL_EVERY_SECONDS = 0.1
_REPORT_EVERY_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
# How long an engine of several processes may take to end in order, and its guard a little longer.
_ENGINE_ENDS_SECONDS, _SECONDS_TO_END = 10.0, 15.0
_SHOWN = 600

Progress = Callable[[str], None]


def free_ports(count: int) -> list[int]:
    """Ports on the loopback interface that are free at this moment."""
    with ExitStack() as stack:
        probes = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class EngineStart(NamedTuple):
    """The command of an engine and its port; `gpus` are those that it may see ('0,1'; empty: all)."""

    command: Sequence[str]
    port: int
    gpus: str = ""


class RunningEngine(Struct):
    """A started engine. `listening_seconds` is the time from its start to the first connection,
    `ready_seconds` the time until it reports health, when the model is loaded."""

    command: tuple[str, ...]
    port: int
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    at_seconds: float
    listening_seconds: float = math.nan
    ready_seconds: float = math.nan

    @property
    def url(self) -> str:
        """The engine's address on this machine."""
        return f"http://{HOST}:{self.port}"

    @property
    def seconds(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.at_seconds

    def is_ready(self, patience_seconds: float, report: Progress) -> bool:
        """Return whether the engine serves. Raises `MeasuringError` if it ended, or its patience is over."""
        if not math.isnan(self.ready_seconds):
            return True
        if (code := self.process.poll()) is not None:
            raise self._failure(f"ended with exit code {code} before it served")
        if math.isnan(self.listening_seconds):
            with suppress(OSError), closing(socket.create_connection((HOST, self.port), timeout=1.0)):
                self.listening_seconds = self.seconds
        if not math.isnan(self.listening_seconds) and _is_healthy(self.port):
            self.ready_seconds = self.seconds
            report(f"ready after {self.ready_seconds:.1f} s")
            return True
        if self.seconds >= patience_seconds:
            hint = "start it yourself, and measure it by --endpoint"
            raise self._failure(f"did not serve within {patience_seconds:.0f} s", hint)
        return False

    def last_words(self) -> str:
        """The end of the engine's output, in one line."""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 4 * _SHOWN))
        return one_line(self.log.read().decode(errors="replace"))[-_SHOWN:]

    def _failure(self, what: str, hint: str | None = None) -> MeasuringError:
        words = self.last_words() or "it said nothing"
        return MeasuringError(f"{self.command[0]} {what}: {words}", hint=hint)


@contextmanager
def running_engines(
    starts: Sequence[EngineStart], *, patience_seconds: float, report: Progress
) -> Iterator[list[RunningEngine]]:
    """Start engines and wait until all serve; they end with the block.

    Raises `MeasuringError` with the end of its output if one ends before, or is not ready in time."""
    with ExitStack() as stack:
        engines = [stack.enter_context(_started_engine(start, report)) for start in starts]
        next_report_seconds = _REPORT_EVERY_SECONDS
        # All are polled in turn, so that each one's ready time is recorded.
        while waiting := [engine for engine in engines if not engine.is_ready(patience_seconds, report)]:
            if (seconds := waiting[0].seconds) > next_report_seconds:
                next_report_seconds += _REPORT_EVERY_SECONDS
                report(f"not ready after {seconds:.0f} s")
            time.sleep(_POLL_EVERY_SECONDS)
        yield engines


@contextmanager
def _started_engine(start: EngineStart, report: Progress) -> Iterator[RunningEngine]:
    environment = dict(os.environ) | {OWNER_VARIABLE: str(own_tag())}
    if start.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = start.gpus
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _GUARD, _ROOT, *start.command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            report(f"starting {' '.join(start.command)}")
            yield RunningEngine(tuple(start.command), start.port, process, log, time.monotonic())
        finally:
            assert process.stdin is not None
            end_group(process, _SECONDS_TO_END)  # the guard then ends the engine
            process.stdin.close()


def _is_healthy(port: int) -> bool:
    """Return whether the model is loaded: vLLM, llama.cpp and transformers then answer /health with 200. The
    server of llama-cpp-python answers 404, but listens only once the model is loaded."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status in (200, 404)
    return False


def guard(command: Sequence[str]) -> int:
    """Run the command until it, or the standard input, ends; returns its exit code."""
    os.environ.pop(OWNER_VARIABLE, None)
    os.environ[OWNER_VARIABLE] = str(own_tag())  # the engine's owner is this process
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while process.poll() is None:
            if select.select([0], [], [], _POLL_EVERY_SECONDS)[0] and not os.read(0, 1 << 10):
                break  # the parent has ended
    finally:
        end_group(process, _ENGINE_ENDS_SECONDS)  # then children in other groups
        remove(orphan for orphan in orphan_processes() if owner_is_me(orphan.owner))
    return process.returncode
