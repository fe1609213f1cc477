"""What to relax where nothing answers: one constraint at a time, and two where one is too few.

Every change is found by asking the decision again, and what it gives is its answer to the changed
request. That takes seconds, so it is done only where nothing fits and a person waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Candidate, Change, Recommendation, Relaxation, Request, Task
from advisor.engine.candidates import asks_for_gpu
from advisor.engine.decision import recommend, specs_that_answer
from advisor.engine.limits import count_that_would_do
from advisor.engine.network_constraints import constraints_of
from advisor.engine.prepared import Preparations, Prepared
from advisor.engine.relaxed import Effort, cheapest_relaxations
from advisor.engine.table import Table

if TYPE_CHECKING:
    from advisor.engine.model import PerformanceModel

_MOST_NODES = (2, 4, 8, 16, 32, 64)
# Other places and nodes are other workloads, each asked about in turn.
_MOST_PREPARED = 2
_MANY_ROWS = 30_000
_MOST_SHOWN = 10


def relaxations(
    answer: Recommendation,
    catalog: Catalog,
    model: PerformanceModel,
    effort: Effort | None = None,
    prepared: Prepared | None = None,
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first; empty where something does already.

    Each names one constraint and the least change of it that is enough. Where no single one is,
    each names two of the constraints that were asked for, and where no two are, there is one that
    names as many as it takes. None at all where the workload itself runs nowhere. `effort` notes
    whether it ended before all was found; `prepared` is what the answer itself stands on.
    """
    request = answer.request
    if answer.chosen is not None:
        return ()
    known, effort = Preparations(catalog, model, _MOST_PREPARED), effort or Effort()
    many = prepared is not None and prepared.rows > _MANY_ROWS
    if asks_for_gpu(request) or (many and request.task is not Task.PREPROCESSING):
        # Who asks for more than 24 GiB on a GPU is not helped by an instance without one; over all
        # clouds and markets there are tens of thousands of those.
        effort.was_stopped = many
        request = replace(request, accelerated_only=True)
    if prepared is not None:
        known.keep(request, prepared)
    # How many are shown decides nothing here; more of them are more types without a GPU to judge.
    request = replace(request, max_results=min(request.max_results, _MOST_SHOWN))
    asking = _Asking(catalog, known, effort)
    return cheapest_relaxations(
        request,
        list(constraints_of(request)),
        asking,
        lambda changed: asking.chosen(changed, answer),
        chain(_on_several(answer, asking), _on_nodes(answer, asking)),
    )


def _on_several(answer: Recommendation, asking: _Asking) -> Iterator[Relaxation]:
    """What as many instances give as it takes of the nearest one, where that is a way out."""
    request, nearest = answer.request, answer.nearest
    count = count_that_would_do(request, nearest) if nearest else None
    if count is None:
        return
    gives = asking.chosen(replace(request, max_count=count), answer)
    change = Change(
        constraint="max_count", option="--max-count", before=str(request.max_count), after=str(count)
    )
    if gives:
        yield Relaxation(changes=(change,), gives=gives)


def _on_nodes(answer: Recommendation, asking: _Asking) -> Iterator[Relaxation]:
    """What a training on several nodes gives, on twice as many again until one answers."""
    request = answer.request
    if request.task is not Task.TRAINING or answer.nearest is None:
        return
    wider = [replace(request, max_nodes=most) for most in _MOST_NODES if most > request.max_nodes]
    asking.effort.require()
    if not wider or asking.chosen(wider[-1], answer) is None:
        return
    gives = next(filter(None, (asking.chosen(each, answer) for each in wider)))
    change = Change(
        constraint="max_nodes",
        option="--max-nodes",
        before=str(request.max_nodes),
        after=str(gives.spec.count),
    )
    yield Relaxation(changes=(change,), gives=gives)


class _Asking(NamedTuple):
    """The decision, asked about changed requests."""

    catalog: Catalog
    known: Preparations
    effort: Effort

    def answers(self, request: Request) -> Table | None:
        """Every spec and batch that answers a request; None where none does."""
        self.effort.require()
        prepared = self.known.of(request)
        before = prepared.rows
        found = specs_that_answer(request, prepared)
        self.effort.spend(prepared.rows - before + (0 if found is None else len(found)))
        return found if found is not None and len(found) else None

    def chosen(self, request: Request, answer: Recommendation) -> Candidate | None:
        """What is recommended then, asked as `answer` was."""
        prepared = self.known.of(request)
        before = prepared.rows
        given = recommend(request, self.known, today=answer.today).chosen
        self.effort.spend(prepared.rows - before)
        return given

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self.catalog.capability_of(gpu_name)
