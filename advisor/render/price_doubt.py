"""Says how an answer depends on unlisted prices, and which command fetches today's prices."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from advisor.catalog.overlay import is_live, refresh_command
from advisor.domain import ESTIMATED, LIST, OBSERVED, Offer, Spec
from advisor.domain.decision import AnyCandidate
from advisor.domain.money import is_listed
from advisor.messages import Message, short_usd
from advisor.naming import covers_clouds as asks_clouds
from advisor.render.blocks import translated
from advisor.render.facts import covers_clouds, place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.records import by_price, fields, spec_fields
from advisor.render.text import SURE, AnyAnswer

# How an unlisted or old price is known: words for an instance's price, and for a disk's.
_KINDS = {
    ESTIMATED: (Message("estimated"), Message("disk estimated")),
    OBSERVED: (Message("seen {day}"), Message("disk price seen once")),
    LIST: (Message("listed {day}"), Message("disk listed long ago")),
}
_TODAY = Message("{kinds}; today's may be {range}")
PER = {
    "hour": Message("/h"),
    "run": Message(" for the run"),
    "million_output_tokens": Message(" per million output tokens"),
    "million_samples": Message(" per million samples"),
}
Record = Mapping[str, Any]


def doubt_sentences(document: Record, t: Texts) -> list[str]:
    """Return the doubt about the price of a document's spec: with the cheapest spec at a firmer price, then
    without. The list is empty if the price is not in doubt."""
    call = document.get("price_call")
    if not call or "per" not in call or not (doubt := _doubt(call, clouds=covers_clouds(document))):
        return []
    asks = t("brief.asks") if call["todays_price"]["command"] and not document.get("live") else ""
    alone = _doubt({**call, "listed": None}, clouds=False) or doubt
    return [translated(sentence, t) + asks for sentence in (doubt, alone)]


def price_sentences(call: Record, *, clouds: bool) -> list[Message]:
    """Return the sentences of a `price_call` block, built from its numbers and codes, so that saved answers
    can be translated. `clouds`: the question covers more than one cloud."""
    sentences = _doubt(call, clouds=clouds), _cheaper(call, clouds=clouds)
    return [sentence for sentence in sentences if sentence]


def _doubt(call: Record, *, clouds: bool) -> Message | None:
    """Return how the chosen spec's unlisted price is known, its range, and the cheapest spec at a firmer
    price. None if the price is sure."""
    chosen, listed = call["chosen"], call["listed"]
    kinds = _kinds(chosen)
    if not kinds or chosen["high_usd_per_hour"] <= SURE * chosen["low_usd_per_hour"]:
        return None
    doubt = Message(_TODAY.text, kinds=kinds, range=_range(chosen, call))
    if listed is None or listed == chosen:
        return doubt
    market = [] if listed["market"] == chosen["market"] else [Message(listed["market"])]
    named = Message("{parts}", parts=[type_name(listed, clouds=clouds), *market])
    usd = Message("{usd:usd}/h", usd=listed["total_usd_per_hour"])
    if call["per"] == "run":
        usd = Message("{usd} for the run", usd=short_usd(listed["cost"]["median"]))
    return Message("{doubt}; firmer: {named}, {usd}", doubt=doubt, named=named, usd=usd)


def _cheaper(call: Record, *, clouds: bool) -> Message | None:
    """Return the spec that may be cheaper than the chosen one but whose price is too unsure, or None."""
    cheaper = call["cheaper"]
    if cheaper is None:
        return None
    is_here = cheaper["region"] == call["chosen"]["region"] and not clouds
    place = [] if is_here else [place_name(cheaper, clouds=clouds)]
    return Message(
        "{name} ({place}), {range}: too unsure to choose ({kinds})",
        name=spec_name(cheaper),
        place=[Message(cheaper["market"]), *place],
        kinds=_kinds(cheaper),
        range=_range(cheaper, call),
    )


def _range(spec: Record, call: Record) -> Message:
    """'$0.0491 to $0.573/h', or the range of a run's cost."""
    if call["per"] == "run":
        low, high = (short_usd(spec["cost"][end]) for end in ("low", "high"))
        return Message("{low} to {high} for the run", low=low, high=high)
    return _hourly(spec)


