"""Texts of answers about serving: shortfalls, assumptions and warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date

from advisor.domain.language import GenerationCandidate, most_sequences
from advisor.domain.results import DECIDES
from advisor.domain.words import SIXTEEN_BIT, LlmEngine
from advisor.engine.assumptions import assumed_facts, ranking_assumptions
from advisor.engine.rejected import plain_shortfall
from advisor.engine.tasks.language import language_warnings
from advisor.engine.tasks.serving.options import USUAL_READY_SECONDS
from advisor.engine.tasks.serving.table import ServingTable, deciding_level
from advisor.messages import FieldName, Message, ceil_significant, floor_rate
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.language_model import LanguageModel
from advisor.questions.language import ServingQuestion
from advisor.questions.traffic import USUAL_TRAFFIC, traffic_named

# The reading rate of people, 200 to 300 words per minute at 1.3 tokens per word: below it a reader waits.
_READING_TOKENS_PER_SECOND = 5.0


def shortfall(request: ServingQuestion, table: ServingTable, row: int, reason: str) -> Message:
    """The limit that a row misses, as text with the deciding number."""
    if reason in _TIMES:
        return _time_shortfall(request, table, row, reason)
    near = {limit.reason: float(limit.nearness[row]) for limit in table.limits}.get(reason, 0.0)
    if reason in _RATES:
        *messages, target = _RATES[reason]
        return Message(
            messages[deciding_level(request)].text,
            code=reason,
            p=100 * (1 - request.confidence),
            rate=floor_rate(near),
            target=getattr(request, target),
        )
    if reason == "users":
        most, slots = table.options[row].memory.largest_concurrency, most_sequences(request.engine)
        message = _TOO_FEW_IN_ENGINE if most >= slots else _TOO_FEW_IN_CACHE
        in_time = [limit.factor is not None and limit.factor[row] <= 1 for limit in table.limits[1:]]
        if table.most.concurrency[row] < most and all(in_time):
            message = _TOO_FEW_IN_TIME
        return Message(
            message.text,
            code=reason,
            held=int(near),
            users=request.users,
            most=slots,
            option="--parallel" if request.engine is LlmEngine.LLAMA_CPP else "--max-num-seqs",
            limits=[
                Message("{option} {level}", option=FieldName(limit.field), level=limit.text(limit.most))
                for limit in request.time_limits
            ],
        )
    return plain_shortfall(reason, request.max_usd_per_hour, float(table.usd[row]))


def _time_shortfall(request: ServingQuestion, table: ServingTable, row: int, reason: str) -> Message:
    limit = next(limit for limit in request.time_limits if limit.reason == reason)
    upper, median, _ = table.rates.limited(limit, request.output_tokens)[:, row]
    time, near = _TIMES[reason], float(f"{median:.3g}")
    if limit.percentile is not None:
        time = Message(_PERCENTILE.text, percentile=limit.percentile, time=time)
    return Message(
        _TOO_LONG[deciding_level(request)].text,
        code=reason,
        upper=ceil_significant(float(upper)),
        # A median just above its limit does not read as the limit.
        median=ceil_significant(float(median)) if near <= limit.most < median else near,
        limit=limit.most,
        concurrency=float(table.rates.concurrency[row]),
        time=time,
        unit="ms" if limit.unit > 1 else "s",
    )


# The message where a bound decides, where the median does, and the target's field in a request.
_RATES = {
    "too_slow": (
        Message("p{p:.3g} is {rate:,g} output tokens/s, below {target:target}"),
        Message("its median is {rate:,g} output tokens/s, below {target:target}"),
        "target_output_tokens_per_second",
    ),
    "load": (
        Message("p{p:.3g} is {rate:,g} requests/s, below {target:target}"),
        Message("its median is {rate:,g} requests/s, below {target:target}"),
        "target_requests_per_second",
    ),
}
_TOO_FEW_IN_TIME = Message("serves {held:,} of {users:,} users within {limits}")
_TOO_FEW_IN_CACHE = Message("the KV cache holds {held:,} requests at once, not those of {users:,} users")
_TOO_FEW_IN_ENGINE = Message(
    "its replicas take in {held:,} requests at once ({option} {most}), not those of {users:,} users"
)
# The message where a bound decides, and where the median does.
_TOO_LONG = (
    Message(
        "{time} is up to {upper:,g} {unit}, above {limit:,g} {unit} (median {median:,g} {unit}, "
        "{concurrency:,.3g} in flight in a replica)"
    ),
    Message(
        "{time} is {median:,g} {unit} (median), above {limit:,g} {unit} ({concurrency:,.3g} in flight in a "
        "replica)"
    ),
)
_TIMES = {
    "ttft": Message("time to first token"),
    "tpot": Message("time per output token"),
    "e2e": Message("the time of a request"),
}
_PERCENTILE = Message("p{percentile} of {time}")


def serving_assumptions(
    request: ServingQuestion, model: LanguageModel, version: str, chosen: GenerationCandidate | None
) -> tuple[Message, ...]:
    """The assumptions of an answer, one short clause each."""
    spec = chosen.spec if chosen else None
    return (
        *(assumed_facts(request, spec.offer.instance, spec.disk) if spec else ()),
        *_request_assumptions(request, model, version),
        *_instance_assumptions(request, model, chosen),
    )


def _request_assumptions(request: ServingQuestion, model: LanguageModel, version: str) -> Iterator[Message]:
    engine = request.engine.product
    if version:
        yield Message("{engine} {version}, CUDA graphs on", engine=engine, version=version)
    else:
        yield Message("{engine}, whose version the measured rows do not name", engine=engine)
    yield from _picture_assumptions(request, model)
    yield Message("time per output token (TPOT) counts without the first token")
    yield from _load_assumptions(request)
    usual = traffic_named(USUAL_TRAFFIC)
    lengths = request.input_tokens, request.output_tokens
    is_usual = lengths == (usual.input_tokens.mean, usual.output_tokens.mean)
    text = Message("requests of {input:,.0f} tokens in and {output:,.0f} out on average")
    if is_usual:
        text = Message("chats: {input:,.0f} tokens in, {output:,.0f} out ({asked})")
    yield Message(
        text.text,
        code=DECIDES if is_usual else "",
        input=request.prompt_tokens,
        output=request.output_tokens,
        asked=FieldName("input_tokens"),
    )
    if request.prefix_share:
        yield Message(
            "{percent:g} % of the input is found in the prefix cache", percent=100 * request.prefix_share
        )
    else:
        yield Message("no prefix caching")
    if request.draft_acceptance is None:
        yield Message("no speculative decoding")
    else:
        share, tokens = request.draft_acceptance.split(",")
        yield Message(
            "speculative decoding: {tokens} tokens a step drafted by {drafter}, {percent:g} % of them "
            "accepted",
            tokens=tokens,
            drafter=request.draft_model or Message("n-grams of the prompt"),
            percent=100 * float(share),
        )


def _load_assumptions(request: ServingQuestion) -> Iterator[Message]:
    if request.target_requests_per_second is not None:
        yield Message("requests arrive by themselves (Poisson)")
    elif request.users is not None:
        if request.think_seconds:
            yield Message(
                "each user waits about {seconds:g} s after an answer before the next request: they come at "
                "random times",
                seconds=request.think_seconds,
            )
        else:
            yield Message("users never pause ({option})", code=DECIDES, option=FieldName("think_seconds"))
    else:
        if not request.targets:
            text = Message("no target given: at full load, where tokens cost least ({option} sizes it)")
            yield Message(text.text, code=DECIDES, option=FieldName("users"))
        yield Message("a fixed number of requests in flight (closed loop)")


def _picture_assumptions(request: ServingQuestion, model: LanguageModel) -> Iterator[Message]:
    if request.images_per_request is not None:
        yield Message(
            "{tokens:,.0f} tokens of a prompt are {count:g} pictures of {size} pixels, by the model's "
            "published processor; reading them takes as long as {further:,.0f} tokens more",
            tokens=request.picture_tokens,
            count=request.images_per_request,
            size=request.image_size,
            further=request.tower_tokens,
        )
    elif model.pictures is not None:
        yield Message("no pictures ({option})", code=DECIDES, option=FieldName("images_per_request"))


def _split_assumptions(chosen: GenerationCandidate) -> Iterator[Message]:
    placement, count = chosen.placement, chosen.spec.count
    if placement.ranks > 1:
        yield Message(
            "{ranks} GPUs share the experts, and each attends to its own requests (attention data parallel)",
            ranks=placement.ranks,
        )
    if placement.nodes > 1:
        yield Message(
            "each {nodes} of {count} instances hold one copy together, some layers each (pipeline parallel "
            "over Ray), because none holds it alone",
            count=count,
            nodes=placement.nodes,
        )
    elif count > 1:
        yield Message(
            "{count} instances share the requests evenly, each with the weights on its own disk", count=count
        )


def _weight_assumptions(
    request: ServingQuestion, model: LanguageModel, chosen: GenerationCandidate | None
) -> Iterator[Message]:
    if request.precision is None and chosen is not None:
        text = Message("weights in {precision}, as they are published")
        if chosen.precision != model.own_precision:
            text = Message(
                "weights in {precision}: they are published in {own}, which the GPU does not compute"
            )
        yield Message(text.text, precision=chosen.precision, own=model.own_precision)
    if request.precision not in (None, model.own_precision, *SIXTEEN_BIT):
        weights = bundled_language_models().weights_in(model.name, request.precision)
        text = Message("a checkpoint whose weights are in {format} already")
        if weights.known:
            text = Message("weights in {format} already, as {name} has them")
        elif weights.made and request.engine in (LlmEngine.VLLM, LlmEngine.SGLANG):
            text = Message(
                "weights in {format}: no such checkpoint is known here, so made of 16 bits on load"
            )
        yield Message(text.text, format=request.precision, name=weights.checkpoint)


def _instance_assumptions(
    request: ServingQuestion, model: LanguageModel, chosen: GenerationCandidate | None
) -> Iterator[Message]:
    yield from _weight_assumptions(request, model, chosen)
    if chosen is not None and request.kv_precision in (None, model.own_kv_precision):
        yield Message("a KV cache in {precision}", precision=chosen.kv_precision)
    if request.engine is LlmEngine.LLAMA_CPP:
        if chosen is not None:
            slots = math.ceil(chosen.rates.concurrency / (chosen.spec.count * chosen.placement.replicas))
            yield Message(
                "llama-server --parallel {slots} --ctx-size {context} on each GPU",
                slots=slots,
                context=slots * request.longest_tokens,
            )
        yield Message("weights read as by several streams; one takes up to three times as long")
    else:
        most = most_sequences(request.engine)
        yield Message("up to {most} sequences in a replica (--max-num-seqs)", most=most)
        yield Message(
            "weights read by several streams (vLLM's --load-format runai_streamer); one stream takes "
            "up to three times as long"
        )
    yield from ranking_assumptions(request, chosen, Message("cost per million output tokens"))
    yield Message("weights are on the disk already: their download is not counted")
    if request.disk is None and request.max_ready_seconds is None:
        yield Message(
            "a disk for the weights plus 20 %, the cheapest with which it serves within {minutes:g} minutes",
            minutes=USUAL_READY_SECONDS / 60,
        )
    if chosen is not None:
        yield from _split_assumptions(chosen)


def serving_warnings(chosen: GenerationCandidate, today: date) -> tuple[Message | str, ...]:
    """The warnings of an answer: weaknesses that a reader can check."""
    user, slow = chosen.rates.output_tokens_per_second_per_user, list[Message]()
    if user.lower < _READING_TOKENS_PER_SECOND:
        slow.append(
            Message(
                "in the worst case (p10) a user gets {rate:.2g} tokens/s, median {median:.2g}; people read "
                "faster: --max-tpot-ms limits it",
                rate=user.lower,
                median=user.median,
            )
        )
    placement = chosen.placement
    return language_warnings(
        chosen, today, joined_gpus=placement.width, used_gpus=placement.gpus_used, further=slow
    )
