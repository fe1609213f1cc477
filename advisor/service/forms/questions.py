"""The forms of the questions: which words each has."""

from __future__ import annotations

from advisor.answers.memory import OPTIMIZERS
from advisor.answers.what_if import MOST_VCPUS
from advisor.domain import (
    HOURS_PER_MONTH,
    Market,
    MemoryFormat,
    Precision,
    Stack,
    Task,
    Tf32,
)
from advisor.domain.references import is_own
from advisor.engine import MOST_INSTANCES
from advisor.errors import UsageError
from advisor.quantities import parse_memory_mib
from advisor.questions.datasets import DATASETS
from advisor.questions.hardware import wanted_gpus, wanted_memory, wanted_vcpus
from advisor.questions.requests import LARGEST_BATCH
from advisor.render.gpus import SORT_KEYS
from advisor.service.forms.curves import curve
from advisor.service.forms.form import Form
from advisor.service.forms.words import About, Word, choice, flag, likelihood, number, text, texts

MOST_RESULTS = 1000


def _network(name: str) -> str:
    """A name; a file of the server is never opened because a client names it."""
    if is_own(name) or name.startswith(("/", ".", "~")) or "\\" in name:
        raise UsageError(
            "model names a file, and no file is opened for a client; take a name of /v1/networks, "
            "or ask by `advisor` where the file is"
        )
    return name


