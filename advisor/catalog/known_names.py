"""Names that a query has: known to the clouds that it is about, or refused with near ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.catalog.clouds import Cloud
from advisor.catalog.gpu_names import require_whole
from advisor.catalog.matching import is_gpu
from advisor.catalog.prices import RATE_VARIABLE
from advisor.domain import Gpu
from advisor.errors import NoOfferError, UsageError, unknown_name
from advisor.messages import Message


def require_rate(cloud: Cloud) -> None:
    """`UsageError` for a cloud whose prices are not known in dollars."""
    if not cloud.has_rate:
        raise UsageError(
            "prices of {cloud} are in {currency}, and what a US dollar is worth is not known",
            cloud=cloud.name,
            currency=cloud.currency,
            field="cloud",
            hint=Message("say it: {variable}=0.9 advisor ..", variable=RATE_VARIABLE.format(cloud.currency)),
        )


_ALSO_CALLED = {
    "aws": "amazon amazonwebservices ec2",
    "azure": "microsoft microsoftazure msft",
    "gcp": "google googlecloud googlecloudplatform gce",
    "oci": "oracle oraclecloud",
    "alibaba": "aliyun alibabacloud alicloud",
    "ovh": "ovhcloud",
    "lambda": "lambdalabs",
    "vast": "vastai",
    "digitalocean": "do",
    "verda": "datacrunch",
    "vultr": "vultrcloud",
}
_WRITING = re.compile(r"[^a-z]")


def unknown_cloud(name: str, clouds: Sequence[str]) -> UsageError:
    """The error of a cloud that is not known: the one that is called so, too, or is written near,
    else all of them."""
    plain = _WRITING.sub("", name.lower())
    near = [one for one in clouds if plain in (one, *_ALSO_CALLED.get(one, "").split())]
    error = unknown_name("cloud", name, clouds, field="cloud")
    error.suggestions = tuple(near) or error.suggestions
    hint = Message("it has: {clouds}; any means all of them", clouds=tuple(clouds))
    if error.suggestions:
        hint = Message("did you mean {names}?", names=" or ".join(error.suggestions))
    error.message = Message("the catalogue has no data on cloud '{name}'", name=name)
    error.hint = hint
    return error


def require_gpu(name: str, sheets: Mapping[str, Gpu], clouds: Sequence[Cloud]) -> None:
    """`UsageError` with near names for a GPU that no data sheet and no type has, and
    for a slice of one."""
    require_whole(name, sheets)
    if any(is_gpu(sheet, name) for sheet in sheets):
        return
    sold = frozenset().union(*(cloud.instances.gpu_names for cloud in clouds))
    if not any(is_gpu(one, name) for one in sold):
        raise unknown_name("GPU", name, {*sold, *sheets}, field="gpu")


def require_instance(name: str, clouds: Sequence[Cloud]) -> None:
    """`UsageError` with near names for a type that none of the clouds has."""
    if not any(name in cloud.instances for cloud in clouds):
        known = [known for cloud in clouds for known in cloud.instances.names]
        raise unknown_name("instance type", name, known, listed_by="advisor catalog list", field="instance")


def require_region(region: str, clouds: Sequence[Cloud]) -> None:
    """`UsageError` with near names for a region nobody knows, `NoOfferError` for one without
    prices."""
    priced = sorted({name for cloud in clouds for name in cloud.priced_regions})
    if region in priced:
        return
    known = {name for cloud in clouds for name in cloud.instances.regions}
    if region not in known:
        # A type that no region is known to offer has an empty name of one.
        raise unknown_name("region", region, (known | set(priced)) - {""}, field="region")
    raise NoOfferError(
        f"no prices of region {region} are in the catalogue; regions with prices: {', '.join(priced)}"
    )
