"""Measures plain transformers with random weights, in a separate process.

`python -m advisor.infra.build.campaign.language.worker`: the first input line is the job, each further line a
cell, and each is answered by one line. Needs torch and transformers. A cell is one batch: the pass over its
prompts gives the first tokens, and each later step is timed separately."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from advisor.sweeps.trial.child import send_to_parent

_LEAST_STEPS = 8
_LEAST_PASSES = 2
# Share of a cell's seconds that is spent on its prompts.
_PROMPT_SHARE = 0.3


class Bench:
    """A model on a device, and the timing of its passes. `job` has config, device and graphs."""

    def __init__(self, job: dict[str, Any]) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        self._torch, self._job = torch, job
        self._is_cuda = job["device"] == "cuda"
        torch.manual_seed(0)
        given = {k: v for k, v in job["config"].items() if k not in ("architectures", "model_type")}
        config = AutoConfig.for_model(job["config"]["model_type"], **given)
        builder: Any = AutoModelForCausalLM  # untyped
        with torch.device(job["device"]):
            self._model = builder.from_config(config, dtype=torch.bfloat16)
        self._model.eval()
        self._config = config

    def facts(self) -> dict[str, Any]:
        """The device and software versions that were used."""
        import transformers

        device = self._torch.cuda.get_device_name(0) if self._is_cuda else ""
        return {
            "gpu": device,
            "torch": str(self._torch.__version__),
            "engine_version": transformers.__version__,
        }

    def measured(self, cell: dict[str, Any]) -> dict[str, Any]:
        """Raw seconds of the passes over the prompts and of the steps after them."""
        from transformers import StaticCache

        torch, batch = self._torch, cell["concurrency"]
        prompt = torch.randint(
            0, self._config.vocab_size, (batch, cell["input_tokens"]), device=self._job["device"]
        )
        cache: Any = None
        length = cell["input_tokens"] + cell["output_tokens"] + 8

        def fill() -> None:
            nonlocal cache
            cache = StaticCache(config=self._config, max_cache_len=length)
            self._pass(prompt, cache)

        with torch.inference_mode():
            fill()  # warm-up: allocates memory and chooses kernels
            seconds = cell["seconds"] * _PROMPT_SHARE
            passes = self._timed(fill, _LEAST_PASSES, 10**6, seconds)
            token = prompt[:, :1].clone()
            step = self._step(token, cache)
            left = cell["output_tokens"]
            seconds = cell["seconds"] - seconds
            steps = self._timed(step, min(_LEAST_STEPS, left), left, seconds)
        return {"status": "ok", "prompt_seconds": passes, "step_seconds": steps}

    def _step(self, token: Any, cache: Any) -> Callable[[], None]:
        """A function that makes one more token per sequence, as a CUDA graph if graphs are used."""

        def step() -> None:
            self._pass(token, cache)

        for _ in range(2):
            step()
        if not (self._job["graphs"] and self._is_cuda):
            return step
        self._torch.cuda.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            step()
        replay: Callable[[], None] = graph.replay
        return replay

    def _pass(self, tokens: Any, cache: Any) -> None:
        self._model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)

    def _timed(self, work: Callable[[], None], least: int, most: int, seconds: float) -> list[float]:
        """Seconds of each call: at least `least` and at most `most` calls, until `seconds` are over."""
        taken: list[float] = []
        while len(taken) < most and (len(taken) < least or sum(taken) < seconds):
            self._wait()
            begun = time.perf_counter()
            work()
            self._wait()
            taken.append(time.perf_counter() - begun)
        return taken

    def _wait(self) -> None:
        if self._is_cuda:
            self._torch.cuda.synchronize()

    def answered(self, cell: dict[str, Any]) -> dict[str, Any]:
        """The cell's measurement, or a record that it ran out of memory."""
        try:
            return self.measured(cell)
        except (self._torch.OutOfMemoryError, MemoryError) as error:
            return {"status": "out_of_memory", "reason": str(error)[:200]}
        finally:
            if self._is_cuda:
                self._torch.cuda.empty_cache()


def main() -> None:
    """Answer cells until the input ends."""
    from advisor.models.zoo.torchvision_operators import import_torchvision

    with suppress(ImportError):  # transformers imports it if installed
        import_torchvision()
    bench = Bench(json.loads(sys.stdin.readline()))
    send_to_parent({"ready": bench.facts()})
    for line in sys.stdin:
        send_to_parent(bench.answered(json.loads(line)))


if __name__ == "__main__":
    main()
