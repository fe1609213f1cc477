"""What models of the tests share: rows with other disks are predicted one by one."""

from types import SimpleNamespace

import numpy as np
from msgspec.structs import replace

from advisor.models.performance.pipeline import STAGES


class OneByOne:
    """A model that has `predict`."""

    def remembering(self):
        return self

    def prepare(self, requests, *, confidence):
        return _Rows(self, requests, [confidence] * len(requests))

    def prepare_each(self, requests, *, confidences):
        at = [confidence for confidence in confidences for _ in requests]
        return _Rows(self, [*requests] * len(confidences), at)


class _Rows:
    def __init__(self, model, requests, confidences):
        self._model = model
        self._requests = requests
        self._confidences = confidences

    def beside(self, other):
        return _Rows(
            self._model, [*self._requests, *other._requests], [*self._confidences, *other._confidences]
        )

    def with_disks(self, rows, disks):
        pairs = [self._requests[row] for row in rows]
        asked = [(w, replace(has, disk=disk)) for (w, has), disk in zip(pairs, disks, strict=True)]
        return self._at(rows, asked)

    def columns_with(self, rows, disks, cache=None):
        found = self._predicted(rows, disks, cache)
        return SimpleNamespace(
            lower=np.array([one.lower for one in found]),
            median=np.array([one.median for one in found]),
            upper=np.array([one.upper for one in found]),
            calibrated=np.array([one.calibrated for one in found], dtype=bool),
            bottleneck=np.array([STAGES.index(one.bottleneck) for one in found], dtype=np.intp),
        )

    def log_lowers(self, rows, disks, cache=None):
        return np.log([one.lower for one in self._predicted(rows, disks, cache)])

    def _predicted(self, rows, disks, cache):
        columns = zip(disks.mib_per_second.tolist(), disks.iops.tolist(), strict=True)
        asked = []
        for row, (rate, iops) in zip(rows.tolist(), columns, strict=True):
            workload, has = self._requests[row]
            disk = replace(
                has.disk,
                read_mib_per_second=rate if rate < np.inf else None,
                read_iops=iops if iops < np.inf else None,
            )
            asked.append((workload, replace(has, disk=disk)))
        return self._at(rows, asked, cache)

    def _at(self, rows, asked, cache=None):
        found = [None] * len(asked)
        for confidence in dict.fromkeys(self._confidences):
            places = [at for at, row in enumerate(rows) if self._confidences[row] == confidence]
            if places:
                some = self._model.predict([asked[at] for at in places], confidence=confidence, cache=cache)
                for at, one in zip(places, some, strict=True):
                    found[at] = one
        return found
