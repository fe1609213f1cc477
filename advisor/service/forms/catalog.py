"""The forms of what the catalogue is asked."""

from __future__ import annotations

from advisor.answers.listing import ANY_MARKET
from advisor.domain import Market
from advisor.service.forms.form import Form
from advisor.service.forms.questions import GPU, MARKET, MEMORY, REGION, VCPUS
from advisor.service.forms.words import About, choice, number, text, texts

MOST_OFFERS = 1000
USUAL_OFFERS = 100
MOST_NETWORKS = 500

LIST = Form(
    "CatalogQuestion",
    "The words of `advisor catalog list`",
    (
        text(About(name="cloud", default="any", about="Only this cloud.")),
        REGION,
        choice(About(name="market", default=ANY_MARKET, about="How it is paid."), "market",
               (*Market, ANY_MARKET)),
        GPU,
        VCPUS,
        MEMORY,
        texts(About(name="instance", answer="instances", about="Only these types.")),
        number(About(name="max_price", about="USD per hour, without a disk.")),
        number(About(name="limit", default=USUAL_OFFERS, about="Offers of a page."), whole=True,
               most=MOST_OFFERS),
        text(About(name="cursor", about="Where the page begins: out of a Link header.")),
    ),
)  # fmt: skip
NETWORKS = Form(
    "NetworksQuestion",
    "The words of `advisor networks`",
    (
        text(About(name="search", about="Part of a name, title or family, or a pattern of it.")),
        number(About(name="limit", default=MOST_NETWORKS, about="Networks of a page."), whole=True,
               most=MOST_NETWORKS),
        text(About(name="cursor", about="Where the page begins: out of a Link header.")),
    ),
)  # fmt: skip
TYPE = Form(
    "TypeQuestion",
    "The words of `advisor catalog show`",
    (
        text(About(name="cloud", about="The cloud, where several have the name.")),
        text(About(name="region", about="Prices in this region only.")),
        MARKET,
    ),
)
