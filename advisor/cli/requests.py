"""Options that questions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Confidence, Name, Positive, Shown, Text
from advisor.cli.places import place_options
from advisor.domain import MemoryFormat, Precision, Stack, Task, Tf32
from advisor.questions.datasets import DATASETS
from advisor.questions.requests import LARGEST_BATCH

Command = TypeVar("Command", bound=Callable[..., Any])

disk_option = click.option(
    "--disk", type=Text("--disk"), metavar="TYPE[:SIZE..]|TYPE,TYPE..",
    help="Fix the disk, as gp3:500GiB:6000iops:250MiB/s; or choose among types: gp3,io2 or local.",
)  # fmt: skip


def question_options(command: Command) -> Command:
    """The workload and where it may run: the same words in every command that predicts."""
    options = [
        click.option("--task", required=True, type=Name("task", tuple(Task)), help="What is done."),
        click.option("--model", "network", required=True, type=Shown("--model"),
                     help="The network, as googlenet, or your file.py:build."),
        click.option("--batch-size", help="Fix it.",
                     type=Positive("--batch-size", whole=True, most=LARGEST_BATCH)),
        click.option(
            "--precision", type=Name("precision", tuple(Precision)), default="fp32",
            show_default=True, help="Number format of the arithmetic.",
        ),
        click.option("--input", "input", type=Text("--input"), metavar="SIZE",
                     help="Of one sample, as 384, 3x384x384, seq:384.  [default: the network's]"),
        click.option(
            "--stack", type=Name("stack", tuple(Stack)),
            help="What runs the network: PyTorch as it is, or torch.compile.  [default: eager]",
        ),
        click.option(
            "--memory-format", type=Name("memory format", tuple(MemoryFormat)),
            help="How images lie in memory.  [default: contiguous]",
        ),
        click.option(
            "--tf32", type=Name("use of TF32", tuple(Tf32)),
            help="Which fp32 arithmetic may round to TF32.  [default: convolutions]",
        ),
        click.option(
            "--dataset", type=Text("--dataset"), metavar="NAME|PATH",
            help=f"{', '.join(DATASETS)}, or your own images or text.  [default: imagenet, tokens "
                 "or tensors, as the network takes]",
        ),
        click.option(
            "--confidence", type=Confidence(), default=0.9, show_default=True,
            help="How sure the lower bound must be.",
        ),
        disk_option,
        click.option("--max-gpus", type=Positive("--max-gpus", whole=True),
                     help="Use at most so many GPUs of an instance.  [default: all]"),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return place_options(command)
