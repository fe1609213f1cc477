"""A kind of work that nobody thought of is one class: it is decided, doubted and relaxed as all are."""

from datetime import date
from types import SimpleNamespace

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import Rejected, Spec
from advisor.domain.decision import Judged
from advisor.engine.columns import OptionTable
from advisor.engine.constraints import Amount
from advisor.engine.decide import recommend
from advisor.engine.disks import disks_by_price
from advisor.engine.limits import Limit
from advisor.engine.offers import judged_offer, offers_in, place_query
from advisor.engine.place_constraints import of_place
from advisor.engine.relax import relaxations
from advisor.engine.task import Task
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion

TODAY = date(2026, 11, 23)
SURE = {"required_confidence": 0.9}


class Rendering(SpecQuestion):
    """Frames a second are to be rendered, whose scene is 10 GiB."""

    target_frames_per_second: float


class Rendered(Struct, frozen=True, kw_only=True):
    """A candidate."""

    spec: Spec
    frames_per_second: float
    probability: float | None = None


class Renderer(Task):
    """Two frames a second for each GPU, half of it for sure."""

    answer = Judged
    catalog = load_catalog()

    def options(self, request, most_usd_per_hour=None):
        offers = offers_in(self.catalog, place_query(request, accelerated=True))
        options, rejected = [], []
        for offer in offers:
            disks = judged_offer(request, self.catalog, offer, needs_gpu=True)
            if not isinstance(disks, Rejected):
                disks = disks_by_price(request, self.catalog, offer, 10)
            if isinstance(disks, Rejected):
                rejected.append(disks)
            else:
                options.append(SimpleNamespace(offer=offer, disk=disks[0]))
        table = Table.of(options) if options else None
        return SimpleNamespace(table=table, rejected=rejected, considered=len(offers))

    def predict(self, request, options):
        return options.table

    def limits(self, request, table):
        rate = table.sure if request.is_sure else 2 * table.sure
        limits = [Limit("too_slow", rate >= request.target_frames_per_second, rate)]
        if request.max_usd_per_hour is not None:
            limits.append(Limit("over_max_price", table.usd <= request.max_usd_per_hour, -table.usd))
        return limits

    def ranks_by_price(self, request):
        return True

    def cost(self, request, table):
        return table.usd

    def worst_cost(self, request, table):
        return table.usd

    def candidate_cost(self, request, candidate):
        return candidate.spec.total_usd_per_hour

    def aims(self, request, table):
        return [((table.sure, 2 * table.sure, 4 * table.sure), request.target_frames_per_second)]

    def rate(self, request, table):
        return table.sure

    def candidates(self, request, table, rows):
        specs = [Spec(offer=table.offer(row), disk=table.disk[row], count=1) for row in rows]
        records = [Rendered(spec=spec, frames_per_second=2 * spec.offer.instance.gpu_count) for spec in specs]
        return self.with_chances(request, table, rows, records)

    def shortfall(self, request, table, row, reason):
        return Message("{rate:g} frames/s", code=reason, rate=float(table.sure[row]))

    def assumptions(self, request, options, chosen):
        return (Message("a scene of {gib} GiB", gib=10),)

    def warnings(self, chosen, today):
        return ()

    def constraints(self, request):
        yield Amount("target_frames_per_second", "--fps", most=False)
        if request.max_usd_per_hour is not None:
            yield Amount("max_usd_per_hour", "--max-price")
        yield from of_place(request)

    def needs(self, name, request, table):
        return table.usd if name == "max_usd_per_hour" else table.sure

    def trials_tell(self, request):
        return True

    def contenders(self, request, options, table, limit):
        may = (table.sure < request.target_frames_per_second) & (table.usd < limit)
        may &= 2 * table.sure >= request.target_frames_per_second
        return self.looked_at(request, options, [(table, row) for row in np.flatnonzero(may).tolist()])


class Table(OptionTable, frozen=True, kw_only=True):
    """Offers as columns."""

    @property
    def sure(self):
        return np.array([float(offer.instance.gpu_count) for offer in self.offers()])


def test_the_cheapest_that_is_enough_is_chosen_and_the_others_have_a_reason():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=4, **SURE), today=TODAY)
    assert answer.chosen.spec.offer.instance.gpu_count >= 4
    costs = [candidate.spec.total_usd_per_hour for candidate in answer.ranked]
    assert costs == sorted(costs)
    assert {"too_slow"} <= set(answer.rejected_by_reason)
    assert relaxations(Renderer(), answer) == ()


def test_a_cheaper_one_that_may_do_is_worth_a_trial():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=8, **SURE), today=TODAY)
    assert answer.close_calls
    for call in answer.close_calls:
        assert call.candidate.spec.total_usd_per_hour < answer.chosen.spec.total_usd_per_hour
        assert call.worth_usd > call.trial_usd


def test_a_miss_counts_by_its_cost_and_the_safe_spec_stands_beside_the_cheap_one():
    answer = recommend(Renderer(), Rendering(target_frames_per_second=8), today=TODAY)
    sure = recommend(Renderer(), Rendering(target_frames_per_second=8, **SURE), today=TODAY)
    assert 0.5 <= answer.chosen.probability < 0.9 <= answer.safe.probability
    assert answer.chosen.spec.total_usd_per_hour < answer.safe.spec.total_usd_per_hour
    assert answer.safe == sure.chosen


def test_where_nothing_is_enough_the_nearest_and_the_least_change_are_told():
    request = Rendering(target_frames_per_second=8, max_usd_per_hour=1.0, **SURE)
    answer = recommend(Renderer(), request, today=TODAY)
    assert answer.chosen is None
    assert answer.nearest.spec.total_usd_per_hour <= 1.0
    assert answer.beyond_price.spec.offer.instance.gpu_count >= 8
    changed = {way.changes[0].constraint: way for way in relaxations(Renderer(), answer)}
    needed = float(changed["max_usd_per_hour"].changes[0].after)
    gives = changed["max_usd_per_hour"].gives
    assert gives.spec.total_usd_per_hour <= needed
    less = replace(request, max_usd_per_hour=needed - 0.01)
    assert recommend(Renderer(), less, today=TODAY).chosen is None
    assert "target_frames_per_second" in changed
