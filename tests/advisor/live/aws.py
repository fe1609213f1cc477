"""An AWS that knows GPU types with prices, and the questions that tests ask about it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path

from advisor.answers.live.refreshing import PriceQuestion, refresh
from advisor.catalog import Catalog, load_catalog
from advisor.domain import Market
from advisor.domain.live import Refresh
from advisor.infra.live.lists import price_list
from tests.infra.live.recorded import Recorded, product

TODAY = date(2026, 11, 21)
REGION = "us-east-1"
BUNDLED = load_catalog()
T4 = ("g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge")


def fill(aws: Recorded, prices: Mapping[str, float]) -> None:
    """Make AWS offer these types, and no others, at these prices; spot costs a third of them."""
    aws.products = {name: [product(name, f"{usd:.10f}")] for name, usd in prices.items()}
    aws.spot = {name: [("us-east-1a", f"{usd / 3:.6f}")] for name, usd in prices.items()}
    aws.types = list(prices)


def known_prices(names: Iterable[str]) -> dict[str, float]:
    """What the snapshot says that they cost on demand."""
    prices = {name: BUNDLED.price(name, REGION) for name in names}
    return {name: price.usd_per_hour for name, price in prices.items() if price}


def refreshed(
    folder: Path,
    names: Iterable[str],
    *markets: Market,
    say: Callable[[str], None] = lambda _line: None,
    today: date = TODAY,
    **more: bool,
) -> tuple[Refresh, Catalog]:
    """Refresh some types; the summary, and the catalogue that later commands see."""
    known = load_catalog(imports=folder)
    asked = {"prices": price_list("aws", known), "names": tuple(names), "known": known, "today": today}
    text = refresh(PriceQuestion(region=REGION, **asked, **more), markets or (Market.ON_DEMAND,), folder, say)
    return text, load_catalog(imports=folder)
