"""The fields of every question about a spec: where, on which hardware, at which cost."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Any

from advisor.domain import ANY, HOURS_PER_MONTH, DiskChoice, Market, Range
from advisor.domain.money import PriceSpread, term_hours
from advisor.domain.words import ANY_MARKET
from advisor.questions import values
from advisor.questions.fields import Choice, Flag, FromZero, Hours, Number, Parsed, Probability, Text
from advisor.questions.question import Question, ask

MOST_COUNT = 1000
MOST_RESULTS = 1000
USUAL_RESULTS = 10
USUAL_CONFIDENCE = 0.9

# The headings that `--help` lists fields under.
WORKLOAD, PLACE, RUN = "Workload", "Where and how it is paid", "Length of the run"
TARGET, HARDWARE = "Targets and limits", "Hardware"
ANSWER, SOURCES = "Answer", "Predictor and prices"
_place, _hardware = partial(ask, section=PLACE), partial(ask, section=HARDWARE)

# Fields that several questions share.
GPUS = Parsed(values.parse_gpus, str, "NAMES|SIZE..|ccX.Y..", joins=True)
CLOUD: Any = _place(
    "Cloud to search: aws, gcp, azure, alibaba, oci, lambda, runpod, nebius, verda, hyperstack, "
    "jarvislabs, digitalocean, vultr, vast, ovh, scaleway, civo, paperspace, leafcloud and "
    "infomaniak (in EUR), the name of an import, or any.",
    Text("CLOUD"),
    default="aws",
)
REGION: Any = _place("Region to search.", Text("REGION"), usual="us-east-1 for aws, else all regions")
MARKET: Any = _place(
    "How you pay: on-demand, spot, commitment-1y or commitment-3y (convertible: --help-all).",
    Choice("market", Market),
    default=Market.ON_DEMAND,
)
RANKED_MARKET: Any = _place(
    "How you pay: on-demand, spot, commitment-1y, commitment-3y (convertible: --help-all), or any.",
    Choice("market", (*Market, ANY_MARKET), every=ANY_MARKET),
    default=Market.ON_DEMAND,
)
GPU: Any = _hardware(
    "GPUs to consider: names (T4,L4), memory (24GiB..) or compute capability (cc8.0..).", GPUS, usual="any"
)
MEMORY_GPU: Any = ask(
    "Only these GPUs: names (T4,L4), memory (24GiB..), capability (cc8.0..), or the GPU of g4dn.xlarge.",
    GPUS,
    usual="those for rent",
)
VCPUS: Any = _hardware(
    "vCPUs of the instance: 4..16, 8 or 8.. (at least 8).",
    Parsed(values.parse_vcpus, values.format_vcpus, "LEAST..MOST", or_number=True),
    value=ANY,
    usual="any",
)
MEMORY: Any = _hardware(
    "RAM of the instance: 32GiB..64GiB or 32GiB.. (at least 32 GiB).",
    Parsed(values.parse_ram, values.format_ram, "LEAST..MOST"),
    name="memory",
    value=ANY,
    usual="any",
)
EXPLAIN: Any = ask(
    "Show all of the answer: every fact, alternative and assumption. Of a network also what limits the rate, "
    "what more of each resource adds, and how far this is from anything measured.",
    Flag(),
    section=ANSWER,
    default=False,
    in_document=False,
)
CURSOR: Any = ask("Where the page begins: out of a Link header.", Text(), where="http")
MAX_HOURS: Any = ask("Longest run in hours, its start included.", Hours(metavar="HOURS"), section=RUN)
MAX_COST: Any = ask(
    "Most that the run may cost in USD, disk and start included.",
    Number(metavar="USD"),
    section=RUN,
    name="max_cost",
)
# Assumed: booting, pulling an image, installing, loading and warming up.
USUAL_START_MINUTES = {"preprocessing": 5.0, "inference": 8.0, "training": 10.0, "finetuning": 10.0}


def start_hours(question: Any) -> float:
    """Hours from the start of an instance until it does the work of a question that may end."""
    minutes = question.start_minutes
    return (USUAL_START_MINUTES[question.task] if minutes is None else minutes) / 60


START_MINUTES: Any = ask(
    "Minutes from the start of an instance until it works: booting, pulling, loading, compiling. They "
    "are paid for, and count towards a run.",
    FromZero(metavar="MINUTES"),
    "5 for preprocessing, 8 for inference, 10 for training and fine-tuning",
    section=RUN,
)
# Most instances by default, for work that can be split; users may ask for more.
USUAL_COUNT = 8
MAX_COUNT: Any = _hardware(
    "Most identical instances that share the work, each with its own disk; training has --max-nodes.",
    Number(whole=True, most=MOST_COUNT),
    default=USUAL_COUNT,
)

# Attributes for where a spec is rented, and further ones of a recommendation.
OF_PLACE = ("disk_text", "cloud", "region", "market")
OF_HARDWARE = (
    *("price_kinds", "gpu_filter", "vcpus", "memory_mib", "max_usd_per_hour", "quota", "max_gpus"),
    *("max_shown", "horizon_hours", "explain_rejected", "strict", "allow_extrapolation"),
)


class SpecQuestion(Question):
    """The fields that a question has for every task.

    What users write in the catalogue's words has two attributes, the text and what
    `advisor.questions.settled` resolves it to: `disk_text` and `disk` or `disk_types`, `gpu_filter` and the
    four after it, `quota` and `vcpu_quota`, `max_shown` and `max_results`, `required_confidence` and
    `confidence`.

    All bounds are at `confidence`. A spec must keep target and limits at `required_confidence`; where that is
    None, with an even chance, and the cost of a miss counts by its chance.

    `preferred` is the choice among equal costs without limits, where these keep it.
    `region` None is every region, once the cloud's usual one is filled in: each type is then taken where it
    is cheapest; `market` None is every market. The decision narrows prices by `fresh_on` (of instances: not
    old on that day), `listed_on` (listed and not old) and `price_spread` (sure enough). `vcpu_quota` has
    pairs of an AWS quota code (as L-DB2E81BA) and the vCPUs that it still allows."""

    required_confidence: float | None = ask(
        "Probability with which bounds must hold: at 0.9 the p10 has to reach the target.",
        Probability(),
        section=TARGET,
        name="confidence",
        usual="p10 and p90 are shown, and what a miss would cost counts against each spec that may miss",
        in_document=True,
    )
    confidence: float = USUAL_CONFIDENCE
    cloud: str = CLOUD
    region: str | None = REGION
    market: Market | None = MARKET
    price_kinds: tuple[str, ...] = _place(
        "Prices of instances to rank by: list (what the seller lists), observed (seen on the market), "
        "estimated.",
        Parsed(values.parse_price_kinds, ",".join, "KIND[,KIND]"),
        name="price_kind",
        value=(),
        usual="all of them, where no estimate wins by its error",
    )
    listed_on: date | None = None
    fresh_on: date | None = None
    price_spread: PriceSpread | None = None
    preferred: tuple[str, Market] | None = None
    gpu_filter: values.GpuFilter | None = GPU._replace(name="gpu", in_document=False)
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    max_gpu_memory_mib: float | None = None
    compute_capability: Range = ANY
    vcpus: Range = VCPUS
    memory_mib: Range = MEMORY
    max_usd_per_hour: float | None = ask(
        "Highest price in USD per hour, disk included.",
        Number(metavar="USD"),
        section=TARGET,
        name="max_price",
    )
    quota: str | None = _hardware(
        "vCPUs that your AWS quotas still allow, by family: G=8,P=0, or by code: L-DB2E81BA=8.",
        Text("FAMILY=VCPUS,.."),
        usual="no limit",
        in_document=False,
    )
    vcpu_quota: tuple[tuple[str, float], ...] = ()
    disk_text: str | None = _hardware(
        "The disk: one order such as gp3:500GiB:6000iops:250MiB/s, or types to choose from: gp3,io2 or "
        "local.",
        Text("TYPE[:SIZE..]|TYPE,TYPE.."),
        name="disk",
        usual="chosen by the advisor",
        in_document=False,
    )
    disk: DiskChoice | None = None
    disk_types: tuple[str, ...] = ()
    max_gpus: int | None = _hardware("Most GPUs of one instance to use.", Number(whole=True), usual="all")
    horizon_hours: float = ask(
        "Hours you will use the instance; decides whether a verifying trial pays for itself and, with "
        "--market any, whether a commitment does: its whole term is paid. A run on a commitment counts one "
        "machine more for each time that it takes longer.",
        Number(metavar="HOURS"),
        section=ANSWER,
        default=HOURS_PER_MONTH,
    )
    max_shown: int | None = ask(
        "Number of specs to list, the recommended one among them.",
        Number(whole=True, client_most=MOST_RESULTS),
        "10; a table on a terminal shows 4",
        section=ANSWER,
        name="max_results",
        in_document=False,
    )
    max_results: int = USUAL_RESULTS
    allow_extrapolation: bool = ask(
        "Answer even where no calibrated interval exists.", Flag(), section=ANSWER, default=False
    )
    explain_rejected: bool = ask(
        "List every rejected type with its reason, not the nearest ten alone.",
        Flag(),
        section=ANSWER,
        default=False,
        in_document=False,
    )
    strict: bool = ask(
        "Leave out instances whose price is older than its source keeps (`advisor catalog sources`: "
        "lists of AWS 730 days, of other large clouds 365, of neo-clouds 30; spot 90); exit 5 "
        "where only older ones answer.",
        Flag(),
        section=ANSWER,
        default=False,
        in_document=False,
    )

    @property
    def ends(self) -> bool:
        """True if the work ends, so that its whole cost decides."""
        return False

    @property
    def owes_term(self) -> bool:
        """Return True for a run on a commitment, whose whole term is owed."""
        return self.ends and self.market is not None and term_hours(self.market) > 0

    @property
    def ranks_by_price(self) -> bool:
        """Return True if specs are ranked by hourly price, False if by the cost of their work."""
        return not self.ends

    @property
    def has_equal_costs(self) -> bool:
        """Return True if costs may count as equal within their error. Prices and terms have none."""
        return not (self.ranks_by_price or self.owes_term)

    @property
    def is_sure(self) -> bool:
        """True if bounds must hold at a given confidence; else the expected cost of a miss counts."""
        return self.required_confidence is not None
