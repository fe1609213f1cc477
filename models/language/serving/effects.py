"""The effects that add up to the logs of a deployment, and the prior of each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor.models.bayes import UNNAMED, Floats, Parameters, Prior
from advisor.models.language.deployments import Deployment, GpuFacts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving.seconds import Logs
from advisor.models.language.serving.work import arithmetic_of

# The first versions of each year, the newest first.
_FIRST_OF: Mapping[str, Sequence[tuple[tuple[int, ...], str]]] = {
    "vllm": (((0, 12), "2026"), ((0, 7), "2025"), ((0, 0), "2024")),
    "trtllm": (((1, 2), "2026"), ((0, 15), "2025"), ((0, 0), "2024")),
    "sglang": (((0, 5, 6), "2026"), ((0, 4), "2025"), ((0, 0), "2024")),
}
# A candidate of TensorRT-LLM 1.0 that is two to three times slower than its release.
_CANDIDATE = re.compile(r"1\.0\.0rc\d$")
SLOW_CANDIDATE = "1.0rc"


def minor_version(version: str) -> str:
    """`0.17.1rc2` as `0.17`: rates change with those; a slow candidate is a version of its own, and so is
    each `0.5.6` of the year that SGLang spent in 0.5."""
    if _CANDIDATE.match(version):
        return SLOW_CANDIDATE
    return ".".join(version.split(".")[: 3 if version.startswith("0.5.") else 2])


def era_of(engine: str, version: str) -> str:
    """The year of a version, `of 2025` or a number; "" where nothing tells it."""
    if year := re.search(r"\b20\d\d$", version):
        return year[0]
    if version == SLOW_CANDIDATE:
        return "2025"
    numbers = tuple(map(int, re.findall(r"\d+", version))) if re.match(r"\d+\.\d", version) else ()
    return next((year for first, year in _FIRST_OF.get(engine, ()) if numbers >= first), "")


class Setting(NamedTuple):
    """A deployment as it was measured, or would be.

    `source` is who measured, "" for a question and for a user's own trials. `eager`: the engine launches
    kernels one by one, without CUDA graphs. `load` is "" for a closed loop, "waves" for one whose requests
    have equal lengths, "open" for requests that arrive at a rate of their own, "static" for batches without a
    server, "maximum" for as many sequences as memory holds."""

    deployment: Deployment
    source: str = ""
    eager: bool = False
    load: str = ""


# Before any row: shares of peaks and seconds as kernels and engines show them
# (docs/internals/language.md names the source of each).
_BASE: Mapping[str, Prior] = {
    "weights": Prior(math.log(0.85), 0.2),
    "kv": Prior(math.log(0.7), 0.3),
    "decode": Prior(math.log(0.54), 0.3),
    "prefill": Prior(math.log(0.5), 0.3),
    "attention": Prior(math.log(0.35), 0.3),
    "link": Prior(math.log(0.35), 0.3),
    "latency": Prior(math.log(6e-6), 0.3),
    "spread": Prior(math.log(0.4), 0.6),
    "overhead": Prior(0.0, 0.05),
    "constant": Prior(math.log(0.8e-3), 0.25),
    "layer": Prior(math.log(3e-5), 0.3),
    "mixture": Prior(math.log(2.5e-5), 0.4),
    "mla": Prior(math.log(5e-5), 0.5),
    "sequence": Prior(math.log(1.2e-5), 0.4),
    "launch": Prior(math.log(2e-4), 0.5),
    "mixed": Prior(math.log(0.8), 0.3),
    "first": Prior(math.log(0.03), 0.7),
    "queue": Prior(math.log(0.06), 0.7),
    "together": Prior(math.log(0.1), 0.7),
    "step": Prior(0.0, 0.02),
    "prompt": Prior(0.0, 0.02),
}
# Standard deviations of what a kind of group adds to a log.
_EFFECTS: Mapping[str, Mapping[str, float]] = {
    "weights": {"gpu": 0.07, "chip": 0.09, "engine": 0.1, "format": 0.15, "mixture": 0.2, "experts": 0.2},
    "kv": {"chip": 0.13, "engine": 0.15, "kv": 0.3, "mla": 0.35, "mixed": 0.4},
    "decode": {"chip": 0.12, "arithmetic": 0.12, "format": 0.12, "mixture": 0.5, "experts": 0.3},
    "prefill": {
        "chip": 0.1,
        "arithmetic": 0.12,
        "products": 0.12,
        "mixture": 0.3,
        "experts": 0.4,
        "engine_products": 0.15,
        "unpacked": 0.2,
    },
    "attention": {"chip": 0.15, "mla": 0.4},
    "link": {"way": 0.2, "peer": 0.8, "host": 0.9, "gpu": 0.14, "chip": 0.25},
    "latency": {"way": 0.4, "peer": 0.4, "host": 0.9, "chip": 0.25, "fused": 0.52},
    "overhead": {"gpu": 0.06, "chip": 0.13, "eager": 0.8},
    "constant": {"engine": 0.25, "static": 0.4},
    "layer": {"engine": 0.2, "kernels": 0.18, "mixed": 0.4},
    "mixture": {"engine": 0.35, "kernels": 0.35, "model": 0.5},
    "mla": {"engine": 0.4, "kernels": 0.6},
    "sequence": {"engine": 0.5, "load": 0.7},
    "launch": {"chip": 0.25, "kernels": 0.25, "mixture": 0.6, "mla": 0.4, "model": 0.2},
    "mixed": {"engine": 0.5, "load": 0.4},
    "first": {"chip": 0.3, "engine": 0.5, "wave": 0.5, "waves": 0.6, "client": 0.6, "open": 2.0, "own": 0.3},
    "queue": {"engine": 0.7, "wave": 0.5, "waves": 0.8, "client": 0.5, "own": 0.3},
    "together": {"engine": 0.5, "wave": 0.7, "waves": 1.0},
    "step": {
        "model": 0.08,
        "gpu": 0.05,
        "era": 0.17,
        "version": 0.07,
        "cell": 0.07,
        "load": 0.13,
        "user": 0.085,
        "own": 0.085,
    },
    "prompt": {"model": 0.18, "mixture": 0.3, "mixed": 0.3, "cell": 0.1, "own": 0.15},
}
# Prior means of effects whose names contain these.
_CENTRES = {
    # FP8 and FP4 products reach less of their peaks: 0.31 to 0.65 where 16 bits reach 0.73 to 0.91.
    "/arithmetic/fp8": -0.35,
    "/arithmetic/fp4": -0.6,
    # Weights that are unpacked before they are multiplied compute prompts no faster than 16 bits.
    "/unpacked/": -0.1,
    # NVLink's kernels do at once what goes step by step over PCIe.
    "latency/way/pcie": 0.3,
    "link/way/pcie": 0.6,
    # Without peer access what is sent goes through the host's memory, there and back.
    "link/peer/none": -0.8,
    # Prompts that go together with one's own where all requests are alike: e^2.5 times as many.
    "together/wave/waves": 2.5,
}
# Schedulers that read all prompts that wait before they go on with steps. Of requests that start together
# each is as likely to be read first as another: a first token waits for half of the others' prompts.
_PROMPTS_FIRST, _HALF = ("sglang",), Prior(math.log(0.5), 0.3)
# What falls with the watts that a multiprocessor has at its clock (`power_ratio`).
_POWER = Prior(1.0, 0.2)
_OF_POWER = ("decode", "prefill", "attention")
_PCIE_5_GB_S = 60.0
# Larger matrices reach more of the peak: how much by the log of their width.
_SIZE = Prior(0.2, 0.1)
_OF_SIZE = ("decode", "prefill")
_USUAL_WIDTH = 8192.0
# Experts that a token is sent to: each is gathered, computed and scattered.
_CHOICES = Prior(0.7, 0.3)
_USUAL_CHOICES = 8.0
# Small kernels end sooner on faster memory: how their seconds fall with its bandwidth.
_PACE = Prior(-0.15, 0.1)
_USUAL_BANDWIDTH_GB_S = 3352.0
# Engines lose less time beside the GPU's each year: what tells of versions that nobody measured.
_YEAR, _USUAL_YEAR = Prior(-0.15, 0.15), 2025.0
# The best kept public benchmark of engines: predictions mean what it would measure.
REFERENCE_SOURCE = "inferencex"
# Effects of who measured and of one line of rows stand in no question. `user`, of all settings of whoever
# asks, and `own`, of one, stand in their place in questions and in a user's trials, and move with those
# alone; so does `host`, as all-reduces over PCIe take up to three times as long on one host as on another.


class Design(NamedTuple):
    """The parameters that add up to each log of n settings: indices and factors, (n, logs, slots)."""

    at: Any
    by: Floats

    def logs(self, theta: Floats) -> Floats:
        """The logs (n, logs) for parameters (p,)."""
        result: Floats = (theta[self.at] * self.by).sum(axis=2)
        return result

    def slopes(self, of_logs: Floats, count: int) -> Floats:
        """Derivatives by the parameters (n, count) from those by the logs (n, logs)."""
        result = np.zeros((len(of_logs), count))
        rows = np.arange(len(of_logs))
        for log in range(self.at.shape[1]):
            for slot in range(self.at.shape[2]):
                result[rows, self.at[:, log, slot]] += self.by[:, log, slot] * of_logs[:, log]
        return result

    def covariance(self, of_parameters: Floats) -> Floats:
        """Covariance of the logs (n, logs, logs) from that of the parameters (p, p)."""
        n, logs, slots = self.at.shape
        used, index = np.unique(self.at, return_inverse=True)
        rows = np.zeros((n * logs, len(used)))
        places = np.arange(n * logs)[:, None], index.reshape(n * logs, slots)
        np.add.at(rows, places, self.by.reshape(n * logs, slots))
        reach = (rows @ of_parameters[np.ix_(used, used)]).reshape(n, logs, len(used))
        return np.asarray(reach @ rows.reshape(n, logs, len(used)).swapaxes(1, 2))


def shape_of(model: LanguageModel) -> str:
    """A key that is equal for checkpoints of one size in all formats."""
    return f"{model.layers}x{model.hidden}x{model.experts}"


def line_of(deployment: Deployment) -> str:
    """The key that a user's own trials inform most: a shape on a GPU in an engine."""
    return "/".join((shape_of(deployment.model), deployment.gpu.name, deployment.engine))