def _hourly(price: Record) -> Message:
    low, high = price["low_usd_per_hour"], price["high_usd_per_hour"]
    return Message("{low:usd} to {high:usd}/h", low=low, high=high)


def range_message(price: Record) -> Message:
    """'seen 2024-09-28; today's may be $0.0491 to $0.574/h', for an instance whose price is unsure."""
    seen = Message(_KINDS[price["kind"]][0].text, day=price["as_of"])
    return Message(_TODAY.text, kinds=[seen], range=_hourly(price))


def doubt_message(price: Record) -> Message | None:
    """'listed 2026-05-24, may be $4.380', for a spec whose price is old or unlisted; None if it is sure."""
    usd, most = price["total_usd_per_hour"], price.get("total_high_usd_per_hour", 0.0)
    if most <= SURE * usd:
        return None
    kind = Message(_KINDS[price["kind"]][0].text, day=price["as_of"])
    return Message("{kind}, may be {most:usd}", kind=kind, most=most)


def _kinds(spec: Record) -> list[Message]:
    price, disk = spec["unlisted"]["instance"], spec["unlisted"]["disk"]
    kinds = [Message(_KINDS[price][0].text, day=spec.get("as_of", ""))] if price else []
    return [*kinds, _KINDS[disk][1]] if disk else kinds


def price_doubt_block(answer: AnyAnswer) -> dict[str, Any] | None:
    """Return the document's `price_call`, with the command or web page for today's price of the offer in
    doubt. None if only listed prices decide."""
    call = answer.price_call
    if call is None:
        return None
    specs = {"chosen": answer.chosen, "listed": call.listed, "cheaper": call.cheaper}
    # The numbers and codes that the sentences are built from.
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
        "sentences": price_sentences(facts, clouds=asks_clouds(answer.request)),
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
        # The kind of a price that is unlisted or old (`list`).
        "unlisted": {
            name: None if price is None or is_listed(price, answer.today) else price.kind
            for name, price in (("instance", spec.offer.price), ("disk", spec.disk.price))
        },
    }


def ranked_cost(candidate: AnyCandidate, answer: AnyAnswer) -> tuple[float, str]:
    """Return the median cost in dollars that a candidate is ranked by, and its unit ('hour', 'run', ..)."""
    if answer.request.ranks_by_price or answer.request.owes_term:
        return candidate.spec.total_usd_per_hour, "hour"
    # The candidates of each task differ; importing their types would slow other answers.
    run = getattr(candidate, "usd_per_run", None)
    if run is not None:
        return run.median, "run"
    tokens = getattr(candidate, "usd_per_million_output_tokens", None)
    if tokens is not None:
        return tokens.median, "million_output_tokens"
    return candidate.usd_per_million_samples, "million_samples"


# Public pages of the clouds; nothing fetches them, and a page may move.
PRICE_PAGES = {
    "alibaba": "https://www.alibabacloud.com/product/ecs-pricing-list/en",
    "aws": "https://aws.amazon.com/ec2/pricing/",
    "azure": "https://azure.microsoft.com/pricing/details/virtual-machines/linux/",
    "civo": "https://www.civo.com/pricing",
    "digitalocean": "https://www.digitalocean.com/pricing/gpu-droplets",
    "gcp": "https://cloud.google.com/compute/all-pricing",
    "hyperstack": "https://www.hyperstack.cloud/gpu-pricing",
    "jarvislabs": "https://jarvislabs.ai/pricing",
    "lambda": "https://lambda.ai/pricing",
    "nebius": "https://nebius.com/prices",
    "oci": "https://www.oracle.com/cloud/price-list/",
    "ovh": "https://www.ovhcloud.com/en/public-cloud/prices/",
    "paperspace": "https://www.paperspace.com/pricing",
    "runpod": "https://www.runpod.io/pricing",
    "scaleway": "https://www.scaleway.com/en/pricing/",
    "vast": "https://vast.ai/pricing",
    "verda": "https://verda.com/pricing",
    "vultr": "https://www.vultr.com/pricing/",
}
