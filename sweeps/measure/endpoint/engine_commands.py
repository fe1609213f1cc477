"""The command that starts an engine on this machine, and what to do where it is not installed."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from msgspec import Struct, field

from advisor.errors import MeasuringError, UsageError
from advisor.extras import install_command
from advisor.messages import FieldName, Message

HOST = "127.0.0.1"
_BLOCK_TOKENS = 256


class StartedEngine(StrEnum):
    """The engines that `advisor measure` can start itself."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
    TRANSFORMERS = "transformers"


class EngineSettings(Struct, frozen=True, kw_only=True):
    """The settings of an engine. `sequences` are at most in flight, each with `context_tokens`;
    `arguments` are the user's own, after ours."""

    model: str
    port: int
    sequences: int
    context_tokens: int
    precision: str | None = None
    kv_precision: str | None = None
    tensor_parallel: int = 1
    arguments: Sequence[str] = field(default=())


def engine_command(engine: StartedEngine, settings: EngineSettings) -> list[str]:
    """The words of the command. `MeasuringError` where the engine is not installed, `UsageError`
    for what it cannot do."""
    return [*_COMMANDS[engine](settings), *settings.arguments]


def engine_version(engine: StartedEngine) -> str:
    """The version of the engine's package in this environment; "" where another environment holds the
    engine."""
    package = {
        StartedEngine.VLLM: "vllm",
        StartedEngine.TRANSFORMERS: "transformers",
        StartedEngine.LLAMA_CPP: "llama-cpp-python",
    }[engine]
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def _vllm(settings: EngineSettings) -> list[str]:
    """https://docs.vllm.ai/en/latest/cli/serve/: quantised checkpoints say their format
    themselves; fp8 is made of 16-bit weights while they are loaded."""
    options = f"--host {HOST} --port {settings.port} --tensor-parallel-size {settings.tensor_parallel}"
    options += " --no-enable-prefix-caching"
    if settings.precision in _DTYPES:
        options += f" --dtype {_DTYPES[settings.precision]}"
    if settings.precision == "fp8":
        options += " --quantization fp8"
    if settings.kv_precision == "fp8":
        options += " --kv-cache-dtype fp8"
    return [_program("vllm", "pip install vllm"), "serve", settings.model, *options.split()]


def _transformers(settings: EngineSettings) -> list[str]:
    _refuse_split(settings, StartedEngine.TRANSFORMERS)
    if settings.precision not in (None, *_DTYPES) or settings.kv_precision == "fp8":
        raise UsageError(
            "transformers serves bf16 and fp16, not {precision}",
            precision=settings.precision or "an fp8 cache",
            field="precision",
            hint=Message("leave it out, or take {engine} vllm", engine=FieldName("engine")),
        )
    dtype = _DTYPES.get(settings.precision or "", "auto")
    # Left to itself it takes nearly all of a CPU machine's memory, and is killed for it.
    blocks = settings.sequences * (1 + math.ceil(settings.context_tokens / _BLOCK_TOKENS))
    options = (
        f"--host {HOST} --port {settings.port} --continuous-batching --dtype {dtype} "
        f"--cb-block-size {_BLOCK_TOKENS} --cb-num-blocks {blocks}"
    )
    program = _program("transformers", install_command("endpoint", "engine"))
    return [program, "serve", settings.model, *options.split()]


def _llama_cpp(settings: EngineSettings) -> list[str]:
    """llama.cpp's own server; the one of llama-cpp-python answers one request at a time. The
    context is shared by all slots."""
    _refuse_split(settings, StartedEngine.LLAMA_CPP)
    if not Path(settings.model).is_file():
        raise UsageError(
            "llama.cpp reads a GGUF file, and '{model}' is none",
            model=settings.model,
            field="served_model",
            hint=Message("name the file by {option}", option=FieldName("served_model")),
        )
    if server := _found("llama-server"):
        context = settings.sequences * settings.context_tokens
        options = f"--host {HOST} --port {settings.port} --parallel {settings.sequences} --ctx-size {context}"
        return [server, "--model", settings.model, *options.split(), "--n-gpu-layers", "999"]
    if not engine_version(StartedEngine.LLAMA_CPP):
        _program("llama-server", "https://github.com/ggml-org/llama.cpp/releases")
    options = f"--host {HOST} --port {settings.port} --n_ctx {settings.context_tokens} --n_gpu_layers -1"
    return [sys.executable, "-m", "llama_cpp.server", "--model", settings.model, *options.split()]


_COMMANDS: Mapping[StartedEngine, Callable[[EngineSettings], list[str]]] = {
    StartedEngine.VLLM: _vllm,
    StartedEngine.LLAMA_CPP: _llama_cpp,
    StartedEngine.TRANSFORMERS: _transformers,
}


def _refuse_split(settings: EngineSettings, engine: StartedEngine) -> None:
    if settings.tensor_parallel > 1:
        raise UsageError(
            "{engine} is started on one GPU",
            engine=engine,
            field="tensor_parallel",
            hint=Message("start it yourself, and name it by {option}", option=FieldName("endpoint")),
        )


def _found(name: str) -> str | None:
    """On the path, or beside this Python: its environment need not be activated."""
    beside = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return shutil.which(name, path=beside)


def _program(name: str, source: str) -> str:
    path = _found(name)
    if path is None:
        raise MeasuringError(
            "{name} is not installed",
            name=name,
            hint=Message(
                "start the engine where it is and name it by {option}, or install it: {source}",
                source=source,
                option=FieldName("endpoint"),
            ),
        )
    return path
