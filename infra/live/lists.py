"""The price lists of the clouds: their addresses, keys, and the names of their prices' sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

from msgspec import Struct

from advisor.catalog import Catalog
from advisor.catalog.overlay import LIVE_CLOUDS
from advisor.catalog.support import CLOUD as AWS
from advisor.domain import InstanceType, Market
from advisor.errors import LiveError, UsageError
from advisor.infra.live import aws, azure, gcp
from advisor.infra.live.aws import on_demand, spot
from advisor.infra.live.session import NO_CREDENTIALS, NoQuote, Quote, has_credentials
from advisor.infra.live.web import Say, WebList, checked_url
from advisor.messages import Message

URL_VARIABLES = {"aws": "ADVISOR_AWS_URL", "azure": "ADVISOR_AZURE_URL", "gcp": "ADVISOR_GCP_URL"}
SPOT_URL_VARIABLE = "ADVISOR_AWS_SPOT_URL"
GCP_KEY_VARIABLE = "ADVISOR_GCP_KEY"
_KEY_HINT = (
    "make an API key for the Cloud Billing API in Google's console, and put it into the variable {variable}"
)

Quotes = Callable[[Sequence[str], str, Market, date], Iterator[Quote | NoQuote]]


class Access(Struct, frozen=True, kw_only=True):
    """How to reach a list: an address instead of the cloud's, and the environment variable with the key;
    None: as the environment says. `whole` allows to fetch a list of hundreds of MB."""

    url: str | None = None
    key_variable: str | None = None
    whole: bool = False


class PriceList(Struct, frozen=True, kw_only=True):
    """A cloud's price list. `quotes` gives a quote, or the reason for none, for each type in order; `sources`
    has the origin of prices for each market that the list has. Only with an account are there offerings and
    quotas. `by_type`: it lists types, so a missing one is not sold; other lists price parts of types."""

    cloud: str
    quotes: Quotes
    sources: Mapping[Market, str]
    has_account: bool
    by_type: bool = True


def price_list(
    cloud: str, known: Catalog, access: Access | None = None, say: Say = lambda _line: None
) -> PriceList:
    """The price list of a cloud, without a request yet; `UsageError` for a cloud without one or a bad
    address, `LiveError` for a missing key."""
    access = access or Access()
    if cloud == AWS:
        return _aws(access, say)
    if cloud == "azure":
        source = WebList(service=azure.SERVICE, url=_url(cloud, access, azure.URL))
        name = "Azure Retail Prices API (Linux; {})"
        return PriceList(
            cloud=cloud,
            quotes=azure.AzurePrices(source).quotes,
            has_account=False,
            sources={Market.ON_DEMAND: name.format("pay as you go"), Market.SPOT: name.format("spot")},
        )
    if cloud == "gcp":
        return _gcp(known, access)
    raise UsageError(
        f"'{cloud}' has no price list that can be asked",
        field="cloud",
        hint=Message(
            "{clouds} have one; for others take the file of a price tracker: `advisor "
            "catalog refresh --tracker URL` or `advisor catalog import FILE`",
            clouds=tuple(LIVE_CLOUDS),
        ),
    )


def _aws(access: Access, say: Say) -> PriceList:
    """AWS's prices with boto3's credentials, or its public list, which needs none."""
    if access.url is not None or (access.whole and not has_credentials()):
        index = WebList(service=aws.SERVICE, url=_url(AWS, access, aws.URL))
        own = os.environ.get(SPOT_URL_VARIABLE)
        address = checked_url(own, SPOT_URL_VARIABLE) if own else aws.SPOT_URL
        advisor = WebList(service=aws.SPOT_SERVICE, url=address)
        public = {Market.ON_DEMAND: "AWS price list (bulk; Linux; shared tenancy)"}
        # With a substitute address for the list, AWS's spot advisor is not contacted, either.
        if own or index.url == aws.URL:
            public[Market.SPOT] = "on-demand price less the saving of AWS's public spot advisor"
        quotes_of = aws.AwsPrices(index, advisor, say).quotes
        return PriceList(cloud=AWS, quotes=quotes_of, has_account=False, sources=public)

    def quotes(names: Sequence[str], region: str, market: Market, today: date) -> Iterator[Quote | NoQuote]:
        return (on_demand if market is Market.ON_DEMAND else spot)(names, region, today)

    sources = {
        Market.ON_DEMAND: "AWS Price List API (Linux; shared tenancy)",
        Market.SPOT: "AWS spot price history (Linux/UNIX)",
    }
    return PriceList(cloud=AWS, quotes=quotes, sources=sources, has_account=True)


def _gcp(known: Catalog, access: Access) -> PriceList:
    variable = access.key_variable or GCP_KEY_VARIABLE
    hint = _KEY_HINT.format(variable=variable)
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise LiveError("no API key of Google Cloud", hint=hint, code=NO_CREDENTIALS)

    def machine_of(name: str) -> InstanceType | None:
        return None if known.partial_type(name, "gcp").missing else known.instance(name, "gcp")

    source = WebList(
        service=gcp.SERVICE,
        url=_url("gcp", access, gcp.URL),
        headers={gcp.KEY_HEADER: key},
        credentials_hint=hint,
    )
    named = "Google Cloud Billing Catalog ({}; sum of cores; memory; GPUs and local SSD)"
    return PriceList(
        cloud="gcp",
        quotes=gcp.GcpPrices(source, machine_of).quotes,
        has_account=False,
        by_type=False,
        sources={Market.ON_DEMAND: named.format("on demand"), Market.SPOT: named.format("spot")},
    )


def _url(cloud: str, access: Access, usual: str) -> str:
    if access.url is not None:
        return checked_url(access.url, "--url")
    variable = URL_VARIABLES[cloud]
    named = os.environ.get(variable)
    return checked_url(named, variable) if named else usual
