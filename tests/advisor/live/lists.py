"""Price lists that tell what the snapshot says."""

import numpy as np
from scipy.optimize import nnls

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.bundle import DATA_FOLDER
from advisor.domain import Market
from advisor.infra.live.gcp import Part, parts
from tests.infra.live.listed import Listed, meter, sku, spot_meter

BUNDLED = load_catalog(DATA_FOLDER)
# Where parts always come in the same shares many rates fit; none of them may be 0.
LEAST_RATE = 1e-4
GCP_REGION, AZURE_REGION = "us-central1", "westeurope"


def fill_gcp(listed: Listed, factor: float = 1.0) -> None:
    """SKUs whose sums are the snapshot's prices of accelerated types, times a factor."""
    listed.skus = []
    for market, usage in ((Market.ON_DEMAND, "OnDemand"), (Market.SPOT, "Preemptible")):
        query = OfferQuery(cloud="gcp", region=GCP_REGION, market=market, accelerated=True)
        machines = {offer.instance: offer.price.usd_per_hour for offer in BUNDLED.offers(query)}
        made_of = [parts(machine) for machine in machines]
        names = sorted({_sku(part) for of in made_of for part in of})
        amounts = np.array([[_amount(of, name) for name in names] for of in made_of])
        usd = np.array(list(machines.values()))
        above, rest = nnls(amounts, usd - amounts.sum(axis=1) * LEAST_RATE)
        rates = LEAST_RATE + above
        assert rest < 1e-3  # prices of attached GPUs have six digits
        spot = "" if market is Market.ON_DEMAND else "Spot Preemptible "
        listed.skus += [
            sku(f"{spot}{name} running in Americas", factor * rate, GCP_REGION, usage=usage, unit=unit)
            for (name, unit), rate in zip(names, rates.tolist(), strict=True)
        ]


def fill_azure(listed: Listed, factor: float = 1.0) -> tuple[str, ...]:
    """Meters with the snapshot's prices of GPU sizes; a fifth where it has no spot price."""
    query = OfferQuery(cloud="azure", region=AZURE_REGION, market=Market.ON_DEMAND, accelerated=True)
    prices = {offer.type.name: offer.price for offer in BUNDLED.partial_offers(query)}
    prices |= {offer.instance.name: offer.price for offer in BUNDLED.offers(query)}
    usd = {name: round(factor * price.usd_per_hour, 6) for name, price in prices.items()}
    listed.meters = [meter(name, offer) for name, offer in usd.items()]
    for name, offer in usd.items():
        spot = BUNDLED.price(name, AZURE_REGION, Market.SPOT, "azure")
        text = factor * spot.usd_per_hour if spot else offer / 5
        listed.meters.append(spot_meter(name, round(text, 6)))
    return tuple(usd)


def _sku(part: Part) -> tuple[str, str]:
    return part.names[0], part.unit


def _amount(made_of: tuple[Part, ...], name: tuple[str, str]) -> float:
    return sum(part.amount for part in made_of if _sku(part) == name)
