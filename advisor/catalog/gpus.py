"""GPUs: names as people write them, hourly prices, and the links between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from advisor.catalog.bundle import DATA_FOLDER
from advisor.domain import Gpu, InstanceType, Offer
from advisor.domain.gpu_names import WHOLE_SHARE, gpus_named, identified, slice_profile
from advisor.domain.machines import is_on_board
from advisor.errors import UsageError, unknown_name


def sheet_names(name: str, known: Iterable[str]) -> list[str]:
    """Every data sheet that a name may mean, usual first ('A100': each A100); `UsageError` for none."""
    names = list(known)
    if isinstance(known, Mapping):
        require_whole(name, known)
    meant = gpus_named(name, names)
    if not meant:
        raise unknown_name("GPU", name, names, field="gpu")
    return meant


def require_whole(name: str, sheets: Mapping[str, Gpu]) -> None:
    """Raise `UsageError` for the name of a slice: an 'A10-4Q' is not an A10."""
    if not is_whole(name, sheets):
        raise UsageError(
            "'{gpu}' is a slice ({profile}) of a card, and no rate of a slice is known",
            gpu=name,
            profile=slice_profile(name),
            field="gpu",
            code="gpu_slice",
            hint="name a whole card",
        )


def is_whole(name: str, sheets: Mapping[str, Gpu]) -> bool:
    """Return whether a name is of a whole card, or of a vGPU that has all of one, such as 'A10-24Q'."""
    profile = slice_profile(name)
    size = re.fullmatch(r"(\d+)[ABCQ].*", profile, re.IGNORECASE)
    if size is None:
        return not profile
    cards = gpus_named(name.removesuffix(f"-{profile}"), sheets)
    return any(1024 * int(size[1]) >= WHOLE_SHARE * sheets[card].memory_mib for card in cards)


def sheet_name(text: str, known: Iterable[str]) -> str:
    """The one data sheet that a text means, the usual one of several forms. `UsageError` for none, and where
    the forms differ in memory (an A100 of 40 GB is not one of 80 GB)."""
    names = sheet_names(text, known)
    if len({tuple(re.findall(r"\d+GB", name)) for name in names}) > 1:
        raise UsageError(f"'{text}' is sold as {', '.join(names)}; name one of them")
    return names[0]


def sheet_of(
    name: str, sheets: Mapping[str, Gpu], *, memory_mib: float | None = None, sm_count: int | None = None
) -> Gpu:
    """The data sheet of a card, by its name in torch or the catalogue and its size (None: not known).

    `UsageError` without a sheet of exactly this card: a laptop's, a slice or a "Super" is another GPU."""
    identity = identified(name, sheets, memory_mib=memory_mib, sm_count=sm_count)
    if identity.is_slice:
        raise UsageError(
            "'{gpu}' is a slice ({profile}) of a {card}, so nothing follows from it for the card",
            gpu=name,
            profile=identity.slice_profile,
            card=identity.gpu,
            hint="measure on a whole card",
            code="gpu_slice",
        )
    if identity.gpu in sheets:
        return sheets[identity.gpu]
    raise UsageError(
        "there is no data sheet of the GPU '{gpu}', so nothing follows from it for others",
        gpu=name,
        hint=unknown_name("GPU", name, sheets).hint,
        code="unknown_name",
    )


# Keys that sort the table of GPUs -> whether more is better.
SORT_KEYS = {
    "usd_per_gpu_hour": False,
    "usd_per_fp32_tflop_hour": False,
    "memory_mib": True,
    "memory_gb_per_second": True,
    "fp32_tflops": True,
    "fp16_tflops": True,
    "name": False,
}


def usd_per_gpu_hour(offer: Offer) -> float:
    """The instance's price per GPU; it includes vCPUs, RAM and local disks."""
    return offer.price.usd_per_hour / offer.instance.gpu_count


def cheapest_by_gpu(offers: Iterable[Offer]) -> dict[str, Offer]:
    """GPU name -> the offer with the lowest price per GPU; of equal ones, the smaller instance.

    Shares of a GPU, and types that cannot be ordered, do not count."""
    cheapest: dict[str, Offer] = {}
    for offer in offers:
        instance = offer.instance
        if instance.gpu_name is None or instance.gpu_fraction < 1 or offer.closed:
            continue
        best = cheapest.get(instance.gpu_name)
        if best is None or _price_order(offer) < _price_order(best):
            cheapest[instance.gpu_name] = offer
    return cheapest


def _price_order(offer: Offer) -> tuple[float, float, str, str]:
    return usd_per_gpu_hour(offer), offer.price.usd_per_hour, offer.instance.name, offer.region


_LINKS_FILE = DATA_FOLDER / "language" / "gpu_links.csv"


class GpuLink(NamedTuple):
    """A link of GPUs: `nvlink` (up to `joined` GPUs) or `pcie`, assumed if `source` is empty."""

    kind: str
    joined: int
    source: str

    def among(self, gpus: int) -> str:
        """The link between `gpus` GPUs of one model replica."""
        if gpus == 1:
            return "none"
        return self.kind if gpus <= self.joined else "pcie"


UNKNOWN = GpuLink("pcie", 0, "")
_BOARD = "data sheets of NVIDIA HGX and Grace Blackwell boards"


def gpu_link(instance: InstanceType) -> GpuLink:
    """The link of a type's GPUs: from the longest matching prefix in the table, else from its card."""
    known = _links().get(instance.cloud, ())
    for start, link in known:
        if instance.name.startswith(start):
            return link
    if not known and is_on_board(instance.gpu_name or ""):
        return GpuLink("nvlink", instance.gpu_count, _BOARD)
    return UNKNOWN


@cache
def _links() -> dict[str, tuple[tuple[str, GpuLink], ...]]:
    """Cloud -> (start of type names, their link), the longest start first."""
    _, *lines = _LINKS_FILE.read_text(encoding="utf-8").splitlines()
    links: dict[str, list[tuple[str, GpuLink]]] = {}
    for line in lines:
        cloud, start, kind, joined, source = line.split(",")
        links.setdefault(cloud, []).append((start, GpuLink(kind, int(joined), source)))
    return {
        cloud: tuple(sorted(entries, key=lambda entry: -len(entry[0]))) for cloud, entries in links.items()
    }
