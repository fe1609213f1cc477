"""Whether a region still offers types, and whether they are what the catalogue says."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from advisor.catalog import Catalog
from advisor.catalog.support import CLOUD
from advisor.errors import LiveError
from advisor.infra.live.facts import Facts, facts, offered

# So many types, and more than half of those asked for, do not vanish at once: an answer was lost.
FEWEST_DOUBTED = 4


class Offerings(Struct, frozen=True):
    """Whether each type is offered, where that is sure; what differs from what was known."""

    offered: dict[str, bool]
    warnings: tuple[str, ...]


def ask_offerings(
    names: Sequence[str], region: str, known: Catalog, *, accept_implausible: bool = False
) -> Offerings:
    """What the region says of each type. `LiveError` where it cannot be asked.

    A type is withdrawn only where two services agree on it: one lists it no longer, and the other
    does not describe it.
    """
    there = offered(names, region)
    warnings: list[str] = []
    try:
        described = facts(names, region)
    except LiveError as error:
        described = {}
        warnings.append(f"facts of types are not confirmed: {error}")
    doubtful = [name for name in names if name in described and name not in there]
    warnings += [
        f"{region} does not list {name} as offered, and yet describes it: left as it was" for name in doubtful
    ]
    warnings += [line for name in described for line in _differences(name, described[name], known)]
    told = {name: name in there for name in names if name not in doubtful}
    told, doubts = believed(told, region, known, CLOUD, accept_implausible=accept_implausible)
    return Offerings(told, (*warnings, *doubts))


def believed(
    told: dict[str, bool], region: str, known: Catalog, cloud: str, *, accept_implausible: bool
) -> tuple[dict[str, bool], list[str]]:
    """Whether each type is offered, without those that vanished in bulk; and a warning of these."""
    vanished = [name for name in told if not told[name] and known.is_offered(name, region, cloud)]
    if len(vanished) < FEWEST_DOUBTED or 2 * len(vanished) <= len(told) or accept_implausible:
        return told, []
    doubt = (
        f"{region} is said to offer {len(vanished)} of {len(told)} types no longer: not believed "
        "(--accept-implausible takes it)"
    )
    return {name: there for name, there in told.items() if there}, [doubt]


def _differences(name: str, told: Facts, known: Catalog) -> list[str]:
    """What AWS tells otherwise than the catalogue."""
    ours = known.partial_type(name, CLOUD)
    pairs = [
        ("vCPUs", told.vcpus, ours.vcpus),
        ("MiB of RAM", told.memory_mib, ours.memory_mib),
        ("GPUs", told.gpu_count, ours.gpu_count),
    ]
    return [
        f"AWS says that {name} has {theirs:,} {what}, the catalogue {known_one:,}"
        for what, theirs, known_one in pairs
        if known_one is not None and theirs != known_one
    ]
