"""The throughput of one named instance."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.domain import InstancePrediction, Request
from advisor.operations.answering.explaining import NOTHING, Explained, explain_instance
from advisor.operations.answering.ground import Ground, Words, with_anchors
from advisor.operations.questions.requests import today
from advisor.recommend import predict_instance
from advisor.report.document import Sources
from advisor.report.single import single_document


class Predicted(NamedTuple):
    """A prediction with all that is told of it."""

    request: Request
    one: InstancePrediction
    ground: Ground
    explained: Explained = NOTHING

    @property
    def sources(self) -> Sources:
        """What it stands on."""
        return self.ground.sources()

    def document(self) -> dict[str, Any]:
        """`advisor.prediction/1`, numbers unrounded."""
        return single_document(self.request, self.one, self.sources, self.explained.document())


def predicted(ground: Ground, words: Words) -> Predicted:
    """What the type in `words["instance"]` will reach; `UsageError` where it cannot run there."""
    ground, words = with_anchors(ground, words)
    catalog, model, _ = ground
    request = ground.request(words)
    name = catalog.name_of(str(words["instance"]))
    one = predict_instance(request, catalog, model, name, today=today())
    found = Predicted(request, one, ground)
    if words.get("explain"):
        found = found._replace(explained=explain_instance(one, catalog, model))
    return found
