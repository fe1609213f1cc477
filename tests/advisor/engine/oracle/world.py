"""Small random catalogues: real types, disks and data sheets of all clouds, at drawn prices."""

import random
from datetime import date
from functools import cache, cached_property, lru_cache

from advisor.catalog import Catalog, load_catalog
from advisor.catalog.bundle import DATA_FOLDER, BundleFiles, Table, stored_prices
from advisor.catalog.prices import Currency

# Markets with the bases of their prices; those of Alibaba are in CNY.
BASES = {
    "aws": {"on-demand": ("list-2026-07-20",), "spot": tuple(f"spot-gpu{band}" for band in range(5))},
    "gcp": {"on-demand": ("gcp",), "spot": ("gcpspot",), "commitment-1y": ("gcp",)},
    "azure": {"on-demand": ("azure",)},
    "alibaba": {"on-demand": ("ali",), "spot": ("alispot",)},
}
# How many of the worlds have which cloud.
SHARES = {"aws": 1.0, "gcp": 0.5, "azure": 0.15, "alibaba": 0.15}
# Types with an NVIDIA GPU and CPUs alone that are sold and last; the same and others, whatever they
# are.
_SHARES_OF_KINDS = (0.5, 0.25, 0.15, 0.1)
AS_OF = date(2026, 7, 20)
CURRENCIES = {name: Currency(rate, AS_OF) for name, rate in {"USD": 1.0, "CNY": 7.07, "EUR": 0.9}.items()}


class World:
    """A catalogue of a few types in a few regions; the same seed gives the same one."""

    def __init__(self, seed):
        draw = random.Random(seed)
        clouds = [name for name, share in SHARES.items() if draw.random() < share]
        files = _Part({name: _drawn_cloud(name, draw) for name in clouds})
        self.seed, self.clouds, self.disks = seed, tuple(clouds), {}
        self.phase = draw.random()
        self.catalog = Catalog([files], CURRENCIES)
        self.regions = {name: self.catalog.regions(name) for name in clouds}

    @cached_property
    def cards(self):
        """Names of the GPUs that there are, and that have a data sheet."""
        names = {self.catalog.partial_type(name, cloud).gpu_name for cloud, name in self.types("any")}
        return sorted(names & set(self.catalog.gpus))

    def disk_types(self, cloud):
        """Names of the disks there are in a cloud, or in any, the instances' own among them."""
        clouds = self.clouds if cloud == "any" else [cloud]
        sold = [self.catalog.disks_of(cloud) for cloud in clouds if cloud in self.catalog.disk_clouds]
        return sorted({name for disks in sold for name in disks.types})

    def types(self, cloud):
        """(cloud, type) of everything there is in a cloud, or in any."""
        clouds = self.clouds if cloud == "any" else [cloud]
        return [(cloud, name) for cloud in clouds for name in _names(self.catalog, cloud)]

    def __repr__(self):
        return f"World({self.seed})"


class _Part:
    """The shipped bundle with other types and prices."""

    def __init__(self, clouds):
        self._own = {path: text for tables, _, _ in clouds.values() for path, text in tables.items()}
        self._prices = {f"{name} prices": prices for name, (_, prices, _) in clouds.items()}
        self.manifest = {"clouds": {name: facts for name, (_, _, facts) in clouds.items()}}

    def has(self, path):
        if path.startswith("sparecores/") and path.endswith("_instance_types.csv"):
            return False  # the drawn types are all there are
        return path in self._own or _shipped().has(path)

    def prices(self, path):
        return self._prices[path]

    def table(self, path):
        return Table(path, self._own[path]) if path in self._own else _shipped_table(path)


@cache
def _shipped():
    return BundleFiles(DATA_FOLDER)


@cache
def _shipped_table(path):
    return _shipped().table(path)


