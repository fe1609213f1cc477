"""The root of the command line: finds commands, and turns an error into one line and an exit code.

Of Ctrl-C, SIGTERM and SIGHUP, the first ends work in order, the second at once; both clean up."""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import click

from advisor.cli.printing import tell
from advisor.errors import ERROR_VARIABLE, AdvisorError, Stopped, Terminated, UsageErrors, one_line

# Listed here, so that a command's module is imported only if called: `recommend` must start quickly.
COMMANDS = {
    "recommend": "the cheapest instance and disk that reach a throughput",
    "report": "a report on one workload or a plan: HTML, PDF, Markdown, CSV, XLSX, JSON; diff",
    "predict": "the throughput of one instance or GPU",
    "compare": "instances, or GPUs, against a baseline",
    "memory": "GPU memory of a network: where it fits, and the largest batch",
    "probe": "what this machine is and can do",
    "verify": "one measured trial: does an instance reach the target?",
    "measure": "measure your network or script here for two minutes, into a file",
    "doctor": "check this machine, and clean up after killed sweeps",
    "sweep": "measure workloads on this machine: plan, run, status, stop, list, log, simulate",
    "cloud": "what the advisor runs on AWS: status, reap, policy, template",
    "schedule": "sweeps, fits and price refreshes at set times: add, list, show, remove, run",
    "keys": "API keys of `advisor serve`: add, list, revoke",
    "fit": "fit the predictor to your measurements",
    "measurements": "the stored measurements: list, check, export, import",
    "catalog": "instance types, prices, disks: list, show, disks, sources, diff, import, refresh",
    "gpus": "GPUs by rate, memory, link, power and price",
    "networks": "the networks that the advisor knows",
    "serve": "the same answers over HTTP, with a web page",
    "mcp": "the same answers as tools for agents (Model Context Protocol)",
    "dataset": "data sets: make, convert, show, check",
    "completion": "names of networks, GPUs and instance types at the Tab key: install",
}


# Command -> its module, for commands that share one; the others have a module of their name.
FILES = dict.fromkeys(("predict", "compare", "memory", "gpus", "networks"), "answering") | {
    "doctor": "probe",
    "keys": "serve",
    "mcp": "serve",
}


# Package -> the extra that installs it, for packages that the light core does not need.
EXTRA_OF = {
    module: extra
    for extra, modules in {
        "sweep": "PIL ray torch torchvision psutil pynvml skimage",
        "zoo": "timm transformers diffusers",
        "formats": "lmdb simplejpeg",
        "data": "fsspec",
        "endpoint": "aiohttp",
        "report": "weasyprint xlsxwriter",
        "serve": "fastapi starlette granian limits pythonjsonlogger",
        "postgres": "psycopg",
    }.items()
    for module in modules.split()
}


