"""What models of the tests share: rows with other disks are predicted one by one."""

import numpy as np

from advisor.records import replace


class OneByOne:
    """A model that has `predict`."""

    def prepare(self, requests, *, confidence):
        return _Rows(self, requests, confidence)


class _Rows:
    def __init__(self, model, requests, confidence):
        self._model = model
        self._requests = requests
        self._confidence = confidence

    def with_disks(self, rows, disks):
        pairs = [self._requests[row] for row in rows]
        asked = [(w, replace(has, disk=disk)) for (w, has), disk in zip(pairs, disks, strict=True)]
        return self._model.predict(asked, confidence=self._confidence)

    def log_lowers(self, rows, disks):
        columns = zip(disks.mib_per_second.tolist(), disks.iops.tolist(), strict=True)
        found = self.with_disks(
            rows.tolist(),
            [
                replace(
                    self._requests[row][1].disk,
                    read_mib_per_second=rate if rate < np.inf else None,
                    read_iops=iops if iops < np.inf else None,
                )
                for row, (rate, iops) in zip(rows.tolist(), columns, strict=True)
            ],
        )
        return np.log([one.lower for one in found])
