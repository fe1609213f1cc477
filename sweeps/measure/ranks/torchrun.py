"""torchrun that ends with the process that started it: `-m advisor.sweeps.measure.ranks.torchrun ARGUMENTS`.

Where ranks are lost, its last line on stdout is `{"error": ...}`: the rank that failed first, and why."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from advisor.sweeps.machine.processes import end_with_parent, killer_text, oom_kills
from advisor.sweeps.trial.child import send_to_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure


def main() -> None:
    """Run the ranks of this node to their end."""
    end_with_parent()
    kills_before = oom_kills()
    # Loading torch takes seconds, in which the parent may die.
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    try:
        run(parse_args(sys.argv[1:]))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        _end(_cause(error.failures, kills_before))
    except (OSError, RuntimeError) as error:  # a first node that does not resolve, or answer
        _end(f"the nodes do not find each other: {error}")


def _end(reason: str) -> None:
    send_to_parent({"error": reason})
    raise SystemExit(1)


def _cause(failures: Mapping[int, ProcessFailure], kills_before: int) -> str:
    """The first failure: ranks that lose their connection to a killed one only report that."""
    for rank, failure in failures.items():
        if failure.exitcode == -signal.SIGKILL:
            return f"rank {rank} was killed from outside (SIGKILL){killer_text(kills_before)}"
    rank, first = min(failures.items(), key=lambda item: item[1].timestamp)
    note = first.message
    return f"rank {rank}: {note['message'] if isinstance(note, dict) else note}"


if __name__ == "__main__":
    main()
