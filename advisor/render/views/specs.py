"""Writes the facts of one spec as a title and a sentence each, in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from typing import Any

from advisor.domain import Task
from advisor.domain.words import ENGINES
from advisor.messages import Message, ceil_ms, format_count, format_span, format_usd, short_usd
from advisor.render.blocks import Facts, lower_rate, translated
from advisor.render.facts import run_usd
from advisor.render.i18n.catalogue import Texts
from advisor.render.phrases import count_text, gib_text, gpu_text, seconds_text, speculation_message
from advisor.render.sentences import bound_name
from advisor.render.text import (
    SURE,
    counted_message,
    interval_message,
    lower_name,
    short_order,
    throughput_message,
    upper_name,
)

Record = Mapping[str, Any]
Fact = tuple[Message, Message | str]
# A first epoch less than this much slower than later ones is not mentioned.
_SLOWER = 1.05
# Times of a request: their names in documents, for people, and in questions.
TIMES = (("ttft", "TTFT", "max_ttft_ms"), ("tpot", "TPOT", "max_tpot_ms"), ("e2e", "E2E", "max_e2e_seconds"))
_TUNED = ("weights", "gradients", "optimizer", "activations", "overhead", "free")


def spec_facts(spec: Record, request: Record, t: Texts) -> Facts:
    """Return the facts of a spec of any task, for a report or a page."""
    pairs = [(title[:1].upper() + title[1:], text) for title, text in facts_of(spec, request, t)]
    bound = bound_name(spec, t)
    return Facts([*pairs, *([(t("table.bound"), bound)] if bound else [])])


def facts_of(spec: Record, request: Record, t: Texts) -> list[tuple[str, str]]:
    """Return the facts of a spec of any task except its bottleneck; for a GPU by itself, only its rate."""
    if "serving" in spec:
        facts = serving_facts(spec, request)
    elif "tuning" in spec:
        facts = tuning_facts(spec)
    elif "vcpus" in spec:
        facts = network_facts(spec, request)
    else:
        facts = [*_runs_facts(spec, request), *_rate_facts(spec)]
    return [(translated(title, t), translated(text, t)) for title, text in facts]


def network_facts(spec: Record, request: Record) -> list[Fact]:
    """Return a spec's hardware, rate, latency, run and cost."""
    confidence, price = spec["predicted"]["confidence"], spec["price"] or {}
    machine = Message("has"), machine_message(spec, decodes=True)
    facts: list[Fact] = [machine, *_runs_facts(spec, request), *_rate_facts(spec)]
    latency, run, usd = spec.get("latency"), spec["run"], spec["cost"]["usd_per_million_samples"]
    if latency:
        p99 = inf if latency["p99_ms"] is None else latency["p99_ms"]
        waits = Message(
            "median {p50:,g} ms a batch; p99 latency <= {p99:,g} ms (confidence {confidence:g}); no queueing",
            p50=ceil_ms(latency["p50_ms"] / 1000),
            p99=ceil_ms(p99 / 1000),
            confidence=confidence,
        )
        facts.append((Message("latency"), waits))
    if run:
        facts.append((Message("run"), _run(run, request, confidence)))
        facts += [(Message("run costs"), run_cost_message(run, confidence))] if run_usd(spec) else []
    elif spec["first_epoch_hours"]:
        hours = hours_message(spec["first_epoch_hours"], confidence)
        facts.append((Message("first epoch"), Message("{hours}, from the disk", hours=hours)))
    if price and usd is not None:
        disk = Message("local disk included")
        if spec["disk"]["price_kind"]:
            disk = Message("disk {usd:usd}/h", usd=price["disk_usd_per_hour"])
        costs = Message(
            "{usd:usd} per million samples at that rate (instance {instance:usd}/h, {disk})",
            usd=usd,
            instance=price["usd_per_hour"],
            disk=disk,
        )
        facts.append((Message("cost"), costs))
    if price.get("terms"):
        facts.append((Message("terms"), price["terms"]))
    return facts


def _runs_facts(spec: Record, request: Record) -> Iterator[Fact]:
    """Yield how a network runs: 'batch 64, amp, channels_last'."""
    if spec["batch_size"] and request["task"] != Task.PREPROCESSING:
        layout = [spec["memory_format"]] if spec["memory_format"] not in (None, "contiguous") else []
        batch = Message("batch {size}", size=spec["batch_size"])
        yield Message("runs"), Message("{parts}", parts=[batch, spec["precision"], *layout])


