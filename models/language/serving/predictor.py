"""Predicts the speed of served language models: medians with bounds, as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.domain import Withheld
from advisor.domain.words import Link, LlmEngine, LlmPrecision
from advisor.messages import Message
from advisor.models.bayes import Bounds, Floats, Gaussian, multipliers
from advisor.models.bundled import withheld_tests
from advisor.models.language.deployments import Deployment, ServingObservation, Traffic, unmeasured_parts
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.serving.effects import Setting, design_of, line_of, minor_version, shape_of
from advisor.models.language.serving.rates import (
    QUANTITIES,
    RequestLogs,
    ServingRates,
    binding,
    found_in_flight,
    open_loop,
    request_logs,
    requests_of,
    tails_under,
)
from advisor.models.language.serving.seconds import Logs, Requests, closed_loop_seconds, least_seconds
from advisor.models.language.serving.values import MeasuredValue, measured

_DIFFERENCE = 1e-4
_MOST_UPDATES, _REWEIGHTED = 8, 3
# Any nearer to capacity, the fixed point would diverge, and the bounds with it.
_MOST_GROWTH = 0.9
# Standard deviation between runs of the same setting, in log seconds (docs/internals/language.md).
RUN_SIGMA = {"each_token": 0.05, "first_token": 0.12, "arriving": 0.12, "rate": 0.05, "batch": 0.05}
# Ranks and nodes wait for each other: the log seconds that this adds to (steps, prompts), from 18 rows of
# ranks on B200 and three of pipelines on A100, and the standard deviations of these values.
_RANKS_WAIT, _NODES_WAIT = (0.25, 0.8), (0.3, 0.3)
_RANKS_SIGMA, _NODES_SIGMA = 0.25, 0.35
_RANKS = Message("few rows have attention data parallelism: the bounds of its rates are wider")
_NODES = Message("no model over several instances was measured: the bounds of its rates are wider")
# Standard deviation, in log seconds, of speculative decoding whose acceptance is known.
_DRAFT_SIGMA = 0.2
# llama.cpp was measured with one request at a time: standard deviation, in log seconds, of e times as many.
_SLOTS_SIGMA = 0.15
_SLOTS = Message(
    "llama.cpp was measured with one request at a time: the more slots, the wider the bounds of its rates"
)
_DRAFT = Message(
    "speculative decoding was not measured: its gain follows from the acceptance that you stated"
)
_MIXED = Message(
    "no model whose layers differ as those of this one was measured: the bounds of its rates are wider"
)
# (has the fit rows of the GPU, has it rows of the model) -> the kind of evidence.
_KNOWN = {(True, True): "known", (False, True): "gpu", (True, False): "model", (False, False): "both"}

# Mixtures with at most so many requests in flight are bound by other constants.
_FEW_IN_FLIGHT = 8
# The kind of evidence behind a deployment -> what the most similar test withheld.
_WITHHELD = {
    "tried": "the language model, but three trials",
    "known": "the GPU",
    "gpu": "the GPU",
    "model": "the language model",
    "both": "the language model",
}


def regime_of(model: LanguageModel, precision: str, in_flight: float) -> str:
    """The regime of a mixture of experts with so many requests in flight; "" for dense models."""
    if not model.moe:
        return ""
    few = precision == LlmPrecision.FP8 and in_flight <= _FEW_IN_FLIGHT
    return "few requests of a mixture in fp8" if few else "mixtures"


class ServingPredictor(Gaussian, frozen=True):
    """The posterior of serving: means (p,) and covariance (p, p) of named parameters.

    `widths` has sorted standardised residuals by quantity and by kind of evidence (`known`), for mixtures
    also by `regime_of`. `versions` has each engine's newest version among the rows: rates are of this one."""

    widths: Mapping[str, Sequence[float]]
    versions: Mapping[str, str]
    models: frozenset[str]
    gpus: frozenset[str]

    def engine_version(self, engine: str) -> str:
        """The version of an engine for which rates are predicted; "" if no row of the engine is known."""
        return self.versions.get(engine, "")

    def known(self, deployments: Sequence[Deployment]) -> list[str]:
        """The kind of evidence behind each row, as in the keys of `widths`: "tried" if the user has trials
        of its model, GPU and engine; "known" if the fit had its GPU and its model's shape; else which of
        these it did not have: "gpu", "model" or "both"."""
        shapes = self._shapes()
        tried = {name.split("/own/")[1].rsplit("/", 3)[0] for name in self.names if "/own/" in name}
        return [
            "tried"
            if line_of(entry) in tried
            else _KNOWN[entry.gpu.name in self.gpus, shape_of(entry.model) in shapes]
            for entry in deployments
        ]

    def withheld(self, deployment: Deployment, in_flight: float) -> Withheld | None:
        """The withheld test most similar to a deployment with so many requests in flight; None for several
        ranks or nodes and for speculative decoding, which no test has."""
        if _further_sigma(deployment):
            return None
        what, tests = _WITHHELD[self.known([deployment])[0]], withheld_tests()
        special = regime_of(deployment.model, deployment.precision, in_flight)
        if deployment.link == Link.PCIE:
            special = "over PCIe"
        return tests.get((special, what)) or tests["output tokens/s", what]

    def unmeasured(self, deployment: Deployment) -> tuple[Message, ...]:
        """The features of a deployment that no measured row and no trial of the user has, in words."""
        gpu, model = deployment.gpu.name, deployment.model
        is_known = self.has_shape(model)
        unmeasured = unmeasured_parts(
            gpu,
            model.name,
            Message("generation"),
            gpu_known=gpu in self.gpus or f"step/gpu/{gpu}" in self.names,
            model_known=is_known,
        )
        unlike = (
            *((not is_known and model.mixed, _MIXED), (deployment.draft, _DRAFT)),
            *((deployment.nodes > 1, _NODES), (deployment.ranks > 1, _RANKS)),
            (deployment.engine == LlmEngine.LLAMA_CPP, _SLOTS),
        )
        return (*unmeasured, *(text for applies, text in unlike if applies))

    def has_shape(self, model: LanguageModel) -> bool:
        """Return whether a measured row or a trial has a model of these sizes."""
        return shape_of(model) in self._shapes()

    def _shapes(self) -> set[str]:
        """The shapes of the models in the measured rows and trials."""
        return {name.rpartition("/")[2] for name in self.names if "/model/" in name}

    def closed_loop(
        self,
        deployments: Sequence[Deployment],
        traffic: Traffic | Sequence[Traffic],
        concurrency: Floats | Sequence[float] | None,
        confidence: float = 0.9,
    ) -> ServingRates:
        """Rates with `concurrency` (n,) users (None: as many as fit), each of whom has one request in flight
        or pauses before the next."""
        view = self.view(deployments, traffic, "maximum" if concurrency is None else "")
        requests, held, think = view.requests, view.requests.held, view.requests.think_seconds
        users = held if concurrency is None else np.asarray(concurrency, dtype=float)

        def service(found: Floats, logs: Logs) -> Floats:
            return closed_loop_seconds(requests, logs, found).service

        found = found_in_flight(lambda found: service(found, view.logs), users, think)
        sequences = np.where(held > 0, np.minimum(found, held), np.nan)
        thinking = think / service(sequences, view.logs)
        waiting = np.maximum(users / sequences - 1 - thinking, 0.0)

        def logs_of(logs: Logs) -> RequestLogs:
            seen = sequences
            if think.any():  # a longer service keeps more in flight
                seconds = service(sequences, logs)
                seen = np.minimum(1 + (users - 1) * seconds / (seconds + think), held)
            return request_logs(requests, logs, seen, waiting)

        in_flight = sequences - thinking / (1 + thinking)
        rates = self.rates_of(view, logs_of, sequences, confidence, in_flight=in_flight)
        return rates._replace(tails=tails_under(requests, view.logs, sequences, waiting))

    def under_load(
        self,
        deployments: Sequence[Deployment],
        traffic: Traffic | Sequence[Traffic],
        requests_per_second: Floats | Sequence[float],
        confidence: float = 0.9,
    ) -> ServingRates:
        """Rates under Poisson arrivals at `requests_per_second` (n,); nan beyond capacity."""
        rate = np.asarray(requests_per_second, dtype=float)
        view = self.view(deployments, traffic, "open")
        requests = view.requests

        def service(logs: Logs, in_flight: Floats) -> Floats:
            each = request_logs(requests, logs, in_flight, np.zeros_like(rate), rate)
            seconds = np.exp(np.maximum(each.rate, np.log(least_seconds(requests, in_flight)[2])))
            return np.asarray(seconds * in_flight * requests.output_tokens)

        held = np.where(requests.held > 0, requests.held, np.nan)
        flow = open_loop(lambda b: service(view.logs, b), rate, held, requests.burstiness)
        sequences = flow.in_flight + 1
        waiting = flow.waiting_seconds / service(view.logs, sequences)
        # The share of the sequences that grows with the load: all but the request that arrives.
        arrived = flow.in_flight / sequences
        more_in_flight = service(view.logs, sequences * np.exp(_DIFFERENCE))
        slope = np.log(more_in_flight / service(view.logs, sequences)) / _DIFFERENCE
        growth = np.minimum(arrived * np.maximum(slope, 0.0), _MOST_GROWTH)

        def logs_of(logs: Logs) -> RequestLogs:
            # A longer service keeps more in flight, which makes it longer still.
            longer = np.log(service(logs, sequences) / service(view.logs, sequences))
            more = sequences * np.exp(arrived * longer / (1 - growth))
            return request_logs(requests, logs, more, waiting, rate)

        rates = self.rates_of(view, logs_of, sequences, confidence, in_flight=flow.in_flight)
        offered = np.where(np.isnan(flow.in_flight), np.nan, rate * requests.output_tokens)
        return rates._replace(
            output_tokens_per_second=Bounds(offered, offered, offered),
            tails=tails_under(requests, view.logs, sequences, waiting, rate),
        )

    def conditioned(self, observations: Sequence[ServingObservation]) -> ServingPredictor:
        """The predictor conditioned on a user's trials, each with its standard errors."""
        values, sigmas = [], []
        for entry in observations:
            deployment = self.answering(entry.deployment)
            arrives = entry.requests_per_second is not None
            setting = Setting(deployment, load="open" if arrives else "")
            for quantity, seconds, sigma in (
                ("each_token", entry.tpot_seconds, entry.tpot_sigma),
                ("arriving" if arrives else "first_token", entry.ttft_seconds, entry.ttft_sigma),
            ):
                if seconds:
                    load = max(entry.concurrency, 1.0), *entry.traffic[:2], seconds
                    rate, together = entry.requests_per_second or 0.0, entry.traffic.starts_together
                    values.append(MeasuredValue(setting, quantity, *load, rate, together))
                    sigmas.append(math.hypot(sigma, RUN_SIGMA[quantity]))
        return self.knowing(values, np.array(sigmas))

    def knowing(self, values: Sequence[MeasuredValue], sigma: Floats) -> ServingPredictor:
        """The predictor conditioned on values that a user measured; their logs have standard errors (n,)."""
        if not values:
            return self
        parameters = self.parameters()
        columns = measured(values, parameters)
        # A trial far off the others counts less.
        after = self.extended(parameters).updated_robustly(
            columns.linearised,
            np.log([value.seconds for value in values]),
            sigma,
            rounds=_REWEIGHTED,
            most_weight=1.0,
            most_updates=_MOST_UPDATES,
        )
        return replace(self, names=after.names, mean=after.mean, covariance=after.covariance)

    def answering(self, deployment: Deployment) -> Deployment:
        """The deployment with its engine's minor version; if it names none, with that of `versions`."""
        version = minor_version(deployment.version) or self.engine_version(deployment.engine)
        return deployment._replace(version=version)

    def view(
        self, deployments: Sequence[Deployment], traffic: Traffic | Sequence[Traffic], load: str = ""
    ) -> View:
        """The view of deployments under their traffic, with one kind of `load` (`Setting`)."""
        each = [traffic] * len(deployments) if isinstance(traffic, Traffic) else traffic
        keys = [(id(deployment), traffic) for deployment, traffic in zip(deployments, each, strict=True)]
        # Rows that differ in their load alone share all else.
        distinct = dict(zip(keys, deployments, strict=True))
        answering = [self.answering(deployment) for deployment in distinct.values()]
        traffics = [traffic for _, traffic in distinct]
        settings = [
            Setting(deployment, load=load or ("waves" if traffic.equal_lengths else ""))
            for deployment, traffic in zip(answering, traffics, strict=True)
        ]
        parameters = self.parameters()
        design = design_of(settings, parameters)
        posterior = self.extended(parameters)
        positions, known = {key: position for position, key in enumerate(distinct)}, self.known(answering)
        rows = np.array([positions[key] for key in keys], dtype=np.intp)
        waits = [
            _RANKS_WAIT if entry.ranks > 1 else _NODES_WAIT if entry.nodes > 1 else (0.0, 0.0)
            for entry in answering
        ]
        step, prompt = np.array(waits).reshape(-1, 2)[rows].T
        logs = Logs(*design.logs(posterior.mean)[rows].T)
        return View(
            requests=requests_of(answering, traffics).take(rows),
            logs=logs._replace(step=logs.step + step, prompt=logs.prompt + prompt),
            covariance=design.covariance(posterior.covariance)[rows],
            deployments=[answering[row] for row in rows.tolist()],
            known=[known[row] for row in rows.tolist()],
        )

    def rates_of(
        self,
        view: View,
        logs_of: Callable[[Logs], RequestLogs],
        sequences: Floats,
        confidence: float,
        in_flight: Floats | None = None,
    ) -> ServingRates:
        """Rates with bounds: `logs_of` gives the log seconds that follow from log parameters."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each, doubts = view.with_doubts(logs_of, sequences)
            bounds, calibrated = {}, np.ones(len(view.known), dtype=bool)
            groups = [
                (known, regime_of(entry.model, entry.precision, number))
                for known, entry, number in zip(view.known, view.deployments, sequences.tolist(), strict=True)
            ]
            least = map(np.log, least_seconds(view.requests, sequences, np.exp(each.rate)))
            for quantity, mean, doubt, floor in zip(QUANTITIES, each, doubts, least, strict=True):
                below, above, enough = self._multipliers(quantity, groups, confidence)
                logs = (mean - below * doubt, mean, mean + above * doubt)
                bounds[quantity] = Bounds(*(np.exp(np.maximum(log, floor)) for log in logs))
                calibrated &= enough
            tokens = Bounds(*(1 / bound for bound in reversed(bounds["rate"])))
        return ServingRates(
            bounds["each_token"],
            bounds["first_token"],
            tokens,
            sequences if in_flight is None else in_flight,
            binding(view.requests, view.logs, sequences),
            calibrated,
        )

    def _multipliers(
        self, quantity: str, groups: Sequence[tuple[str, str]], confidence: float
    ) -> tuple[Floats, Floats, Any]:
        """For each row, how many standard deviations its bounds lie below and above, in log seconds, by kind
        of evidence and regime; and whether that is calibrated."""
        each = {}
        for known, regime in set(groups):
            each[known, regime] = multipliers(self.widths.get(f"{quantity}/{known}/{regime}", ()), confidence)
            if not each[known, regime].calibrated:
                each[known, regime] = multipliers(self.widths.get(f"{quantity}/{known}", ()), confidence)
        # `multipliers` names the sides of rates: their lower bound is the upper one of seconds.
        return (
            np.array([each[group].upper for group in groups]),
            np.array([each[group].lower for group in groups]),
            np.array([each[group].calibrated for group in groups], dtype=bool),
        )


def _further_sigma(deployment: Deployment) -> float:
    """The log standard deviation that ranks, several nodes and drafting add, as hardly any row has them."""
    ranks, nodes = _RANKS_SIGMA * (deployment.ranks > 1), _NODES_SIGMA * (deployment.nodes > 1)
    return math.hypot(ranks, nodes, _DRAFT_SIGMA * (deployment.draft is not None))


class View(NamedTuple):
    """Deployments, the means and covariance (n, logs, logs) of their logs, and the evidence behind each."""

    requests: Requests
    logs: Logs
    covariance: Floats
    deployments: list[Deployment]
    known: list[str]

    def with_doubts(
        self, logs_of: Callable[[Logs], RequestLogs], sequences: Floats
    ) -> tuple[RequestLogs, RequestLogs]:
        """Log seconds at the mean parameters, and their standard deviations."""
        in_slots = np.array([entry.engine == LlmEngine.LLAMA_CPP for entry in self.deployments])
        of_slots = _SLOTS_SIGMA * in_slots * np.log(np.maximum(sequences, 1.0))
        further = np.array([_further_sigma(entry) for entry in self.deployments]) ** 2 + of_slots**2
        mean, logs = logs_of(self.logs), np.array(self.logs)
        # One call for all slopes: in row k, only the k-th log is moved.
        moved = logs[:, None] + _DIFFERENCE * np.eye(len(logs))[:, :, None]
        slopes = (np.array(logs_of(Logs(*moved))) - np.array(mean)[:, None]) / _DIFFERENCE
        doubts = []
        for quantity, of_logs in zip(QUANTITIES, np.nan_to_num(slopes), strict=True):
            reach = (of_logs.T[:, None] @ self.covariance)[:, 0]
            own = RUN_SIGMA[quantity] ** 2 + further
            doubts.append(np.sqrt((reach * of_logs.T).sum(axis=1) + own))
        return mean, RequestLogs(*doubts)
