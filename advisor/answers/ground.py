"""What an answer stands on: the catalogue, and the performance model that answers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from advisor.answers.heard import Heard
from advisor.answers.words import Words
from advisor.catalog import Catalog, load_catalog
from advisor.domain import Precision, Request, Task
from advisor.domain.references import is_own
from advisor.questions.requests import request_from
from advisor.questions.sources import model_in_use, sources_of
from advisor.render.document import Sources
from models.performance import PerformanceModel


class Ground(NamedTuple):
    """What an answer stands on; `notes` must be said with it."""

    catalog: Catalog
    model: PerformanceModel
    notes: tuple[str, ...] = ()

    def request(self, words: Words) -> Request:
        """The question; `UsageError` names what is wrong and the way out."""
        return request_from(self.model.table, self.catalog, dict(words))

    def sources(self) -> Sources:
        """The identities of both."""
        return sources_of(self.model, self.catalog)


def ground_in_use(model_file: Path | None = None, *, cny_per_usd: float | None = None) -> Ground:
    """The catalogue of this user, and the named model, their own, or the one that ships."""
    return Ground(load_catalog(cny_per_usd=cny_per_usd), model_in_use(model_file))


def with_anchors(ground: Ground, words: Words) -> tuple[Ground, Words]:
    """The ground once the anchors in `words` (paths, under "anchors") were heard, and the words
    with the network's name as the model then knows it."""
    name = str(words["network"])
    table = ground.model.table
    own = name if is_own(name) else name.lower()
    network = table.find(name).name if table.knows(name) else own
    changed = {**words, "network": network}
    files = changed.pop("anchors", ())
    if not files and not is_own(name):
        return ground, changed
    heard = _heard(ground, changed, files)
    return ground._replace(model=heard.model, notes=heard.warnings), changed


def _heard(ground: Ground, words: Words, files: tuple[Path, ...]) -> Heard:
    from advisor.answers.anchoring import heard_model
    from advisor.answers.asked_anchors import Asked  # few have measured

    asked = Asked(
        network=words["network"],
        task=Task(words["task"]),
        precision=Precision(words["precision"]),
    )
    return heard_model(ground.model, ground.catalog, asked, files)