def groups_of(setting: Setting) -> dict[str, str]:
    """The group of each kind that a setting belongs to; kinds that it has no part in are absent."""
    deployment = setting.deployment
    model, gpu, engine = deployment.model, deployment.gpu, deployment.engine
    precision = "bf16" if deployment.precision == "fp16" else deployment.precision
    kv_precision = "bf16" if deployment.kv_precision == "fp16" else deployment.kv_precision
    # GPUs whose kernels are alike: generations from Hopper on, compute capabilities before.
    capability = gpu.compute_capability
    chip = f"{capability:g}" if capability < 9 else f"{int(capability)}"
    version = f"{engine}/{deployment.version}" if deployment.version else ""
    cell = "/".join((line_of(deployment), deployment.version, deployment.precision, setting.source))
    way = deployment.link if deployment.tensor_parallel > 1 else ""
    waves = "waves" if setting.load == "waves" else ""
    # Four-bit integers are multiplied as 16 bits.
    products = f"{'bf16' if precision == 'int4-awq' else precision}/{int(capability)}"
    source = "" if setting.source == REFERENCE_SOURCE else setting.source or UNNAMED
    groups = {
        "gpu": gpu.name,
        "chip": chip,
        "engine": engine,
        "version": version,
        "era": era_of(engine, deployment.version),
        "arithmetic": f"{arithmetic_of(deployment)[0]}/{int(capability)}",
        "products": products,
        "engine_products": f"{engine}/{products}",
        "unpacked": f"{engine}/{int(capability)}" if precision == "int4-awq" else "",
        "format": f"{precision}/{int(capability)}",
        "kernels": f"{engine}/{precision}/{int(capability)}",
        "kv": f"{kv_precision}/{engine}/{chip}",
        "mixture": "mixture" if model.experts else "",
        "experts": f"{precision}/{int(capability)}" if model.experts else "",
        "mla": "mla" if model.latent else "",
        "mixed": "mixed" if model.mixed else "",
        "way": way,
        "fused": era_of(engine, deployment.version) if way == "nvlink" else "",
        "peer": _peer(gpu) if way == "pcie" else "",
        "model": shape_of(model),
        "source": source,
        # One source alone measured waves: how their requests wait is theirs.
        "client": "" if waves else source,
        "load": setting.load if setting.load in ("static", "maximum") else "",
        "open": "open" if setting.load == "open" else "",
        "wave": waves,
        "waves": waves and engine,
        "static": "static" if setting.load == "static" else "",
        "eager": "eager" if setting.eager else "",
        "cell": cell if setting.source else "",
        "user": "" if setting.source else "own",
        "own": "" if setting.source else cell,
        "host": "" if setting.source or way != "pcie" else cell,
    }
    return {kind: group for kind, group in groups.items() if group}


