"""What only torch knows of the GPU, from a process of its own that has a deadline.

`python -m advisor.infra.build.campaign.device name|fingerprint` is that process: one line of JSON on
stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.errors import MeasuringError
from advisor.sweeps.trial.child import WorkerEnded, WorkerLate, answer_parent, started_worker

_COMMAND = (sys.executable, "-P", "-m", "advisor.infra.build.campaign.device")
_PROBED = ("gpu", "gemm")
# Both load torch; a fingerprint then takes some ten seconds.
_PATIENCE_SECONDS = 180.0


def gpu_name() -> str:
    """What CUDA calls its device 0; `MeasuringError` that says which part is missing."""
    return str(device_answer("name"))


def short_fingerprint() -> dict[str, Any]:
    """Copy rates and matrix products of the GPU, in about ten seconds."""
    return dict(device_answer("fingerprint"))


def device_answer(
    what: str, *, command: Sequence[str] = _COMMAND, patience_seconds: float = _PATIENCE_SECONDS
) -> Any:
    """`name` or `fingerprint`, from a process that is gone on leaving; `MeasuringError` where it
    fails, or a GPU that hangs holds it up for longer than the seconds."""
    deadline = time.monotonic() + patience_seconds
    with started_worker([*command, what]) as worker:
        try:
            return worker.answer(what, deadline)
        except WorkerLate as error:
            raise MeasuringError(
                "the GPU gave no answer within {seconds:g} s",
                seconds=patience_seconds,
                hint="nvidia-smi tells whether it answers at all",
            ) from error
        except WorkerEnded as error:
            raise MeasuringError(worker.last_output()) from error


def main() -> None:
    """Answer what the first argument names."""
    answers = {"name": _name, "fingerprint": _fingerprint}
    what = sys.argv[1]
    answer_parent(lambda: {what: answers[what]()})


def _name() -> str:
    from advisor.sweeps.probe.accelerator import need_cuda

    need_cuda()
    import torch

    return torch.cuda.get_device_name(0)


def _fingerprint() -> dict[str, Any]:
    from advisor.sweeps.probe.session import fingerprint, run_probe

    return fingerprint(run_probe(_PROBED, quick=True, disk=Path(), report=lambda _line: None))


if __name__ == "__main__":
    main()
