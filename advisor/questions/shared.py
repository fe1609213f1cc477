"""Fields that several questions have, and the headings that `--help` lists fields under."""

from __future__ import annotations

from typing import Any

from advisor.domain import HOURS_PER_MONTH, Market, Precision, Task
from advisor.domain.words import ANY_MARKET
from advisor.questions.fields import Choice, Flag, Parsed, Text
from advisor.questions.numbers import Number, Probability
from advisor.questions.question import ask
from advisor.questions.values import (
    format_ram,
    format_vcpus,
    parse_gpus,
    parse_price_kinds,
    parse_ram,
    parse_vcpus,
)

# No GPU holds more samples; what comes near the end of floats overflows on the way.
LARGEST_BATCH = 10**9
MOST_COUNT = 1000
MOST_NODES = 64
MOST_RESULTS = 1000
USUAL_RESULTS = 10

WORKLOAD, PLACE, RUN = "Workload", "Where and how it is paid", "Length of the run"
TARGET, HARDWARE = "Targets and limits", "Hardware"
ANSWER, SOURCES = "Answer", "Predictor and prices"

GPUS = Parsed(parse_gpus, str, "NAMES|SIZE..|ccX.Y..", joins=True)
_VCPUS = Parsed(parse_vcpus, format_vcpus, "LEAST..MOST", or_number=True)
_RAM = Parsed(parse_ram, format_ram, "LEAST..MOST")

TASK: Any = ask("What the instance does.", Choice("task", Task), section=WORKLOAD)
BATCH_SIZE: Any = ask(
    "Samples in a batch, on each GPU.",
    Number(whole=True, most=LARGEST_BATCH),
    section=WORKLOAD,
    default=None,
    usual="chosen by the advisor",
)
PRECISION: Any = ask(
    "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32) or fp16.",
    Choice("precision", Precision),
    section=WORKLOAD,
    default=Precision.FP32,
)
CLOUD: Any = ask(
    "Cloud to search: aws, gcp, azure, alibaba, oci, lambda, runpod, nebius, verda, hyperstack, "
    "jarvislabs, digitalocean, vultr, vast, ovh, scaleway, civo, paperspace, leafcloud and "
    "infomaniak (in EUR), the name of an import, or any.",
    Text("CLOUD"),
    section=PLACE,
    default="aws",
)
REGION: Any = ask(
    "Region to search.",
    Text("REGION"),
    section=PLACE,
    default=None,
    usual="us-east-1 for aws, else all regions",
)
MARKET: Any = ask(
    "How you pay: on demand, spot, or a 1- or 3-year commitment.",
    Choice("market", Market),
    section=PLACE,
    default=Market.ON_DEMAND,
)
RANKED_MARKET: Any = ask(
    "How you pay: on demand, spot, a 1- or 3-year commitment, or any of them.",
    Choice("market", (*Market, ANY_MARKET)),
    section=PLACE,
    default=Market.ON_DEMAND,
)
PRICE_KIND: Any = ask(
    "Prices of instances to rank by: list (what the seller lists), observed (seen on the market), estimated.",
    Parsed(parse_price_kinds, ",".join, "KIND[,KIND]"),
    section=PLACE,
    default=None,
    usual="all of them, where no estimate wins by its error",
)
GPU: Any = ask(
    "GPUs to consider: names (T4,L4), memory (24GiB..) or compute capability (cc8.0..).",
    GPUS,
    section=HARDWARE,
    default=None,
    usual="any",
)
VCPUS: Any = ask(
    "vCPUs of the instance: 4..16, 8 or 8.. (at least 8).",
    _VCPUS,
    section=HARDWARE,
    default=None,
    usual="any",
)
MEMORY: Any = ask(
    "RAM of the instance: 32GiB..64GiB or 32GiB.. (at least 32 GiB).",
    _RAM,
    section=HARDWARE,
    default=None,
    usual="any",
)
MAX_PRICE: Any = ask(
    "Highest price in USD per hour, disk included.", Number(metavar="USD"), section=TARGET, default=None
)
EXPLAIN: Any = ask(
    "Show what limits the rate, what more of each resource adds, and how far this is from anything measured.",
    Flag(),
    section=ANSWER,
    default=False,
)
CURSOR: Any = ask("Where the page begins: out of a Link header.", Text(), default=None, where="http")
CONFIDENCE: Any = ask(
    "Probability with which the lower bound must hold: at 0.9 it is the p10.",
    Probability(),
    section=TARGET,
    default=0.9,
)
DISK: Any = ask(
    "The disk: one order such as gp3:500GiB:6000iops:250MiB/s, or types to choose from: gp3,io2 or local.",
    Text("TYPE[:SIZE..]|TYPE,TYPE.."),
    section=HARDWARE,
    default=None,
    usual="chosen by the advisor",
)
MAX_GPUS: Any = ask(
    "Most GPUs of one instance to use.", Number(whole=True), section=HARDWARE, default=None, usual="all"
)
MAX_HOURS: Any = ask(
    "Longest run in hours; must hold at the confidence.", Number(metavar="HOURS"), section=RUN, default=None
)
MAX_COST: Any = ask(
    "Most that the run may cost in USD, disk included; must hold at the confidence.",
    Number(metavar="USD"),
    section=RUN,
    default=None,
)
QUOTA: Any = ask(
    "vCPUs that your AWS quotas still allow, by family: G=8,P=0, or by code: L-DB2E81BA=8.",
    Text("FAMILY=VCPUS,.."),
    section=HARDWARE,
    default=None,
    usual="no limit",
)
MAX_COUNT: Any = ask(
    "Most identical instances that share the work, each with its own disk.",
    Number(whole=True, most=MOST_COUNT),
    section=HARDWARE,
    default=1,
)
MAX_NODES: Any = ask(
    "Most identical instances that train one network together, each with its own disk. Training only.",
    Number(whole=True, most=MOST_NODES),
    section=HARDWARE,
    default=1,
)
MAX_RESULTS: Any = ask(
    "Number of specs to list, the recommended one among them.",
    Number(whole=True, client_most=MOST_RESULTS),
    "10; a table on a terminal shows 4",
    section=ANSWER,
    default=None,
)
HORIZON_HOURS: Any = ask(
    "Hours you will use the instance; decides whether a verifying trial pays for itself.",
    Number(metavar="HOURS"),
    section=ANSWER,
    default=HOURS_PER_MONTH,
)
EXPLAIN_REJECTED: Any = ask(
    "List every rejected type with its reason, not the nearest ten alone.",
    Flag(),
    section=ANSWER,
    default=False,
)
STRICT: Any = ask(
    "Leave out instances whose price is older than its source keeps (`advisor catalog sources`: "
    "lists of AWS 730 days, of other large clouds 365, of neo-clouds 30; spot 90); exit 5 if "
    "only such answer.",
    Flag(),
    section=ANSWER,
    default=False,
)
ALLOW_EXTRAPOLATION: Any = ask(
    "Answer even where no calibrated interval exists.", Flag(), section=ANSWER, default=False
)
