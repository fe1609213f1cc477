"""The words of the product, as frozen and validated records (standard library only).

Everything else in the code base speaks in these records; none of them knows how it is
measured, predicted, priced or printed. Units stand in the field names: MiB is 2**20 bytes,
GiB is 2**30 bytes, rates are per second, prices are US dollars per hour.
"""

from advisor.domain.checks import require_positive
from advisor.domain.comparison import OnGpu, geometric_mean, relative
from advisor.domain.decision import (
    BatchPoint,
    Candidate,
    CloseCall,
    InstancePrediction,
    Recommendation,
    Rejected,
    Request,
    computes_on_cpu,
)
from advisor.domain.machines import Cpu, DiskRate, Gpu, InstanceType, Resources
from advisor.domain.money import (
    ESTIMATED,
    FREE,
    HOURS_PER_MONTH,
    LIST,
    OBSERVED,
    PRICE_KINDS,
    Burst,
    Disk,
    DiskChoice,
    Offer,
    Price,
    Spec,
)
from advisor.domain.ranges import ANY, Range
from advisor.domain.relaxing import Change, Relaxation
from advisor.domain.results import (
    CUDA,
    MOUNTED,
    REPLAYED_FROM,
    Latency,
    Measurement,
    Prediction,
    Trial,
)
from advisor.domain.runs import RunTime, Span
from advisor.domain.verification import Verdict, Verification
from advisor.domain.words import (
    CacheState,
    CloseCallKind,
    LimitedBy,
    Market,
    Precision,
    Provenance,
    Stage,
    Status,
    Task,
)
from advisor.domain.workload import IMAGENET, DatasetProfile, Workload

__all__ = [
    "ANY",
    "CUDA",
    "ESTIMATED",
    "FREE",
    "HOURS_PER_MONTH",
    "IMAGENET",
    "LIST",
    "MOUNTED",
    "OBSERVED",
    "PRICE_KINDS",
    "REPLAYED_FROM",
    "BatchPoint",
    "Burst",
    "CacheState",
    "Candidate",
    "Change",
    "CloseCall",
    "CloseCallKind",
    "Cpu",
    "DatasetProfile",
    "Disk",
    "DiskChoice",
    "DiskRate",
    "Gpu",
    "InstancePrediction",
    "InstanceType",
    "Latency",
    "LimitedBy",
    "Market",
    "Measurement",
    "Offer",
    "OnGpu",
    "Precision",
    "Prediction",
    "Price",
    "Provenance",
    "Range",
    "Recommendation",
    "Rejected",
    "Relaxation",
    "Request",
    "Resources",
    "RunTime",
    "Span",
    "Spec",
    "Stage",
    "Status",
    "Task",
    "Trial",
    "Verdict",
    "Verification",
    "Workload",
    "computes_on_cpu",
    "geometric_mean",
    "relative",
    "require_positive",
]
