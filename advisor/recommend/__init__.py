"""Workload + offers + performance model + target -> Recommendation."""

from advisor.recommend.candidates import BATCH_SIZES, PerformanceModel
from advisor.recommend.comparing import compare_instances, on_gpu
from advisor.recommend.counting import MOST_INSTANCES
from advisor.recommend.decision import decide, recommend
from advisor.recommend.prepared import Preparations
from advisor.recommend.reasons import answers
from advisor.recommend.single import predict_instance
from advisor.recommend.wording import STAGE_NAMES, no_offer, require_fresh_price, stack_assumption

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
