"""Why a prediction is what it is. What that needs is imported when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.catalog import Catalog
from advisor.domain import Candidate, InstancePrediction, Recommendation
from models.performance import PerformanceModel

if TYPE_CHECKING:
    from advisor.domain.explanation import Explanation


class Explained:
    """An explanation of one instance; nothing at all where none was asked for, or none is there."""

    def __init__(self, name: str = "", explanation: Explanation | None = None) -> None:
        self._name = name
        self._explanation = explanation

    def document(self) -> dict[str, Any] | None:
        """JSON-ready values, or None."""
        if self._explanation is None:
            return None
        from advisor.render.explaining import explanation_document

        return explanation_document(self._name, self._explanation)

    def text(self) -> str:
        """Lines to follow the answer's own, or none."""
        if self._explanation is None:
            return ""
        from advisor.render.explaining import explanation_text

        return "\n" + explanation_text(self._name, self._explanation)


NOTHING = Explained()


def explain_answer(answer: Recommendation, catalog: Catalog, model: PerformanceModel) -> Explained:
    """The chosen spec explained; the nearest one where nothing meets the target."""
    one = answer.chosen or answer.nearest
    return NOTHING if one is None else _of_candidate(one, catalog, model)


def _of_candidate(one: Candidate, catalog: Catalog, model: PerformanceModel) -> Explained:
    from advisor.engine.explaining import explain

    instance, disk = one.spec.offer.instance, one.spec.disk
    each = one.prediction.times(1 / one.spec.count)  # one of them: all have its bottleneck
    found = explain(catalog, model, instance, disk, one.workload, each)
    return Explained(instance.name, found)


def explain_instance(
    one: InstancePrediction, catalog: Catalog, model: PerformanceModel
) -> Explained:
    """The prediction of a named instance explained."""
    from advisor.engine.explaining import explain

    found = explain(catalog, model, one.instance, one.disk, one.workload, one.prediction)
    return Explained(one.instance.name, found)
