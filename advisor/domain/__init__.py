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
    OtherSetting,
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
from advisor.domain.observations import STEP_SIGMA, Observation
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
    MEASURABLE_PRECISIONS,
    CacheState,
    CloseCallKind,
    DataKind,
    LimitedBy,
    Market,
    MemoryFormat,
    Precision,
    Provenance,
    Stack,
    Stage,
    Status,
    Task,
    Tf32,
)
from advisor.domain.workload import IMAGENET, DatasetProfile, Workload, without_the_usual

__all__ = [
    "ANY",
    "CUDA",
    "ESTIMATED",
    "FREE",
    "HOURS_PER_MONTH",
    "IMAGENET",
    "LIST",
    "MEASURABLE_PRECISIONS",
    "MOUNTED",
    "OBSERVED",
    "PRICE_KINDS",
    "REPLAYED_FROM",
    "STEP_SIGMA",
    "BatchPoint",
    "Burst",
    "CacheState",
    "Candidate",
    "Change",
    "CloseCall",
    "CloseCallKind",
    "Cpu",
    "DataKind",
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
    "MemoryFormat",
    "Observation",
    "Offer",
    "OnGpu",
    "OtherSetting",
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
    "Stack",
    "Stage",
    "Status",
    "Task",
    "Tf32",
    "Trial",
    "Verdict",
    "Verification",
    "Workload",
    "computes_on_cpu",
    "geometric_mean",
    "relative",
    "require_positive",
    "without_the_usual",
]
