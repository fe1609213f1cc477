"""The dependence of an answer on prices that are not listed, and the command that asks for today's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from advisor.catalog.live import PRICE_PAGES, is_live, refresh_command
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Offer, Spec
from advisor.domain.decision import AnyCandidate
from advisor.domain.money import is_listed
from advisor.messages import Message
from advisor.naming import covers_clouds
from advisor.render.facts import place_name, spec_name
from advisor.render.records import by_price, fields, spec_fields
from advisor.render.text import AnyAnswer

# How the price of an instance that is not listed, or old, is known; and that of a disk, alone and
# after the instance's.
_KINDS = {
    ESTIMATED: (Message("Estimated price"), Message("Estimated disk price"), Message("estimated disk")),
    OBSERVED: (Message("Observed price"), Message("Observed disk price"), Message("observed disk")),
    LIST: (
        Message("List price of {day}, which may have moved"),
        Message("List price of a disk, which may have moved"),
        Message("list price of the disk, which may have moved"),
    ),
}
# That no listed price answers, of a spot instance (True) and of others.
_NO_LIST = {
    True: Message("{lies}; spot has no list price."),
    False: Message("{lies}; no offer with a list price meets this."),
}
PER = {
    "hour": Message("/h"),
    "run": Message(" for the run"),
    "million_output_tokens": Message(" per million output tokens"),
    "million_samples": Message(" per million samples"),
}
Record = Mapping[str, Any]


def price_sentences(call: Record, *, clouds: bool) -> list[Message]:
    """The sentences of a `price_call` block, from its numbers and codes: of an answer given now, and of a
    saved one in another language. `clouds`: the question covers more than one cloud."""
    sentences = _resting_sentence(call, clouds=clouds), _cheaper_sentence(call, clouds=clouds)
    return [sentence for sentence in sentences if sentence]


def _resting_sentence(call: Record, *, clouds: bool) -> Message | None:
    """The source of an unlisted chosen price beside the cheapest listed one; None if listed."""
    chosen, listed, per = call["chosen"], call["listed"], PER[call["per"]]
    kinds = _kinds(chosen)
    if not kinds:
        return None
    cost = chosen["cost"]
    lies = Message(
        "{kind} ({low:usd} to {high:usd}{per})", kind=kinds, low=cost["low"], high=cost["high"], per=per
    )
    if chosen["low_usd_per_hour"] == chosen["high_usd_per_hour"]:
        lies = Message("{kind}", kind=kinds)
    is_published = chosen["kind"] == LIST
    if listed is None or listed == chosen:
        none = Message("{lies}.", lies=lies)
        return none if is_published else Message(_NO_LIST[chosen["market"] == Market.SPOT].text, lies=lies)
    named = Message(
        "{name} at {usd:usd}{per}", name=_named(listed, clouds), usd=listed["cost"]["median"], per=per
    )
    if listed["market"] != chosen["market"]:
        named = Message("{spec} ({market})", spec=named, market=Message(listed["market"]))
    if is_published:
        return Message("{lies}; the cheapest at a surer list price is {named}.", lies=lies, named=named)
    if "as_of" in listed:  # no older document has its day
        dated = Message("{lies}; the cheapest {market} offer at a list price, of {day}, is {named}.").text
        return Message(dated, lies=lies, day=listed["as_of"], named=named, market=Message(listed["market"]))
    return Message("{lies}; the cheapest at a list price is {named}.", lies=lies, named=named)


def _cheaper_sentence(call: Record, *, clouds: bool) -> Message | None:
    """The spec that may be cheaper than the chosen one, and is borderline on price; None where none is."""
    cheaper, chosen = call["cheaper"], call["chosen"]
    if cheaper is None:
        return None
    cost = cheaper["cost"]
    return Message(
        "{name} ({market}, {region}) may be cheaper than {listed} at {usd:usd}{per}. {kind}: {low:usd} to "
        "{high:usd}{per}, median {median:usd}.",
        name=spec_name(cheaper),
        market=Message(cheaper["market"]),
        region=place_name(cheaper, clouds=clouds),
        listed=_named(chosen, clouds),
        usd=chosen["cost"]["median"],
        per=PER[call["per"]],
        kind=_kinds(cheaper),
        median=cost["median"],
        low=cost["low"],
        high=cost["high"],
    )


def _kinds(spec: Record) -> list[Message]:
    """The kinds of the prices in a total that are not listed, or old; the instance's first."""
    price, disk = spec["unlisted"]["instance"], spec["unlisted"]["disk"]
    kinds = [Message(_KINDS[price][0].text, day=spec.get("as_of", ""))] if price else []
    return [*kinds, _KINDS[disk][2 if kinds else 1]] if disk else kinds


def _named(spec: Record, clouds: bool) -> Message | str:
    """'g2-standard-4', or 'g2-standard-4 of gcp'."""
    name = spec_name(spec)
    return Message("{name} of {cloud}", name=name, cloud=spec["cloud"]) if clouds else name


def price_doubt_block(answer: AnyAnswer) -> dict[str, Any] | None:
    """The document's `price_call`, with the command or the page that tells today's price of the offer that
    would settle it; null where listed prices alone decide."""
    call = answer.price_call
    if call is None:
        return None
    specs = {"chosen": answer.chosen, "listed": call.listed, "cheaper": call.cheaper}
    # The numbers and codes that the sentences are made of.
    facts: dict[str, Any] = {
        "per": ranked_cost(answer.chosen, answer)[1],
        **{name: candidate and _priced_block(candidate, answer) for name, candidate in specs.items()},
    }
    doubted: AnyCandidate = call.cheaper or answer.chosen
    offer: Offer = doubted.spec.offer
    command = None
    if is_live(offer.instance.cloud, offer.market):
        words = shlex.join(["--instance", offer.instance.name, "--market", str(offer.market)])
        command = f"{refresh_command(offer.instance.cloud, offer.region)} {words}"
    return {
        "borderline": facts["cheaper"] is not None,
        "sentences": price_sentences(facts, clouds=covers_clouds(answer.request)),
        **facts,
        "todays_price": {"command": command, "page": PRICE_PAGES.get(offer.instance.cloud)},
    }


def _priced_block(candidate: AnyCandidate, answer: AnyAnswer) -> dict[str, Any]:
    spec: Spec = candidate.spec
    cost, _ = ranked_cost(candidate, answer)
    return {
        **spec_fields(spec, "instance_type cloud region market count disk"),
        "kind": spec.offer.price.kind,
        "as_of": spec.offer.price.as_of.isoformat(),
        **fields(spec, "total_usd_per_hour low_usd_per_hour high_usd_per_hour"),
        "cost": {"median": cost, **by_price(spec, cost)},
        # The kind of a price that is not listed, or is old (`list`).
        "unlisted": {
            name: None if price is None or is_listed(price, answer.today) else price.kind
            for name, price in (("instance", spec.offer.price), ("disk", spec.disk.price))
        },
    }


def ranked_cost(candidate: AnyCandidate, answer: AnyAnswer) -> tuple[float, str]:
    """What a candidate ranks by at the median, in dollars, and of what that is."""
    if answer.request.ranks_by_price:
        return candidate.spec.total_usd_per_hour, "hour"
    # Each task's candidate has its own; none is imported for answers about the others.
    run = getattr(candidate, "usd_per_run", None)
    if run is not None:
        return run.median, "run"
    tokens = getattr(candidate, "usd_per_million_output_tokens", None)
    if tokens is not None:
        return tokens.median, "million_output_tokens"
    return candidate.usd_per_million_samples, "million_samples"
