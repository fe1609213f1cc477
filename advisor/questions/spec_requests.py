"""What a question says of the spec -> fields of a `SpecRequest`: place, hardware, quota, disk."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from advisor.catalog import Catalog
from advisor.catalog.disk_orders import LOCAL, unknown_disk
from advisor.catalog.support import CLOUD, VcpuQuota, parse_quota
from advisor.domain import ANY, DatasetProfile, DiskChoice, Market, Range
from advisor.domain.words import ANY_MARKET
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.fields import wrong
from advisor.questions.placed import HardwareQuestion, PlacedQuestion
from advisor.questions.shared import USUAL_RESULTS
from advisor.questions.values import GpuFilter

DEFAULT_CLOUD = "aws"
DEFAULT_REGION = {DEFAULT_CLOUD: "us-east-1"}
# The instance's own disk, whatever a cloud calls it.
OWN_DISK = "local"


def region_of(cloud: str, region: str | None) -> str | None:
    """The region that is asked for, or the cloud's usual one; None is every region."""
    return region or DEFAULT_REGION.get(cloud)


def market_of(market: Market | str) -> Market | None:
    """The market that is asked for; None is every one."""
    return None if market == ANY_MARKET else Market(market)


def place_fields(question: PlacedQuestion, catalog: Catalog) -> dict[str, Any]:
    """Where the instance is rented, as a `SpecRequest` names it; `UsageError` for an unknown
    cloud."""
    catalog.require_cloud(question.cloud)
    return {
        "cloud": question.cloud,
        "region": region_of(question.cloud, question.region),
        "market": market_of(question.market),
    }


def spec_fields(question: HardwareQuestion) -> dict[str, Any]:
    """Which instances may be rented, as a `SpecRequest` names it; `max_gpus`, of which
    other questions know too, apart."""
    return {
        **hardware_fields(question),
        "max_usd_per_hour": question.max_price,
        "price_kinds": question.price_kind or (),
        "vcpu_quota": quota_of(question.quota, question.cloud, question.market),
        "horizon_hours": question.horizon_hours,
        "max_results": question.max_results or USUAL_RESULTS,
        "allow_extrapolation": question.allow_extrapolation,
    }


def instance_named(text: str, question: PlacedQuestion, catalog: Catalog) -> str:
    """A type as the catalogue writes it. `UsageError` for one of another cloud than the one that
    is named, or whose region is (the default cloud alone says nothing), and of several clouds."""
    catalog.require_cloud(question.cloud)
    if "," in text:
        raise wrong(
            "instance",
            "{field} is one type here, not {text}",
            text=text,
            hint="`advisor compare` takes several",
        )
    name = catalog.name_of(text)
    home = catalog.cloud_of(name, question.cloud)
    if question.cloud in ("any", home):
        return name
    if question.cloud != DEFAULT_CLOUD or question.region is not None:
        field = "region" if question.cloud == DEFAULT_CLOUD else "cloud"
        raise wrong(
            field,
            "{name} is a type of {home}, not of {cloud}",
            name=name,
            home=home,
            cloud=question.cloud,
            hint=Message("give {cloud} {home}", cloud=FieldName("cloud"), home=home),
        )
    return name


class HasHardware(Protocol):
    """A question that says what the instance must have."""

    @property
    def gpu(self) -> GpuFilter | None:
        """Its GPUs."""

    @property
    def vcpus(self) -> Range | None:
        """Its vCPUs."""

    @property
    def memory(self) -> Range | None:
        """Its RAM in MiB."""


class Held(NamedTuple):
    """What a disk must have room for: its name and size."""

    name: str
    gib: float


def held_of(dataset: DatasetProfile) -> Held:
    """A data set."""
    return Held(dataset.name, dataset.total_mib / 1024)


def disk_fields(catalog: Catalog, cloud: str, text: str | None, held: Held) -> dict[str, Any]:
    """The fields `disk` or `disk_types` of a `Request`; none where nothing is asked."""
    if not text:
        return {}
    if "," in text or text.lower() == OWN_DISK:
        return {"disk_types": _disk_types(catalog, cloud, text)}
    return {"disk": _disk_choice(catalog, cloud, text, held)}


def hardware_fields(question: HasHardware) -> dict[str, Any]:
    """What the instance must have, as a `Request` and an `OfferQuery` name it."""
    gpu = question.gpu or GpuFilter()
    return {
        "gpus": gpu.names,
        "min_gpu_memory_mib": gpu.memory_mib.least,
        "max_gpu_memory_mib": gpu.memory_mib.most,
        "compute_capability": gpu.compute_capability,
        "vcpus": question.vcpus or ANY,
        "memory_mib": question.memory or ANY,
    }


def quota_of(text: str | None, cloud: str, market: Market | str) -> VcpuQuota:
    """What AWS still allows; `UsageError` for another cloud, or a text that is no quota. On any
    market a family means its quota on demand and its quota of spot instances."""
    if text is None:
        return ()
    if cloud not in (CLOUD, "any"):
        raise wrong("quota", "{field} knows the quotas of {aws}, not of {cloud}", aws=CLOUD, cloud=cloud)
    try:
        asked = market_of(market)
        markets = (asked,) if asked else (Market.ON_DEMAND, Market.SPOT)
        pairs = [pair for each in markets for pair in parse_quota(text, each)]
        return tuple(dict(pairs).items())
    except UsageError as error:
        error.field = "quota"
        raise


def _disk_types(catalog: Catalog, cloud: str, text: str) -> tuple[str, ...]:
    known = {name for one in _disk_clouds(catalog, cloud) for name in catalog.disks_of(one).types}
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in names:
        if ":" in name:
            raise wrong(
                "disk",
                "{field} {text}: among several types the advisor chooses the order",
                text=text,
                hint="name types alone (gp3,io2), or one disk",
            )
        if name not in known and name != OWN_DISK:
            raise unknown_disk(name, {*known, OWN_DISK})
    if not names:
        raise wrong("disk", "{field} takes a disk (gp3:500GiB) or types to choose among (gp3,io2)")
    return tuple(dict.fromkeys(LOCAL if name == OWN_DISK else name for name in names))


def _disk_choice(catalog: Catalog, cloud: str, text: str, held: Held) -> DiskChoice:
    name = text.partition(":")[0].strip().lower()
    clouds = _disk_clouds(catalog, cloud)
    home = [one for one in clouds if name in catalog.disks_of(one).types] or [*clouds, "aws"]
    try:
        choice = catalog.disks_of(home[0]).parse_choice(text)
    except UsageError as error:
        error.field = "disk"
        raise
    if choice.size_gib is not None and choice.size_gib < held.gib:
        raise wrong(
            "disk",
            "{field} {text} cannot hold {dataset}, which has {needed:.3g}GiB",
            text=text,
            dataset=held.name,
            needed=held.gib,
            hint="name a larger size, or none",
        )
    return choice


def _disk_clouds(catalog: Catalog, cloud: str) -> list[str]:
    """The clouds asked about whose disks are known."""
    return [name for name in catalog.disk_clouds if cloud in ("any", name)]
