"""What to relax where nothing answers: one constraint at a time, and two where one is too few.

Every change is found by asking the decision again, and what it gives is its answer to the changed
request. That takes seconds, so it is done only where nothing fits and a person waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Change, Recommendation, Relaxation, Request, Task
from advisor.engine.candidates import asks_for_gpu
from advisor.engine.decision import recommend, specs_that_answer
from advisor.engine.limits import count_that_would_do
from advisor.engine.network_constraints import constraints_of
from advisor.engine.prepared import Preparations
from advisor.engine.relaxed import cheapest_relaxations
from advisor.engine.table import Table

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel

_MOST_NODES = (2, 4, 8, 16, 32, 64)


def relaxations(
    answer: Recommendation, catalog: Catalog, model: PerformanceModel
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first; empty where something does already.

    Each names one constraint and the least change of it that is enough. Where no single one is,
    each names two of the constraints that were asked for, and where no two are, there is one that
    names as many as it takes. None at all where the workload itself runs nowhere.
    """
    request = answer.request
    if answer.chosen is not None:
        return ()
    if asks_for_gpu(request):
        # Who asks for more than 24 GiB on a GPU is not helped by an instance without one.
        request = replace(request, accelerated_only=True)
    asking = _Asking(catalog, Preparations(catalog, model))
    return cheapest_relaxations(
        request,
        list(constraints_of(request)),
        asking,
        lambda changed: recommend(changed, asking.known, today=answer.today).chosen,
        [*_on_several(answer, asking), *_on_nodes(answer, asking)],
    )


def _on_several(answer: Recommendation, asking: _Asking) -> list[Relaxation]:
    """What as many instances give as it takes of the nearest one, where that is a way out."""
    request, nearest = answer.request, answer.nearest
    count = count_that_would_do(request, nearest) if nearest else None
    if count is None:
        return []
    relaxed = replace(request, max_count=count)
    gives = recommend(relaxed, asking.known, today=answer.today).chosen
    change = Change(
        constraint="max_count", option="--max-count", before=str(request.max_count),
        after=str(count),
    )  # fmt: skip
    return [Relaxation(changes=(change,), gives=gives)] if gives else []


def _on_nodes(answer: Recommendation, asking: _Asking) -> list[Relaxation]:
    """What a training on several nodes gives, on twice as many again until one answers."""
    request = answer.request
    if request.task is not Task.TRAINING or answer.nearest is None:
        return []
    wider = [replace(request, max_nodes=most) for most in _MOST_NODES if most > request.max_nodes]
    if not wider:
        return []
    if recommend(wider[-1], asking.known, today=answer.today).chosen is None:
        return []
    answers = (recommend(each, asking.known, today=answer.today).chosen for each in wider)
    gives = next(filter(None, answers))
    change = Change(
        constraint="max_nodes", option="--max-nodes", before=str(request.max_nodes),
        after=str(gives.spec.count),
    )  # fmt: skip
    return [Relaxation(changes=(change,), gives=gives)]


class _Asking(NamedTuple):
    """The decision, asked about changed requests."""

    catalog: Catalog
    known: Preparations

    def answers(self, request: Request) -> Table | None:
        """Every spec and batch that answers a request; None where none does."""
        found = specs_that_answer(request, self.known.of(request))
        return found if found is not None and len(found) else None

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self.catalog.capability_of(gpu_name)
