"""`recommend --live`: checks the chosen spec against the prices, offerings and quotas that clouds report now.

Each round queries the clouds about the best offers and decides again with the answers, until the best offers
have all been queried."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from advisor.answers.live.refreshing import Offerings, PriceQuestion, ask_offerings, ask_prices, overlay_of
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.overlay import LIVE_CLOUDS, Overlay, cloud_title, is_live
from advisor.catalog.support import CLOUD as AWS
from advisor.catalog.support import quota_code
from advisor.domain import Candidate, Market, Offer, Recommendation
from advisor.domain.live import LiveCheck, LiveChecked, PriceAnswer
from advisor.engine import Preparations, recommend
from advisor.errors import LiveError
from advisor.infra.live.aws import vcpu_quota
from advisor.infra.live.lists import PriceList, price_list
from advisor.infra.live.session import Deadline
from advisor.questions.network import NetworkQuestion

if TYPE_CHECKING:
    from advisor.models.performance.model import PerformanceModel

# A person waits: seconds in all, and for one service.
TOTAL_SECONDS = 30.0
ANSWER_SECONDS = 12.0
# Offers to verify: the chosen one and two runners-up.
VERIFIED = 3
# Live prices may bring up to three other types to the top in each round: after this many, stop.
ROUNDS = 8
ONLY_LIVE = f"live prices exist for {', '.join(LIVE_CLOUDS)} only (on-demand and spot)"

T = TypeVar("T")


def recommend_live(
    request: NetworkQuestion, model: PerformanceModel, *, today: date, strict: bool
) -> tuple[Recommendation, Catalog]:
    """The answer with its `live` part, and the catalogue with live prices that it rests on. Raises what
    `recommend` raises. Where a cloud does not respond, the snapshot answers, with a warning."""
    queries = _LiveQueries(request, today)
    for _ in range(ROUNDS):
        answer = recommend(queries.request, Preparations(queries.catalog, model), today=today)
        leading = [offer for offer in _leading_offers(answer) if _has_live_price(offer)]
        offers = [offer for offer in leading if _key_of(offer) not in queries.checked]
        offers = [offer for offer in offers if queries.is_responsive(offer.instance.cloud)]
        if not offers:
            break
        queries.query(offers)
    preparations = Preparations(queries.catalog, model)
    asked = replace(queries.request, max_results=request.max_results)
    answer = recommend(asked, preparations, today=today, strict=strict)
    check = LiveCheck(
        as_of=today,
        checked=tuple(queries.checked.values()),
        warnings=tuple(queries.warnings + _unverified(_leading_offers(answer), queries)),
    )
    return replace(answer, live=check, warnings=(*check.warnings, *answer.warnings)), queries.catalog


# Cloud, region, type, market.
OfferKey = tuple[str, str, str, Market]


class _LiveQueries:
    """The live answers so far, and what limits further queries: the deadline and silent services."""

    def __init__(self, request: NetworkQuestion, today: date) -> None:
        self.request = replace(request, max_results=max(VERIFIED, request.max_results))
        self.catalog = load_catalog()
        self.checked: dict[OfferKey, LiveChecked] = {}
        self.warnings: list[str] = []
        self._overlays: dict[str, Overlay] = {}
        self._today = today
        self._deadline = Deadline(TOTAL_SECONDS, ANSWER_SECONDS)
        self._silent: set[tuple[str, str]] = set()
        self._quotas: dict[tuple[str, str], float | None] = {}
        self._lists: dict[str, PriceList] = {}

    def is_responsive(self, cloud: str) -> bool:
        """False where a query for the cloud's prices has failed: further queries are not worth the time."""
        return (cloud, "prices") not in self._silent

    def query(self, offers: Sequence[Offer]) -> None:
        """Query the clouds about the offers, and overlay the answers on the snapshot."""
        by_region: dict[tuple[str, str, Market], list[str]] = defaultdict(list)
        for offer in offers:
            by_region[offer.instance.cloud, offer.region, offer.market].append(offer.instance.name)
        for (cloud, region, market), names in by_region.items():
            sys.stderr.write(f"asking {cloud_title(cloud)} about {', '.join(names)} in {region}\n")
            offerings, answers = self._fetched(cloud, region, market, names)
            newer = overlay_of(region, self._today, offerings.offered, answers)
            self._overlays[cloud] = self._overlays.get(cloud, Overlay()).updated_with(newer)
            for answer in answers:
                self._record(cloud, answer, offerings.offered.get(answer.instance_type))
        self.catalog = load_catalog(live=self._overlays)
        pairs = dict(self.request.vcpu_quota)
        for (code, region), vcpus in self._quotas.items():
            # The user's figure counts where it is lower.
            if vcpus is not None and region == self.request.region:
                pairs[code] = min(vcpus, pairs.get(code, vcpus))
        self.request = replace(self.request, vcpu_quota=tuple(pairs.items()))

    def _fetched(
        self, cloud: str, region: str, market: Market, names: Sequence[str]
    ) -> tuple[Offerings, list[PriceAnswer]]:
        known, offerings = self.catalog, None
        if cloud == AWS:
            offerings = self._reply(cloud, "offerings", lambda: ask_offerings(names, region, known))
        offerings = offerings or Offerings({})
        self.warnings += offerings.warnings
        # Other clouds have one list of all prices: fetching it may take all the time that is left.
        each = None if cloud == AWS else TOTAL_SECONDS
        prices = self._reply(cloud, "prices", lambda: self._prices(cloud, region, market, names), each) or [
            PriceAnswer(
                instance_type=name,
                region=region,
                market=market,
                why="not told",
                before=known.price(name, region, market, cloud),
            )
            for name in names
        ]
        return offerings, prices

    def _prices(self, cloud: str, region: str, market: Market, names: Sequence[str]) -> list[PriceAnswer]:
        known = self.catalog
        if cloud not in self._lists:
            self._lists[cloud] = price_list(cloud, known)
        question = PriceQuestion(
            prices=self._lists[cloud], names=names, region=region, known=known, today=self._today
        )
        return list(ask_prices(question, market))

    def _record(self, cloud: str, answer: PriceAnswer, offered: bool | None) -> None:
        name, region, market = answer.instance_type, answer.region, answer.market
        code = quota_code(name, market) if cloud == AWS else None
        self.checked[cloud, region, name, market] = LiveChecked(
            answer=answer,
            offered=offered,
            quota_code=code,
            vcpu_quota=self._quota(name, region, market, code),
        )

    def _quota(self, name: str, region: str, market: Market, code: str | None) -> float | None:
        if code is None:
            return None
        if (code, region) not in self._quotas:
            vcpus = self._reply(AWS, "quotas", lambda: vcpu_quota(name, region, market))
            self._quotas[code, region] = vcpus
        return self._quotas[code, region]

    def _reply(self, cloud: str, what: str, fetch: Callable[[], T], each: float | None = None) -> T | None:
        """The result of `fetch`; None where it fails, and then this service is not queried again."""
        if (cloud, what) in self._silent:
            return None
        try:
            return self._deadline.within(f"{cloud_title(cloud)} {what}", fetch, each=each)
        except LiveError as error:
            self._silent.add((cloud, what))
            warning = f"not verified live ({what}): {error}"
            # Missing credentials give one warning, not one per service.
            if not any(known.endswith(str(error)) for known in self.warnings):
                self.warnings.append(warning)
            return None