class LateGroup(click.Group):
    """A group that imports a command's module only when the command is called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported from its module; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"advisor.cli.{FILES.get(cmd_name, cmd_name)}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does; the error for an unknown name suggests the nearest one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from advisor.errors import unknown_name

            raise unknown_name("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="instance-sizing-advisor", prog_name="advisor")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Which cloud instance, with which disk, is the cheapest that really reaches a throughput.

    \b
    advisor recommend --task inference --model googlenet --target-throughput 500

    Numbers: 5000, 5,000 or 5e3; samples, tokens and users also 5k, 50M or 1.5B.

    Completion of names in bash, zsh and fish: advisor completion install

    Exit codes: 0 answered, 1 error, 2 wrong question, 3 no offer meets the target,
    4 no calibrated interval for the question, 5 price too old under --strict, 130 Ctrl-C,
    143 SIGTERM."""
    if debug:
        os.environ["ADVISOR_DEBUG"] = "1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code; an error is printed as one line on stderr."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. SIGTERM cleans up as Ctrl-C does."""
    with handled_signals(_interrupt, (signal.SIGTERM,)):
        return _exit_code(arguments)


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        outcome = cli.main(args=arguments, prog_name="advisor", standalone_mode=False)
        if sys.stdout is not None:  # None if stdout was closed at the start
            sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except BrokenPipeError:
        # The reader (head, less) has exited, so there is nowhere to print to.
        _discard(sys.stdout)
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return _fail(error)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


# Hints for options that users try on a command that does not have them.
_BUDGET = "--max-cost limits the cost of a run, --max-price that of an hour"
_RATE = "--target-requests-per-s of a language model, --target-throughput of a network"
_PERCENTILES = "a limit names its percentile: --max-ttft-ms p99:1000"
_NETWORKS = "a sweep takes several: --networks googlenet,resnet50"
# A mistyped option is as like the one that was meant; click's own suggestions go further.
_LIKE = 0.7
# Options of vLLM, and theirs here.
_OF_VLLM = {
    **dict.fromkeys(("--tp", "--tp-size"), "--tensor-parallel"),
    **dict.fromkeys(("--max-model-len", "--max-seq-len"), "--max-context"),
    **dict.fromkeys(("--quantization", "--dtype"), "--precision"),
    **dict.fromkeys(("--requests", "--request-rate"), "--target-requests-per-s"),
    "--kv-cache-dtype": "--kv-precision",
    "--max-num-seqs": "--users",
}
_ASKING = ("recommend", "report", "predict", "compare")
_ELSEWHERE = {
    ("recommend", "--instance"): "it searches every type; for one: `advisor predict --instance NAME`",
    ("recommend", "--plan"): "several workloads are a plan: `advisor report --plan FILE`",
    ("report", "--export"): "each workload's `advisor recommend` exports one; the report names its command",
    ("serve", "--model"): "it answers over HTTP; to serve a model: `advisor recommend --task generation`",
    ("add", "--every"): "times are a cron line: --cron '0 3 * * *' is each night at 3:00",
    ("plan", "--on"): "it plans for this machine; for AWS: `advisor sweep run .. --on aws --dry-run`",
    ("diff", "--language"): "differences are written in English; a report has --language",
    **dict.fromkeys(product(("plan", "run", "list", "status"), ("--model", "--network")), _NETWORKS),
    **dict.fromkeys(product(("recommend", "report"), ("--budget", "--max-budget")), _BUDGET),
    **dict.fromkeys(
        product(("recommend", "report"), ("--deadline", "--max-time", "--hours")), "--max-hours limits a run"
    ),
    **dict.fromkeys(
        product((*_ASKING, "memory"), ("--lora-rank", "--rank", "--lora-r")), "the rank is fixed at 16"
    ),
    **dict.fromkeys(product(_ASKING, ("--rps", "--qps")), _RATE),
    **dict.fromkeys(product(_ASKING, ("--runs-per-month",)), "runs_per_month is a key of `report --plan`"),
    **dict.fromkeys(product(_ASKING, ("--currency", "--eur")), "prices are in US dollars"),
    **dict.fromkeys(product(_ASKING, ("--hours-per-month",)), "hours_per_month is a key of `report --plan`"),
    **{(command, name): f"here it is {ours}" for name, ours in _OF_VLLM.items() for command in _ASKING},
    **dict.fromkeys(product(_ASKING, ("--latency-percentile", "--percentile")), _PERCENTILES),
    **dict.fromkeys(
        product(_ASKING, ("--gpu-count", "--gpus", "--num-gpus")), "--max-gpus limits the GPUs of an instance"
    ),
    ("memory", "--instance"): "--gpu takes an instance type, too, and means its GPU: --gpu g4dn.xlarge",
}


def _explained(error: BaseException) -> tuple[str, int]:
    """The text of an error for the user, and its exit code (1 if the error has none)."""
    code = getattr(error, "exit_code", 1)
    if isinstance(error, AdvisorError):
        return str(error), error.exit_code
    if isinstance(error, click.exceptions.NoSuchOption):
        asked = (error.ctx and error.ctx.info_name) or ""
        if (asked, error.option_name) in _ELSEWHERE:
            elsewhere = _ELSEWHERE[asked, error.option_name]
            return f"No such option '{error.option_name}': {elsewhere}", error.exit_code
        import difflib  # only a mistyped name needs it

        near = difflib.get_close_matches(error.option_name, error.possibilities or (), cutoff=_LIKE)
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
    if isinstance(error, click.ClickException):
        is_extra = "unexpected extra argument" in error.message
        hint = "; several values of an option are one word: NAME,NAME" if is_extra else ""
        return error.format_message() + hint, error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        # click turns both into Abort.
        was_told = isinstance(error, Terminated) or isinstance(error.__cause__, Terminated)
        return ("terminated", 143) if was_told else ("interrupted", 130)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_OF:
        from advisor.extras import install_command

        return f"this needs {error.name}; install it: {install_command(EXTRA_OF[error.name])}", code
    if isinstance(error, OSError):
        filename = f" ({error.filename})" if error.filename else ""
        full = f"no space left on the device{filename}; free some, or choose another place"
        return full if error.errno == errno.ENOSPC else f"{error.strerror or error}{filename}", code
    hint = "this is a defect; `advisor --debug ...` shows where"
    return f"{type(error).__name__}: {error} ({hint})", code


def _fail(error: BaseException) -> int:
    if os.environ.get("ADVISOR_DEBUG"):
        import traceback

        traceback.print_exception(error)
    message, code = _explained(error)
    if path := os.environ.get(ERROR_VARIABLE):  # read by `advisor.runs.processes`, our parent
        with suppress(OSError):
            Path(path).write_text(json.dumps({"message": one_line(message), "exit_code": code}))
    several = error.errors if isinstance(error, UsageErrors) else [message]
    told = "".join(f"advisor: {one_line(str(each))}\n" for each in several)
    for stream, text in ((sys.stdout, ""), (sys.stderr, told)):
        try:
            if stream is not None:
                stream.write(text)
                stream.flush()
        except BrokenPipeError:  # the reader has exited; the exit code still tells the result
            _discard(stream)
    return code


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that later writes do not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_SHOW_CURSOR = "\x1b[?25h"
# SIGHUP: the terminal was closed, or its connection lost.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leaving_cleanly(
    kept: Callable[[], str], *, abandoned: str = "finished trials are stored"
) -> Iterator[None]:
    """Remove what killed sweeps left, then run the block; however it ends, remove what it left on this
    machine. On the first signal, raises `Stopped` with the text of `kept()`, which says what is kept. On a
    second one, prints `abandoned` and exits at once."""
    from advisor.sweeps.trial.ownership import clean_up, owning

    handler = _Handler(abandoned)
    with handled_signals(handler):
        if count := clean_up():
            tell(f"removed what a killed sweep left here: {count} things")
        try:
            with owning():
                yield
        except KeyboardInterrupt as error:
            number = handler.number or signal.SIGINT
            text = "; ".join(filter(None, (kept(), str(error))))
            raise Stopped(text, exit_code=128 + number) from error


@contextmanager
def handled_signals(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[int] = ENDING_SIGNALS
) -> Iterator[None]:
    """Set a signal handler until the block ends; only in the main thread. Ignored signals stay ignored."""
    ours = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {
        number: signal.signal(number, handler)
        for number in numbers
        if ours and signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


class _Handler:
    """Raises an interrupt on the first signal; on the second one, exits without waiting for the cleanup.

    `number` keeps the first signal, because Ray turns each of these exceptions into KeyboardInterrupt."""

    def __init__(self, abandoned: str) -> None:
        self.number = 0
        self._abandoned = abandoned

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            from advisor.sweeps.trial.ownership import give_back_own

            for each in ENDING_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            show = _SHOW_CURSOR if sys.stderr.isatty() else ""
            os.write(2, f"{show}advisor: abandoned; {self._abandoned}\n".encode())
            give_back_own()
            os._exit(128 + number)
        self.number = number
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated


if __name__ == "__main__":
    main()
