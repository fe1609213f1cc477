"""Workload + offers + performance model + target -> Recommendation."""

from advisor.engine.candidates import BATCH_SIZES, PerformanceModel
from advisor.engine.comparing import compare_instances, on_gpu
from advisor.engine.counting import MOST_INSTANCES
from advisor.engine.decision import decide, recommend
from advisor.engine.prepared import Preparations
from advisor.engine.reasons import answers
from advisor.engine.single import predict_instance
from advisor.engine.wording import STAGE_NAMES, no_offer, require_fresh_price, stack_assumption

__all__ = [
    "BATCH_SIZES",
    "MOST_INSTANCES",
    "STAGE_NAMES",
    "PerformanceModel",
    "Preparations",
    "answers",
    "compare_instances",
    "decide",
    "no_offer",
    "on_gpu",
    "predict_instance",
    "recommend",
    "require_fresh_price",
    "stack_assumption",
]
