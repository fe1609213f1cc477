"""Questions that list what the product knows: GPUs, offers, instance types, networks."""

from __future__ import annotations

from pathlib import Path

from advisor.catalog.gpus import SORT_KEYS
from advisor.domain import Market, Range
from advisor.domain.words import ANY_MARKET
from advisor.questions.fields import Choice, File, Names, Number, Text
from advisor.questions.question import Question, ask
from advisor.questions.spec import CLOUD, CURSOR, GPU, MARKET, MEMORY, REGION, SOURCES, VCPUS
from advisor.questions.values import GpuFilter

MOST_OFFERS, USUAL_OFFERS = 1000, 100
MOST_NETWORKS = 500


class Sources(Question):
    """Where predictions and prices come from; apart from questions, since one choice serves many."""

    performance_model: Path | None = ask(
        "Fitted predictor to use.",
        File(),
        section=SOURCES,
        where="cli",
        usual="your own of `advisor fit`, else the bundled one",
    )
    cny_per_usd: float | None = ask(
        "Exchange rate: CNY per USD.",
        Number(metavar="YUAN"),
        section=SOURCES,
        where="cli",
        usual="ADVISOR_CNY_PER_USD, else that of the bundled prices",
    )


class Gpus(Question):
    """The question of `advisor gpus`."""

    gpu: GpuFilter | None = GPU
    cloud: str = CLOUD
    region: str | None = REGION
    market: Market = MARKET
    sort_by: str = ask(
        "Column to sort by: cheapest or largest first, unknown last.",
        Choice("sort key", tuple(SORT_KEYS)),
        default="usd_per_gpu_hour",
    )


class HardwareFilter(Question):
    """A filter of instance types by their hardware."""

    gpu: GpuFilter | None = GPU
    vcpus: Range = VCPUS
    memory_mib: Range = MEMORY


class Offers(Question):
    """The question of `/v1/catalog`."""

    cloud: str = ask("Only this cloud.", Text("CLOUD"), default="any")
    region: str | None = ask("Only this region.", Text("REGION"))
    market: str = ask(
        "How the instance is paid.", Choice("market", (*Market, ANY_MARKET)), default=ANY_MARKET
    )
    gpu: GpuFilter | None = GPU
    vcpus: Range = VCPUS
    memory_mib: Range = MEMORY
    instance: tuple[str, ...] = ask("Only these types.", Names("TYPE"), default=())
    max_price: float | None = ask("Highest price in USD per hour, without a disk.", Number())
    limit: int = ask(
        "Offers of a page.", Number(whole=True, client_most=MOST_OFFERS), default=USUAL_OFFERS, where="http"
    )
    cursor: str | None = CURSOR


class InstanceDetails(Question):
    """The question of `/v1/catalog/{instance_type}`."""

    cloud: str | None = ask("The cloud, where several have the name.", Text("CLOUD"))
    region: str | None = ask("Prices in this region only.", Text("REGION"))
    market: Market = MARKET


class Networks(Question):
    """The question of `/v1/networks`."""

    search: str | None = ask("Part of a name, title or family, or a pattern of it.", Text())
    limit: int = ask(
        "Networks of a page.",
        Number(whole=True, client_most=MOST_NETWORKS),
        default=MOST_NETWORKS,
        where="http",
    )
    cursor: str | None = CURSOR
