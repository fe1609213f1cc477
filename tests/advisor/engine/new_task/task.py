"""The second: options, what they do, and which of them are enough."""

from types import SimpleNamespace

import numpy as np
from msgspec import Struct

from advisor.catalog import load_catalog
from advisor.domain import Rejected, Spec
from advisor.domain.decision import Judged
from advisor.engine.candidates import judged_offer, offers_in, place_query
from advisor.engine.columns import OptionTable
from advisor.engine.constraints import Amount, constraints_of
from advisor.engine.disks import disks_by_price
from advisor.engine.limits import Limit
from advisor.engine.task import Task
from advisor.messages import Message


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

    def cost(self, request, table, level=None):
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

    def assumptions(self, request, chosen):
        return (Message("a scene of {gib} GiB", gib=10),)

    def warnings(self, chosen, today):
        return ()

    def constraints(self, request):
        fps = Amount("target_frames_per_second", "--fps", most=False)
        return constraints_of(request, (fps, Amount("max_usd_per_hour", "--max-price")))

    def needs(self, name, request, table):
        return table.usd if name == "max_usd_per_hour" else table.sure

    def no_trial(self, request):
        return None

    def contenders(self, request, options, table, limit):
        may = (table.sure < request.target_frames_per_second) & (table.usd < limit)
        may &= 2 * table.sure >= request.target_frames_per_second
        return self.looked_at(request, [(table, row) for row in np.flatnonzero(may).tolist()])


class Table(OptionTable, frozen=True, kw_only=True):
    """Offers as columns."""

    @property
    def sure(self):
        return np.array([float(offer.instance.gpu_count) for offer in self.offers()])
