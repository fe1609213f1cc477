"""Does the Python API answer as the command line does, and what does `import advisor` cost?

    python benchmarks/python_api.py --json

`differing` of `questions` random ones got another JSON from `advisor.recommend`, `predict` or
`compare` than the command prints (its code in this process; `processes` of them in a process of its
own, as users start it). `import_ratio` is the CPU time of `python -c "import advisor"` over that of
`python -c "import numpy"`, the median of pairs that run in turn.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from itertools import islice
from typing import Any

import advisor
from advisor.cli import main as command_line
from benchmarks.service_load.questions import predictions, recommendations
from benchmarks.startup import COMMAND, run

AIM_RATIO = 1.3
_ROUNDS = 15
_LANGUAGE_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "mistralai/Mistral-7B-v0.3")
Asked = tuple[str, dict[str, Any]]


def questions(seed: int) -> Iterator[Asked]:
    """Command and fields: recommendations of networks and language models, predictions and
    comparisons, no two alike."""
    draw = random.Random(seed)
    of_networks, of_instances = recommendations(seed, wide=True), predictions(seed)
    while True:
        yield from (("recommend", next(of_networks)) for _ in range(6))
        yield "recommend", _generation(draw)
        yield "recommend", _finetuning(draw)
        yield from (("predict", next(of_instances)) for _ in range(3))
        yield "compare", _comparison(draw)


def _generation(draw: random.Random) -> dict[str, Any]:
    load = draw.choice(["users", "target_requests_per_s", "target_throughput"])
    return {
        "task": "generation",
        "model": draw.choice(_LANGUAGE_MODELS),
        load: draw.randint(1, 60) * (50 if load == "target_throughput" else 1),
        "traffic": draw.choice(["chat", "code", "summary"]),
        "cloud": draw.choice(["aws", "gcp", "any"]),
        "max_tpot_ms": round(draw.uniform(20, 200), 3),
    }


def _finetuning(draw: random.Random) -> dict[str, Any]:
    return {
        "task": "finetuning",
        "model": draw.choice(_LANGUAGE_MODELS),
        "tokens": round(10 ** draw.uniform(6, 9)),
        "method": draw.choice(["lora", "qlora"]),
        "max_hours": round(draw.uniform(1, 100), 3),
    }


def _comparison(draw: random.Random) -> dict[str, Any]:
    return {
        "task": "training",
        "model": draw.choice(["resnet50", "vgg16", "alexnet"]),
        "gpu": draw.sample(["T4", "L4", "A10G", "V100-SXM2-16GB", "L40S"], 3),
        "batch_size": draw.randint(1, 64),
    }


def asked_by_python(name: str, fields: Mapping[str, Any]) -> Any:
    """The answer's document, or the error's text and exit code."""
    try:
        return json.loads(json.dumps(getattr(advisor, name)(**fields).to_dict()))
    except advisor.AdvisorError as error:
        return error.render(str), error.exit_code


def asked_by_command(name: str, fields: Mapping[str, Any]) -> Any:
    """What the command prints, its code called in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command_line.run([name, *words(fields), "-o", "json"])
    return _read(out.getvalue(), err.getvalue(), code)


def asked_by_process(name: str, fields: Mapping[str, Any]) -> Any:
    """What the command prints as users start it."""
    words_of = [*COMMAND, name, *words(fields), "-o", "json"]
    done = subprocess.run(words_of, capture_output=True, text=True)
    return _read(done.stdout, done.stderr, done.returncode)


def _read(out: str, err: str, code: int) -> Any:
    return json.loads(out) if out else (err.removeprefix("advisor: ").strip(), code)


def words(fields: Mapping[str, Any]) -> list[str]:
    """The fields as options."""
    texts = {
        name: ",".join(value) if isinstance(value, list) else str(value) for name, value in fields.items()
    }
    return [word for name, text in texts.items() for word in (_option(name), text)]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def import_ratio() -> float:
    """Of CPU times; the two take turns, so that a busy neighbour hits both."""
    ours, theirs = ([sys.executable, "-c", f"import {name}"] for name in ("advisor", "numpy"))
    pairs = [(run(ours), run(theirs)) for _ in range(_ROUNDS)]
    return statistics.median(one.cpu_seconds / other.cpu_seconds for one, other in pairs)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--processes", type=int, default=12)
    given = parser.parse_args()
    rows = list(islice(questions(seed=24), given.questions))
    answers = [asked_by_python(*row) for row in rows]
    few = rows[: given.processes]
    result = {
        "questions": len(rows),
        "answered": sum(isinstance(answer, dict) for answer in answers),
        "differing": sum(answer != asked_by_command(*row) for answer, row in zip(answers, rows, strict=True)),
        "processes": len(few),
        "differing_from_processes": sum(
            answer != asked_by_process(*row) for answer, row in zip(answers, few, strict=False)
        ),
        "import_ratio": round(import_ratio(), 3),
        "aim": {"differing": 0, "import_ratio": AIM_RATIO},
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