MODEL = text(
    About(name="model", answer="network", required=True, about="The network, as googlenet."),
    _network,
)
MODELS = text(
    About(name="model", answer="network", required=True,
          about="The network, as googlenet; with gpu several, divided by commas."),
    _network,
)  # fmt: skip
TASK = choice(About(name="task", required=True, about="What is done."), "task", tuple(Task))
BATCH = number(About(name="batch_size", about="Fix it."), whole=True, most=LARGEST_BATCH)
PRECISION = choice(
    About(name="precision", default="fp32", about="Number format of the arithmetic."),
    "precision", tuple(Precision),
)  # fmt: skip
GPU = text(
    About(name="gpu", about="Only these GPUs, of so much memory or compute capability: T4,L4 | "
                            "24GiB.. | cc8.0.."),
    wanted_gpus,
)  # fmt: skip
VCPUS = text(
    About(name="vcpus", about="Only types with so many vCPUs: 4..16, 8.., 8."), wanted_vcpus,
    or_number=True,
)  # fmt: skip
MEMORY = text(
    About(name="memory", about="Only types with so much RAM: 32GiB..64GiB, 32GiB.."),
    wanted_memory,
)
MAX_PRICE = number(About(name="max_price", about="USD per hour, disk included."))
EXPLAIN = flag(
    About(name="explain", default=False, about="Say what binds, what more of each resource would "
          "bring, and how far this is from what was measured."),
)  # fmt: skip
EXPLAIN_REJECTED = flag(
    About(name="explain_rejected", default=False,
          about="Name every rejected type and why, not the nearest ten alone."),
)  # fmt: skip
INPUT = text(
    About(name="input", about="One sample, as 384, 3x384x384 or seq:384; the network's own where "
                              "nothing is said."),
)  # fmt: skip
QUESTION: tuple[Word, ...] = (
    TASK,
    MODEL,
    BATCH,
    PRECISION,
    INPUT,
    choice(About(name="stack", about="What runs the network: PyTorch as it is (eager, where "
                 "nothing is said), or torch.compile."), "stack", tuple(Stack)),
    choice(About(name="memory_format", about="How images lie in memory; contiguous where nothing "
                 "is said."), "memory format", tuple(MemoryFormat)),
    choice(About(name="tf32", about="Which fp32 arithmetic may round to TF32; convolutions where "
                 "nothing is said."), "use of TF32", tuple(Tf32)),
    choice(About(name="dataset", about="The data set; where nothing is said imagenet, tokens or "
                 "tensors, as the network takes."), "dataset", tuple(DATASETS)),
    likelihood(About(name="confidence", default=0.9, about="How sure the lower bound must be.")),
    text(About(name="disk", about="Fix the disk, as gp3:500GiB:6000iops:250MiB/s; or choose among "
                                  "types: gp3,io2 or local.")),
    number(About(name="max_gpus", about="Use at most so many GPUs of an instance."), whole=True),
)  # fmt: skip
MARKET = choice(
    About(name="market", default="on-demand", about="How it is paid."), "market", tuple(Market)
)
CLOUD = text(
    About(name="cloud", default="aws",
          about="Where to look: aws, gcp, azure, alibaba, an import's name, or any."),
)  # fmt: skip
REGION = text(About(name="region", about="Region of the cloud; us-east-1 for aws, else all."))
PLACE: tuple[Word, ...] = (CLOUD, REGION, MARKET)
RUN: tuple[Word, ...] = (
    number(About(name="epochs", about="Tell hours and dollars of a run of so many passes over the "
                                      "data set.")),
    number(About(name="samples", about="The same for a run of so many samples."), whole=True),
)  # fmt: skip
RECOMMEND = Form(
    "RecommendQuestion",
    "The words of `advisor recommend`",
    (
        *QUESTION,
        *PLACE,
        number(About(name="target_throughput", about="Samples per second to reach. Without it: "
                     "ranked by cost, per run or million samples.")),
        number(About(name="max_latency_ms", about="What 99 in 100 batches must surely stay within, "
                     "decoding and copying included; inference only.")),
        *RUN,
        number(About(name="max_cost", about="USD that the whole run surely stays within.")),
        number(About(name="max_hours", about="Hours that the run surely ends within.")),
        GPU,
        VCPUS,
        MEMORY,
        flag(About(name="accelerated_only", default=False, about="Only instances with a GPU.")),
        MAX_PRICE,
        text(About(name="quota", about="vCPUs that AWS still lets you start, as G=8,P=0.")),
        number(About(name="max_count", default=1, about="Up to so many identical instances side by "
                     "side."), whole=True, most=MOST_INSTANCES),
        number(About(name="max_results", default=10, about="How many specs to name."), whole=True,
               most=MOST_RESULTS),
        number(About(name="horizon_hours", default=HOURS_PER_MONTH, about="How long it will be "
                     "paid for; decides whether a verifying trial pays.")),
        EXPLAIN,
        EXPLAIN_REJECTED,
        flag(About(name="pareto", default=False, about="The Pareto front of price and rate.")),
        flag(About(name="strict", default=False, about="Refuse a price older than 90 days.")),
        flag(About(name="allow_extrapolation", default=False,
                   about="Accept rates with no calibrated interval.")),
    ),
)  # fmt: skip
INSTANCE = text(About(name="instance", required=True, about="Instance type, as g4dn.xlarge."))
CURVE = curve(About(name="curve", about="How it moves with the host and the disk."))
PREDICT = Form(
    "PredictQuestion",
    "The words of `advisor predict`",
    (
        *QUESTION,
        *PLACE,
        *RUN,
        INSTANCE,
        number(
            About(name="vcpus", answer="as_vcpus", about="What if it had so many vCPUs."),
            whole=True,
            most=MOST_VCPUS,
        ),
        text(
            About(
                name="memory", answer="as_memory_mib", about="What if it had so much RAM, as 24GiB."
            ),
            parse_memory_mib,
        ),
        CURVE,
        EXPLAIN,
    ),
)
COMPARE = Form(
    "CompareQuestion",
    "The words of `advisor compare`",
    (
        *(MODELS if word is MODEL else word for word in QUESTION),
        *PLACE,
        texts(About(name="instance", answer="instances", about="Instance types, two or more.")),
        text(About(name="gpu", about="GPUs alone, whatever host feeds them: T4,V100,L4 | 24GiB.. | "
                                     "cc8.0..; in place of instance."), wanted_gpus),
        text(About(name="baseline", about="What counts as 1: an instance type, or with gpu a GPU; "
                                          "else the first one.")),
    ),
)  # fmt: skip
MEMORY_OF = Form(
    "MemoryQuestion",
    "The words of `advisor memory`",
    (
        MODEL,
        choice(About(name="task", default="training", about="What is done."), "task",
               (Task.TRAINING, Task.INFERENCE)),
        number(About(name="batch_size", default=32, about="Samples of a step."), whole=True,
               most=LARGEST_BATCH),
        PRECISION,
        choice(About(name="optimizer", about="What is kept for each trained value; momentum where "
                     "nothing is said. Training only."), "optimizer", OPTIMIZERS),
        flag(About(name="checkpointing", default=False, about="Blocks are computed again in the "
                   "backward pass.")),
        flag(About(name="keep_graph", default=False, about="Inference without torch.no_grad().")),
        text(About(name="gpu", about="T4,L4 or 24GiB..; those for rent where nothing is said."),
             wanted_gpus),
        likelihood(About(name="confidence", default=0.95, about="How sure each bound is.")),
    ),
)  # fmt: skip
GPUS = Form(
    "GpusQuestion",
    "The words of `advisor gpus`",
    (
        GPU,
        *PLACE,
        choice(About(name="sort_by", default="usd_per_gpu_hour", about="Cheapest, or largest, "
                     "first; unknown last."), "sort key", tuple(SORT_KEYS)),
    ),
)  # fmt: skip
