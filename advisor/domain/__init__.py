"""The product's data as frozen, validated records.

All other code works with these records; none of them knows how it is measured, predicted, priced or printed.
Field names contain units: MiB is 2**20 bytes, GiB is 2**30 bytes, rates are per second, prices are US dollars
per hour."""

from advisor.domain.decision import (
    BatchPoint,
    Candidate,
    Change,
    CloseCall,
    InstancePrediction,
    OnGpu,
    OtherSetting,
    PriceCall,
    Recommendation,
    Relaxation,
    computes_on_cpu,
    relative,
)
from advisor.domain.machines import (
    ANY,
    ON_ANY_GPU,
    ON_CPU,
    Accelerator,
    AssumedFact,
    Cpu,
    DiskRate,
    Gpu,
    InstanceType,
    Node,
    NodeNetwork,
    Range,
    Resources,
    require_positive,
)
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
from advisor.domain.results import (
    AUGMENTED,
    MOUNTED,
    REPLAYED_FROM,
    SERVED,
    SHUFFLED,
    STORED_ORDER,
    Latency,
    LazyRejected,
    Measurement,
    Prediction,
    Rejected,
    RunTime,
    Span,
    Trial,
    Withheld,
    nearest_first,
)
from advisor.domain.verification import Verdict, Verification
from advisor.domain.words import (
    MEASURABLE_PRECISIONS,
    AcceleratorKind,
    CacheState,
    CloseCallKind,
    DataKind,
    LimitedBy,
    Market,
    MemoryFormat,
    Precision,
    Protocol,
    Provenance,
    Stack,
    Stage,
    Status,
    Task,
    Tf32,
)
from advisor.domain.workload import (
    IMAGENET,
    MIB,
    STEP_SIGMA,
    DatasetProfile,
    Observation,
    ScalingObservation,
    Workload,
    without_the_usual,
)