def _rate_facts(spec: Record) -> Iterator[Fact]:
    predicted, count = spec["predicted"], spec.get("count", 1)
    confidence, unit = predicted["confidence"], predicted["unit"]
    yield Message("throughput"), throughput_message(predicted["throughput"], unit, confidence)
    if predicted["gpus_used"] > 1:
        share = Message(
            "{count}, each at {percent:.0f} % of the rate of one alone (modelled from published scaling)",
            count=predicted["gpus_used"],
            percent=100 * predicted["gpu_efficiency"],
        )
        yield Message("GPUs"), share
    if count > 1:
        rate = throughput_message(predicted["throughput_each"], unit, confidence)
        each = Message("{rate}, {usd:usd}/h", rate=rate, usd=spec["price"]["usd_per_hour_each"])
        yield Message("each of {count}", count=count), each
    if nodes := predicted.get("nodes"):
        share = Message(
            "{count}, each at {percent:.0f} % of the rate of one alone, over {network} (modelled)",
            count=nodes["count"],
            percent=100 * nodes["efficiency"],
            network=Message("{gbit:g} Gbit/s", gbit=nodes["gbit_per_second"]),
        )
        yield Message("nodes"), share


def machine_message(spec: Record, *, decodes: bool) -> Message:
    """'1 x L40S 45 GiB, 4 vCPUs (2 cores), 32 GiB RAM', of several 'each 1 x ..'; `decodes`: also say if the
    CPU speed is unknown."""
    gpu, cores = spec["gpu"], [counted_message("core", spec["physical_cores"])]
    cores += [Message("arm64")] if spec["cpu_architecture"] == "arm64" else []
    cores += [Message("speed unknown")] if decodes and not spec["cpu_speed_known"] else []
    parts: list[Message | str] = [
        Message("{vcpus} ({cores})", vcpus=counted_message("vCPU", spec["vcpus"]), cores=cores),
        Message("{ram:mib} RAM", ram=spec["memory_mib"]),
    ]
    if gpu:
        memory = f"{gib_text(gpu['memory_mib'] / 1024)} GiB" if gpu["memory_mib"] else "? memory"
        parts = [f"{gpu['count']} x {gpu_text(gpu['name'])} {memory}", *parts]
    machine = Message("{parts}", parts=parts)
    return machine if spec.get("count", 1) == 1 else Message("each {machine}", machine=machine)


def _run(run: Record, request: Record, confidence: float) -> Message:
    """Return the length and time of a run: '90 epochs: median 30 h, p90 42.1 h'."""
    epochs, first = run["samples"] / request["dataset"]["samples"], run["first_epoch_hours"]
    length = counted_message("sample", run["samples"])
    if request.get("epochs") is not None:
        length = counted_message("epoch", request["epochs"])
    text = Message("{length}: {hours}", length=length, hours=hours_message(run["hours"], confidence))
    # The first epoch reads from the disk, which makes it slower than later ones.
    if first is None or epochs <= 1:
        return text
    later = (run["hours"]["median"] - first["median"]) / (epochs - 1)
    if first["median"] < _SLOWER * later:
        return text
    return Message("{run} (first epoch, from the disk: {hours:hours})", run=text, hours=first["median"])


def run_cost_message(run: Record, confidence: float) -> Message:
    """'median $10.13, p90 $14.70; by its price $4.739 to $55.29'."""
    text, ends = _bounded(run["usd"], short_usd, short_usd, confidence), run.get("usd_by_price")
    if not ends or ends["high"] <= SURE * ends["low"]:
        return text
    return Message(
        "{usd}; by its price {low} to {high}", usd=text, **{end: short_usd(usd) for end, usd in ends.items()}
    )


def hours_message(span: Record, confidence: float) -> Message:
    """Return the median and upper bound of a time: 'median 30 h, p90 42.1 h'."""
    return _bounded(span, format_span, partial(format_span, up=True), confidence)


def _bounded(
    span: Record, write: Callable[[float], str], write_upper: Callable[[float], str], confidence: float
) -> Message:
    return Message(
        "median {median}, {p90} {upper}",
        median=write(span["median"]),
        p90=upper_name(confidence),
        upper=Message("unknown") if span["upper"] is None else write_upper(span["upper"]),
    )