def _peer(gpu: GpuFacts) -> str:
    """Cards by whether one reads another's memory over PCIe, and its generation: GeForce's driver does not
    let it since 2018, nor do the machines that clouds put the A10G into."""
    none = gpu.name == "A10G" or re.match(r"(RTX|GTX) \d{4}\b", gpu.name)
    return ("none" if none else "server") + ("4" if gpu.pcie_gb_s < _PCIE_5_GB_S else "5")


def design_of(settings: Sequence[Setting], parameters: Parameters) -> Design:
    """The design of the settings; adds the parameters that they need to `parameters`."""
    existing: dict[tuple[object, ...], list[list[tuple[int, float]]]] = {}
    keys = []
    for setting in settings:
        groups, model, gpu = groups_of(setting), setting.deployment.model, setting.deployment.gpu
        facts = (model.hidden, model.experts_per_token, gpu.power, gpu.bandwidth_gb_s)
        keys.append((*facts, *groups.items()))
        if keys[-1] not in existing:
            existing[keys[-1]] = _terms(groups, setting.deployment, parameters)
    slots = max((len(term) for row in existing.values() for term in row), default=1)
    at = np.zeros((len(existing), len(Logs._fields), slots), dtype=np.intp)
    by = np.zeros(at.shape)  # places that are left hold nothing
    for row, terms in enumerate(existing.values()):
        for log, term in enumerate(terms):
            at[row, log, : len(term)], by[row, log, : len(term)] = zip(*term, strict=True)
    positions = {key: row for row, key in enumerate(existing)}
    rows = np.array([positions[key] for key in keys], dtype=np.intp)
    return Design(at[rows], by[rows])


