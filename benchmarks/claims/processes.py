"""What processes weigh: a framework that does nothing, and the text pipeline without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from advisor.sweeps.trial.child import worker_environment

# Not getrusage's maximum: that one remembers the process which started this one.
_PEAK = """
import json
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
"""
_FRAMEWORK = f"{_PEAK}\nimport torch, torchvision\nprint(json.dumps({{'peak_mib': peak()}}))"
_INTERPRETER = f"{_PEAK}\nimport numpy\nprint(json.dumps({{'peak_mib': peak()}}))"
_TEXT = f"""{_PEAK}
import sys
from pathlib import Path
from advisor.sweeps.datasets.text import read_corpus
corpus = read_corpus(Path(sys.argv[1]))
print(json.dumps({{"peak_mib": peak(), "tokens": len(corpus.tokens),
                   "vocabulary": len(corpus.words)}}))
"""


def framework_floor() -> dict[str, Any]:
    """Peak resident MiB of a process that only imports torch and torchvision; code and shared
    libraries count."""
    return _run(_FRAMEWORK)


def text_pipeline(corpus: Path) -> dict[str, Any]:
    """The corpus read and turned into numbers in a process without torch; `pipeline_mib` is its
    peak above that of an interpreter with NumPy."""
    read, empty = _run(_TEXT, str(corpus)), _run(_INTERPRETER)
    return {**read, "pipeline_mib": read["peak_mib"] - empty["peak_mib"]}


def _run(code: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=worker_environment(),
    )
    if done.returncode and "torchvision" in code:
        # Beside a CPU-only torch the ordinary torchvision does not import: torch alone, then.
        return _run(code.replace("torch, torchvision", "torch"))
    done.check_returncode()
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
