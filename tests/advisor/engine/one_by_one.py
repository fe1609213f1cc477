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
        levels = [confidence for confidence in confidences for _ in requests]
        return _Rows(self, [*requests] * len(confidences), levels)


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
        on_disks = [(w, replace(has, disk=disk)) for (w, has), disk in zip(pairs, disks, strict=True)]
        return self._at(rows, on_disks)

    def columns_with(self, rows, disks, cache=None):
        predictions = self._predicted(rows, disks, cache)
        return SimpleNamespace(
            lower=np.array([prediction.lower for prediction in predictions]),
            median=np.array([prediction.median for prediction in predictions]),
            upper=np.array([prediction.upper for prediction in predictions]),
            calibrated=np.array([prediction.calibrated for prediction in predictions], dtype=bool),
            bottleneck=np.array(
                [STAGES.index(prediction.bottleneck) for prediction in predictions], dtype=np.intp
            ),
        )

    def log_lowers(self, rows, disks, cache=None):
        return np.log([prediction.lower for prediction in self._predicted(rows, disks, cache)])

    def _predicted(self, rows, disks, cache):
        columns = zip(disks.mib_per_second.tolist(), disks.iops.tolist(), strict=True)
        pairs = []
        for row, (rate, iops) in zip(rows.tolist(), columns, strict=True):
            workload, has = self._requests[row]
            disk = replace(
                has.disk,
                read_mib_per_second=rate if rate < np.inf else None,
                read_iops=iops if iops < np.inf else None,
            )
            pairs.append((workload, replace(has, disk=disk)))
        return self._at(rows, pairs, cache)

    def _at(self, rows, pairs, cache=None):
        predictions = [None] * len(pairs)
        for confidence in dict.fromkeys(self._confidences):
            places = [index for index, row in enumerate(rows) if self._confidences[row] == confidence]
            if places:
                some = self._model.predict(
                    [pairs[index] for index in places], confidence=confidence, cache=cache
                )
                for index, prediction in zip(places, some, strict=True):
                    predictions[index] = prediction
        return predictions
