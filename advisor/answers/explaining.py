"""Why a prediction is what it is. Imported only where somebody asks."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.catalog import Catalog
from advisor.domain import InstancePrediction, Recommendation
from advisor.domain.explanation import Explanation
from advisor.engine.explaining import explain
from advisor.models.performance import PerformanceModel
from advisor.render.explaining import explanation_document, explanation_text


class Explained(NamedTuple):
    """An explanation of one instance."""

    instance_type: str
    explanation: Explanation

    def document(self) -> dict[str, Any]:
        """JSON-ready values."""
        return explanation_document(self.instance_type, self.explanation)

    def text(self) -> str:
        """Lines to follow the answer's own."""
        return "\n" + explanation_text(self.instance_type, self.explanation)


def explain_answer(answer: Recommendation, catalog: Catalog, model: PerformanceModel) -> Explained | None:
    """The chosen spec explained; the nearest one where nothing meets the target, if any."""
    candidate = answer.chosen or answer.nearest
    if candidate is None:
        return None
    instance, disk = candidate.spec.offer.instance, candidate.spec.disk
    # One of its instances: all have its bottleneck.
    each = candidate.prediction.times(1 / candidate.spec.count)
    explanation = explain(catalog, model, instance, disk, candidate.workload, each)
    return Explained(instance.name, explanation) if explanation else None


def explain_instance(
    prediction: InstancePrediction, catalog: Catalog, model: PerformanceModel
) -> Explained | None:
    """The prediction of a named instance explained."""
    explanation = explain(
        catalog, model, prediction.instance, prediction.disk, prediction.workload, prediction.prediction
    )
    return Explained(prediction.instance.name, explanation) if explanation else None
