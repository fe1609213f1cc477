"""What fitted a 24 GB card: `python -m infra.performance_sources.batch_limits DIR`.

timm's own training benchmark (Apache-2.0) takes the largest batch that runs: after an
out-of-memory error it goes on with the next of 512, 384, 256, 192, 128, 96, ... So each row says
that one batch fitted an RTX 3090, and that the next larger one did not. Here the steps of a
sample of those networks are traced, and written beside it as batch_limits.csv: what the
memory model's two constants are fitted on (`models.performance.memory.fit`).
"""

from __future__ import annotations

import csv
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.zoo.networks import NetworkInfo
from models.zoo.opening import BuiltIn
from models.zoo.torchvision_import import import_torchvision
from models.zoo.tracing import StepOptions, StepTracer

SOURCE = "timm/benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"
PATH = Path(__file__).with_name("batch_limits.csv")
COLUMNS = (
    *("network", "pixels", "ran", "failed", "weights_mib", "trained_mib"),
    *("ran_forward_mib", "ran_peak_mib", "failed_forward_mib", "failed_peak_mib"),
)
_LARGEST_TRIED = 512
# About one network in ten, by a hash of its name: enough for one slope and its spread.
_SAMPLE, _OF = 1, 10
_STEP = StepOptions(training=True, sixteen_bit=True)


@dataclass(frozen=True, slots=True)
class TimmNetwork(BuiltIn):
    """An image classifier of timm, run as those of the zoo are."""

    def build(self) -> Any:
        """With random weights."""
        import_torchvision()
        import timm

        return timm.create_model(self.info.name)

    def synthetic_batch(self, batch_size: int, device: Any = "cpu") -> tuple[Any, Any]:
        """Noise and class numbers."""
        import torch

        inputs = torch.rand(batch_size, *self.info.input_shape, device=device)
        return inputs, torch.zeros(batch_size, dtype=torch.int64, device=device)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """Cross entropy, as the benchmark has it."""
        from torch.nn import functional

        return functional.cross_entropy(network(inputs), targets)


def next_larger(batch: int) -> int:
    """The batch that failed before this one ran: 192 -> 256, 256 -> 384."""
    power = 1 << (batch.bit_length() - 1)
    larger = power + power // 2 if batch == power and power > 1 else 2 * power
    return min(_LARGEST_TRIED, larger)


def limited_rows(folder: Path) -> Iterator[Mapping[str, str]]:
    """Rows of the sample whose batch was limited by memory."""
    with (folder / SOURCE).open(newline="") as file:
        for row in csv.DictReader(file):
            sampled = zlib.crc32(row["model"].encode()) % _OF < _SAMPLE
            if sampled and 2 <= float(row["train_batch_size"]) < _LARGEST_TRIED:
                yield row


def traced_row(row: Mapping[str, str]) -> list[Any]:
    """One line of batch_limits.csv; any error of torch or timm where it cannot be traced."""
    ran, pixels = int(float(row["train_batch_size"])), int(row["train_img_size"])
    info = NetworkInfo(name=row["model"], title=row["model"], input_shape=(3, pixels, pixels))
    tracer = StepTracer(TimmNetwork(info))
    at_ran = tracer.trace(ran, _STEP, fake_only=True)
    at_failed = tracer.trace(next_larger(ran), _STEP, fake_only=True)
    sizes = (
        *(at_ran.weights_mib, at_ran.trained_mib, at_ran.forward_mib, at_ran.peak_mib),
        *(at_failed.forward_mib, at_failed.peak_mib),
    )
    return [info.name, pixels, ran, next_larger(ran), *(f"{one:.1f}" for one in sizes)]


def main(arguments: Sequence[str]) -> None:
    """Trace the sample; what timm or torch of today cannot run is left out and said."""
    with PATH.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in limited_rows(Path(arguments[0])):
            try:
                writer.writerow(traced_row(row))
                file.flush()
            except Exception as error:  # a renamed network, or one that reads values
                sys.stderr.write(f"{row['model']} left out: {str(error)[:100]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