@cache
def _pool(cloud):
    """Lines of the types worth drawing, by kind: `_SHARES_OF_KINDS`."""
    table = _shipped_table(f"catalog/{cloud}_instance_types.csv")
    shared = f"sparecores/{cloud}_instance_types.csv"
    lines = [*table.lines, *(_shipped_table(shared).lines if _shipped().has(shared) else ())]
    rows = [dict(zip(table.header, line.split(","), strict=True)) for line in lines]
    sold = [row for row in rows if row["current"] == "1" and row["burstable"] != "1"]
    cards = [row for row in sold if row["gpu_vendor"] == "NVIDIA"]
    cpus = [row for row in sold if not row["gpu_vendor"] and not row["accelerator"]]
    every_card = [row for row in rows if row["gpu_vendor"] == "NVIDIA"]
    others = [row for row in rows if row["gpu_vendor"] != "NVIDIA"]
    kinds = (cards, cpus or cards, every_card, others or cards)
    return table.header, [[[*row.values()] for row in kind] for kind in kinds]


@cache
def _priced_disks(cloud):
    path = f"catalog/{cloud}_disk_prices.csv"
    if not _shipped().has(path):
        return ()
    return tuple(sorted({cells[0] for cells in _shipped_table(path)}))


def _drawn_cloud(cloud, draw):
    header, kinds = _pool(cloud)
    pools = draw.choices(kinds, _SHARES_OF_KINDS, k=draw.randint(2, 5))
    rows = {cells[0]: cells for cells in map(draw.choice, pools)}
    regions = _drawn_regions(cloud, [*rows.values()], header, draw)
    cells = {market: {} for market in BASES[cloud]}
    for name in rows:
        for market, drawn in _drawn_prices(cloud, regions, draw):
            cells[market][name] = drawn
    prices = [stored_prices(market, drawn) for market, drawn in cells.items()]
    lacking = _shipped().manifest["clouds"][cloud]["lacking"]
    tables = {f"catalog/{cloud}_instance_types.csv": _csv(header, rows.values())}
    facts = {
        "as_of": AS_OF.isoformat(),
        "prices": {f"{cloud} prices": regions},
        "lacking": sorted(set(lacking) & set(rows)),
    }
    return tables, prices, facts


def _drawn_regions(cloud, rows, header, draw):
    """Where one of the types is offered, and where disks have a price."""
    sets = dict(iter(_shipped_table(f"catalog/{cloud}_region_sets.csv")))
    column = header.index("region_set")
    offered = {region for cells in rows for region in sets.get(cells[column], "").split()}
    disks = _priced_disks(cloud)
    likely = sorted(offered & set(disks)) or sorted(offered) or list(disks) or ["nowhere"]
    # The hubs sell nearly everything.
    hubs = [region for region in ("us-east-1", "us-central1") if region in likely]
    regions = {*hubs, *(draw.choice(likely) for _ in range(draw.randint(0, 1)))} or {likely[0]}
    if offered and draw.random() < 0.2:
        regions.add(draw.choice(sorted(offered)))
    return sorted(regions)


def _drawn_prices(cloud, regions, draw):
    usual = 10 ** draw.uniform(-0.7, 0.9)
    for index, (market, bases) in enumerate(BASES[cloud].items()):
        if index and draw.random() < 0.5:
            continue
        basis = draw.choice(bases)
        cells = {
            region: (float(f"{usual * draw.uniform(0.8, 1.3) / (1 + index):.4g}"), basis)
            for region in regions
        }
        yield market, {name: cell for name, cell in cells.items() if draw.random() < 0.85}


def _csv(header, rows):
    return "\n".join(",".join(cells) for cells in (header, *rows)) + "\n"


def _names(catalog, cloud):
    return tuple(catalog._clouds[cloud].instances.names)


@lru_cache(maxsize=16)
def world(seed):
    """The same seed gives the same world, and builds it once."""
    return World(seed)


def real_world():
    """The whole catalogue that ships."""
    whole = object.__new__(World)
    whole.seed, whole.catalog, whole.disks = "shipped", load_catalog(), {}
    whole.phase = 0.5
    whole.clouds = tuple(filter(whole.catalog.is_in_dollars, whole.catalog.clouds))
    whole.regions = {name: whole.catalog.regions(name) for name in whole.clouds}
    return whole
