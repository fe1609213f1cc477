"""What an answer about serving takes for granted, and what weakens it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from advisor.catalog.support import UNLIMITED_NOTE
from advisor.domain.language import MOST_SEQUENCES, GenerationCandidate, GenerationRequest
from advisor.engine.assumed_facts import assumed_facts
from advisor.engine.assumptions import price_warnings
from advisor.engine.language.ready import USUAL_READY_SECONDS
from advisor.engine.language.ways import SIXTEEN_BIT, Way, note_of_link
from advisor.messages import Message

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel

# Words a minute that people read (200 to 300) times 1.3 tokens a word: below it a reader waits.
_READING_TOKENS_PER_SECOND = 5.0


def serving_assumptions(
    request: GenerationRequest, model: LanguageModel, version: str, chosen: GenerationCandidate | None
) -> tuple[Message, ...]:
    """Everything the answer takes for granted, one short clause each."""
    spec = chosen.spec if chosen else None
    return (
        *(assumed_facts(request, spec.offer.instance, spec.disk) if spec else ()),
        *_of_engine(request, version),
        *_of_requests(request),
        *_of_formats(request, model, chosen),
        *_of_instances(request, chosen),
    )


def _of_engine(request: GenerationRequest, version: str) -> Iterator[Message]:
    engine = request.engine.product
    if version:
        yield Message("{engine} {version}, CUDA graphs on", engine=engine, version=version)
    else:
        yield Message("{engine}, whose version the measured rows do not name", engine=engine)


def _of_requests(request: GenerationRequest) -> Iterator[Message]:
    yield Message(
        "requests of {input:,.0f} tokens in and {output:,.0f} out on average",
        input=request.input_tokens,
        output=request.output_tokens,
    )
    yield Message("time per output token (TPOT) counts without the first token")
    yield _arrivals(request)
    if request.prefix_share:
        yield Message(
            "{percent:g} % of the input is found in the prefix cache", percent=100 * request.prefix_share
        )
    else:
        yield Message("no prefix caching")
    yield Message("no speculative decoding")


def _of_formats(
    request: GenerationRequest, model: LanguageModel, chosen: GenerationCandidate | None
) -> Iterator[Message]:
    if request.precision is None and chosen is not None:
        yield _format(model, chosen)
    if request.precision not in (None, model.own_precision, *SIXTEEN_BIT):
        yield Message("a checkpoint whose weights are in {format} already", format=request.precision)
    if chosen is not None and request.kv_precision in (None, model.own_kv_precision):
        yield Message("a KV cache in {precision}", precision=chosen.kv_precision)


def _of_instances(request: GenerationRequest, chosen: GenerationCandidate | None) -> Iterator[Message]:
    yield Message("up to {most} sequences in a replica (--max-num-seqs)", most=MOST_SEQUENCES)
    if not request.targets:
        yield Message("ranked by cost per million output tokens at the median rate")
    yield Message(
        "weights read by several streams (vLLM's --load-format runai_streamer); one stream takes "
        "up to three times as long"
    )
    yield Message("weights are on the disk already: their download is not counted")
    if request.disk is None and request.max_ready_seconds is None:
        yield Message(
            "a disk for the weights plus 20 %, the cheapest with which it serves within {minutes:g} minutes",
            minutes=USUAL_READY_SECONDS / 60,
        )
    if chosen is not None and chosen.spec.count > 1:
        yield Message(
            "{count} instances share the requests evenly, each with the weights on its own disk",
            count=chosen.spec.count,
        )


def _arrivals(request: GenerationRequest) -> Message:
    if request.target_requests_per_second is not None:
        return Message("requests arrive by themselves (Poisson)")
    if request.users is not None:
        return Message("each user has one request in flight at all times")
    return Message("a fixed number of requests in flight (closed loop)")


def _format(model: LanguageModel, chosen: GenerationCandidate) -> Message:
    if chosen.precision == model.own_precision:
        return Message("weights in {precision}, as they are published", precision=chosen.precision)
    return Message(
        "weights in {precision}: they are published in {own}, which the GPU does not compute",
        precision=chosen.precision,
        own=model.own_precision,
    )


def serving_warnings(
    chosen: GenerationCandidate | None, way: Way | None, today: date
) -> tuple[Message | str, ...]:
    """What weakens the answer and can be checked."""
    if chosen is None or way is None:
        return ()
    offer, disk = chosen.spec.offer, chosen.spec.disk
    found = [*chosen.extrapolation, *price_warnings(offer.price, disk, today), *note_of_link(way)]
    found += [note for note in chosen.notes if note != UNLIMITED_NOTE]
    slowest = chosen.rates.output_tokens_per_second_per_user.lower
    if slowest < _READING_TOKENS_PER_SECOND:
        found.append(
            Message(
                "each user gets {rate:.2g} tokens/s at worst, fewer than people read: "
                "--max-tpot-ms limits it",
                rate=slowest,
            )
        )
    idle = offer.instance.gpu_count - chosen.placement.gpus_used
    if idle > 0:
        found.append(Message("{idle} of its {gpus} GPUs stay idle", idle=idle, gpus=offer.instance.gpu_count))
    return tuple(found)