def _leading_offers(answer: Recommendation) -> list[Offer]:
    nearest = (answer.beyond_price, answer.nearest)
    shown: Iterable[Candidate | None] = answer.ranked[:VERIFIED] or nearest
    doubtful = answer.price_call.cheaper if answer.price_call else None
    offers = [candidate.spec.offer for candidate in (doubtful, *shown) if candidate is not None]
    return list({_key_of(offer): offer for offer in offers}.values())


def _has_live_price(offer: Offer) -> bool:
    return is_live(offer.instance.cloud, offer.market)


def _key_of(offer: Offer) -> OfferKey:
    return offer.instance.cloud, offer.region, offer.instance.name, offer.market


def _unverified(leading: Sequence[Offer], queries: _LiveQueries) -> list[str]:
    elsewhere = [offer.instance.name for offer in leading if not _has_live_price(offer)]
    said = [f"{ONLY_LIVE}: {', '.join(elsewhere)} not verified"] if elsewhere else []
    for key in (_key_of(offer) for offer in leading if _has_live_price(offer)):
        cloud, _, name, _ = key
        checked = queries.checked.get(key)
        if not queries.is_responsive(cloud):
            continue  # a warning says why already
        if checked is None:
            said.append(f"{name} was not asked for any more: {ROUNDS} rounds are over")
        elif checked.answer.price is None:
            said.append(f"the price of {name} is not verified: {checked.answer.why}")
    return said