def _terms(
    groups: Mapping[str, str], deployment: Deployment, parameters: Parameters
) -> list[list[tuple[int, float]]]:
    """The indices of each log's parameters, with their factors."""
    result = []
    for log in Logs._fields:
        if log == "queue" and groups.get("waves") in _PROMPTS_FIRST:
            result.append([(parameters.of(f"queue/waves/{groups['waves']}", _HALF), 1.0)])
            continue
        term = [(parameters.of(log, _BASE[log]), 1.0)]
        for kind, sigma in _EFFECTS.get(log, {}).items():
            if kind in groups:
                name = f"{log}/{kind}/{groups[kind]}"
                centre = next((mean for part, mean in _CENTRES.items() if part in name), 0.0)
                term.append((parameters.of(name, Prior(centre, sigma)), 1.0))
        for name, prior, factor in _covariates(log, groups, deployment):
            term.append((parameters.of(name, prior), factor))
        result.append(term)
    return result


def _covariates(
    log: str, groups: Mapping[str, str], deployment: Deployment
) -> Iterator[tuple[str, Prior, float]]:
    """Parameters of a log that count in proportion to a fact, with the fact."""
    gpu, model = deployment.gpu, deployment.model
    if log in _OF_POWER and gpu.power:
        yield "power", _POWER, gpu.power
    if log in _OF_SIZE:
        yield "size", _SIZE, math.log(model.hidden / _USUAL_WIDTH)
    if log == "mixture" and model.experts:
        yield "choices", _CHOICES, math.log(model.experts_per_token / _USUAL_CHOICES)
    if log == "overhead":
        yield "pace", _PACE, math.log(gpu.bandwidth_gb_s / _USUAL_BANDWIDTH_GB_S)
        if era := groups.get("era"):
            yield "year", _YEAR, float(era) - _USUAL_YEAR