def serving_facts(spec: Record, request: Record) -> list[Fact]:
    """Return a spec's placement, rates, times, memory, cost and time until ready."""
    serving, confidence = spec["serving"], spec["predicted"]["confidence"]
    rates, memory, ready = serving["rates"], serving["memory_per_gpu"], serving["ready_seconds"]
    placement, drafts = placement_message(serving["placement"]), speculation_message(request)
    if spec.get("count", 1) > 1:
        placement = Message("{placement} of each instance", placement=placement)
    runs = Message(
        "{engine} {version}, weights {precision}, KV cache {kv_precision}, {placement}",
        engine=ENGINES.get(serving["engine"], serving["engine"]),
        version=serving["engine_version"] or Message("of an unknown version"),
        precision=serving["precision"],
        kv_precision=serving["kv_precision"],
        placement=placement,
    )
    holds = Message(
        "each: {weights} GiB weights, {kv} GiB KV cache, {overhead} GiB engine, {free} GiB free; a "
        "replica holds {requests:,} such requests, or one of {tokens:,} tokens",
        **{part: gib_text(memory[f"{part}_gib"]) for part in ("weights", "kv", "overhead", "free")},
        requests=memory["largest_concurrency"],
        tokens=memory["longest_context"],
    )
    starts = Message(
        "{total} (up to {upper}) from the engine's start: {load} to read the weights from {disk}, "
        "{start} its own",
        total=seconds_text(ready["total"]),
        upper=seconds_text(ready["upper"]),
        load=seconds_text(ready["load_weights"]),
        disk=short_order(spec["disk"]),
        start=seconds_text(ready["start_engine"]),
    )
    loaded = [
        (
            Message("throughput"),
            interval_message(rates["output_tokens_per_second"], "output tokens/s", confidence),
        ),
        (Message("requests"), _requests(rates, serving["most"], confidence)),
        *_time_facts(serving, request, confidence),
    ]
    if served := served_words(rates, request):
        at = Message("{figures}; at {served} of {users} users")
        loaded = [(title, Message(at.text, figures=text, **served)) for title, text in loaded]
        loaded.append((Message("wait"), Message("{seconds} more until the others' first token", **served)))
    return [
        (Message("has"), machine_message(spec, decodes=False)),
        (Message("runs"), Message("{runs}; {drafts}", runs=runs, drafts=drafts) if drafts else runs),
        *loaded,
        (Message("GPU memory"), holds),
        *_cost_facts(spec, confidence),
        (Message("ready"), starts),
    ]


def _time_facts(serving: Record, request: Record, confidence: float) -> Iterator[Fact]:
    """Yield the rate per user, then each time of a request: its mean, its limit, and its p99 and limited
    percentile, which earlier versions lack. One output token has no TPOT."""
    rates, several = serving["rates"], serving["output_tokens"] > 1
    if several:
        user = rates["output_tokens_per_second_per_user"]
        rate = Message(
            "{p10} {lower}, median {median:rate} tokens/s",
            p10=lower_name(confidence),
            lower=lower_rate(user["lower"]),
            median=user["median"],
        )
        yield Message("a user"), rate
    titles = Message("TTFT"), Message("TPOT"), Message("end to end")
    for title, (name, _, field) in zip(titles, TIMES, strict=True):
        which, _, most = str(request.get(field) or "").rpartition(":")
        limit = float(most) / (1 if name == "e2e" else 1000) if most else None
        parts = [time_message(rates[f"{name}_seconds"], confidence, "", None if which else limit)]
        tails = serving.get("percentiles", {}).get(f"{name}_seconds", {})
        for each in sorted({"p99", which} & tails.keys()):
            tail = Message("{which} {time}", which=each, time=seconds_text(tails[each]["median"]))
            is_limited = limit is not None and each == which
            parts.append(time_message(tails[each], confidence, each, limit) if is_limited else tail)
        if several or name != "tpot":
            yield title, Message("{parts}", parts=parts)


def served_words(rates: Record, request: Record) -> dict[str, str]:
    """'16' of '1,000' users, where not all are served, and the wait of the others (Little's law)."""
    users, rate = request.get("users") or 0, rates["requests_per_second"]["median"]
    served = rates["concurrency"] + (request.get("think_seconds") or 0.0) * rate
    if users - served < 1:
        return {}
    wait = seconds_text((users - served) / rate)
    return {"served": count_text(served), "users": f"{users:,}", "seconds": wait}


def _cost_facts(spec: Record, confidence: float) -> Iterator[Fact]:
    """Yield the cost of tokens and, if an API was named, from how many tokens per day it costs less."""
    cost = spec["cost"]
    if not cost:
        return
    output, api = cost["usd_per_million_output_tokens"], cost.get("api")
    costs = Message(
        "{median:usd} ({p90} {upper}) per million output tokens at that rate; the same dollars over input "
        "tokens {input:usd}, over both {both:usd}",
        median=output["median"],
        p90=upper_name(confidence),
        upper=Message("unknown") if output["upper"] is None else format_usd(output["upper"]),
        input=cost["usd_per_million_input_tokens"]["median"],
        both=cost["usd_per_million_tokens"]["median"],
    )
    yield Message("cost"), costs
    if not api:
        return
    yield Message("an API"), api_message(api, spec["price"]["total_usd_per_hour"])


def api_message(api: Record, usd_per_hour: float) -> Message:
    """Return what the same tokens cost from an API, and from how many tokens a day renting costs less."""
    asked, least = api["asked_tokens_per_day"], api["cheaper_from_tokens_per_day"]
    text = Message(
        "would cost {there} a day, this {here}, at {asked} tokens in and out; above {least} this wins"
    )
    if least > api["most_tokens_per_day"]:
        text = Message(
            "would cost {there} a day, this {here}, at {asked} tokens in and out, and wins at any load"
        )
    return Message(
        text.text,
        there=short_usd(api["usd_per_million_tokens"] * asked / 1e6),
        here=short_usd(24 * usd_per_hour),
        asked=format_count(asked),
        least=format_count(least),
    )


