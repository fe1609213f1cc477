"""The questions of each command, and of its HTTP route, for each task."""

from __future__ import annotations

from advisor.questions.language import (
    CompareFinetuning,
    CompareGeneration,
    MemoryFinetuning,
    MemoryGeneration,
    PredictFinetuning,
    PredictGeneration,
    RecommendFinetuning,
    RecommendGeneration,
)
from advisor.questions.network import Compare, MemoryQuestion, Predict, Recommend
from advisor.questions.question import ByTask

AnyRecommend = Recommend | RecommendGeneration | RecommendFinetuning
AnyPredict = Predict | PredictGeneration | PredictFinetuning
AnyCompare = Compare | CompareGeneration | CompareFinetuning
AnyMemory = MemoryQuestion | MemoryGeneration | MemoryFinetuning

RECOMMEND: ByTask[AnyRecommend] = ByTask(
    "What `advisor recommend` is asked.", (Recommend, RecommendGeneration, RecommendFinetuning)
)
PREDICT: ByTask[AnyPredict] = ByTask(
    "What `advisor predict` is asked.", (Predict, PredictGeneration, PredictFinetuning)
)
COMPARE: ByTask[AnyCompare] = ByTask(
    "What `advisor compare` is asked.", (Compare, CompareGeneration, CompareFinetuning)
)
MEMORY: ByTask[AnyMemory] = ByTask(
    "What `advisor memory` is asked.", (MemoryQuestion, MemoryGeneration, MemoryFinetuning)
)