def time_message(span: Record, confidence: float, which: str = "", limit: float | None = None) -> Message:
    """'p99 343 ms (limit 500 ms; 90 % sure of at most 503 ms)': a percentile, or the mean, of a time with its
    bound and, if any, its limit in seconds. The bound of a mean is no percentile of requests."""
    text = Message("{time} ({percent:g} % sure of at most {most})")
    if limit is not None:
        text = Message("{time} (limit {limit}; {percent:g} % sure of at most {most})")
    return Message(
        text.text,
        time=Message("{which} {time}", which=which or Message("mean"), time=seconds_text(span["median"])),
        limit=None if limit is None else seconds_text(limit),
        percent=100 * confidence,
        most=seconds_text(inf if span["upper"] is None else span["upper"], up=True),
    )


def placement_message(placed: Record) -> Message:
    """'2 replicas, each on 4 GPUs (TP4, nvlink)', '1 replica over 2 instances, .. (TP8; PP2)'."""
    ranks = placed.get("data_parallel", 1)
    gpus, replicas = placed["tensor_parallel"] * ranks, placed["replicas"]
    if nodes := placed.get("pipeline_parallel"):
        return Message(
            "1 replica over {nodes} instances, {gpus} of each (TP{width}, {link}; PP{nodes})",
            **{"nodes": nodes, "gpus": counted_message("GPU", gpus), "width": gpus, "link": placed["link"]},
        )
    text = Message("1 replica on {gpus}")
    if replicas > 1:
        text = Message("{replicas} replicas, each on {gpus}")
    each = Message(text.text, replicas=replicas, gpus=counted_message("GPU", gpus))
    if gpus == 1:
        return each
    about = {"placement": each, "gpus": gpus, "link": placed["link"]}
    if ranks > 1:
        return Message("{placement} (DP{gpus} and EP{gpus}, {link})", **about)
    return Message("{placement} (TP{gpus}, {link})", **about)


def _requests(rates: Record, most: Record, confidence: float) -> Message:
    """Return requests per second, requests in flight, and the most that the limits allow."""
    requests, lower = rates["requests_per_second"], lower_name(confidence)
    text = Message(
        "{p10} {lower}, median {median:rate} a second with {flight} in flight",
        p10=lower,
        lower=lower_rate(requests["lower"]),
        median=requests["median"],
        flight=count_text(rates["concurrency"]),
    )
    if most["concurrency"] <= rates["concurrency"]:
        return text
    return Message(
        "{now}; at most {p10} {lower} with {flight}",
        now=text,
        p10=lower,
        lower=lower_rate(most["requests_per_second"]["lower"]),
        flight=count_text(most["concurrency"]),
    )


def tuning_messages(tuning: Record) -> list[Message]:
    """'bf16', 'micro-batch 2', 'activations kept': how fine-tuning runs."""
    kept = Message("activations kept")
    if tuning["checkpointing"]:
        kept = Message("activations recomputed (checkpointing)")
    computes = [Message(tuning["precision"])] if "precision" in tuning else []  # earlier versions lack it
    return [*computes, Message("micro-batch {size}", size=tuning["micro_batch"]), kept]


def tuning_facts(spec: Record) -> list[Fact]:
    """Return a spec's placement, rate and memory, and the time and cost of the run."""
    tuning, run, predicted = spec["tuning"], spec["run"], spec["predicted"]
    memory, confidence = tuning["memory_per_gpu"], predicted["confidence"]
    over = [Message("over {link}", link=tuning["link"])] if tuning["link"] != "none" else []
    runs = [counted_message("GPU", predicted["gpus_used"]), *over, *tuning_messages(tuning)]
    takes = Message(
        "each: {weights} GiB weights, {gradients} GiB gradients, {optimizer} GiB optimizer, "
        "{activations} GiB activations, {overhead} GiB overhead, {free} GiB free",
        **{part: gib_text(memory[f"{part}_gib"]) for part in _TUNED},
    )
    hours = hours_message(run["hours"], confidence)
    if run_usd(spec):
        hours = Message("{hours}; costs {usd}", hours=hours, usd=run_cost_message(run, confidence))
    return [
        (Message("has"), machine_message(spec, decodes=False)),
        (Message("runs"), Message("{parts}", parts=runs)),
        (Message("throughput"), interval_message(predicted["throughput"], "tokens/s", confidence)),
        (Message("GPU memory"), takes),
        (Message("run"), hours),
    ]
