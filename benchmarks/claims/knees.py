"""Where more vCPUs stop helping: read off measured curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from advisor.domain import Measurement
from benchmarks.claims.evidence import full_speed, host_rate_per_vcpu, rate_of
from benchmarks.claims.scale import SCALE


class Knee(Struct, frozen=True, kw_only=True):
    """A curve of a workload over vCPUs, all at the scale of the real accelerator.

    `rates` by vCPUs are measured. `accelerator` is its rate by itself. `vcpus_needed` is
    modelled: the accelerator's rate over the measured host rate of a vCPU.
    """

    rates: Mapping[float, float]
    accelerator: float
    vcpus_needed: float

    def share(self, vcpus: float) -> float | None:
        """Rate with so many vCPUs over the rate with the most; None where it was not measured.

        Between measured ends that are alike a curve is flat, since more vCPUs lower no rate.
        """
        most = max(self.rates)
        if vcpus in self.rates:
            return self.rates[vcpus] / self.rates[most]
        low = self.rates[min(self.rates)] / self.rates[most]
        return low if low >= 0.97 and vcpus > min(self.rates) else None

    def at(self, tolerance: float) -> float | None:
        """Fewest measured vCPUs whose rate is within `tolerance` of the most's; None where
        the most do not feed the accelerator yet."""
        most = max(self.rates)
        if self.rates[most] < (1 - tolerance) * self.accelerator:
            return None
        enough = (1 - tolerance) * self.rates[most]
        return min(vcpus for vcpus, rate in self.rates.items() if rate >= enough)

    def shown(self, tolerance: float) -> str:
        """'<=1', '4' or '>8' vCPUs."""
        knee = self.at(tolerance)
        if knee is None:
            return f">{max(self.rates):g}"
        return f"<={knee:g}" if knee == min(self.rates) else f"{knee:g}"


def knee_of(rows: Mapping[float, Measurement]) -> Knee:
    """The curve of rows by vCPUs of their trials."""
    one = rows[max(rows)]
    rate = rate_of(one) and float(one.stage_rates["accelerator"]) * SCALE
    # Small shares of a CPU are measured less well: the host's rate comes from the most.
    return Knee(
        rates={vcpus * SCALE: full_speed(row) for vcpus, row in rows.items()},
        accelerator=rate,
        vcpus_needed=rate / host_rate_per_vcpu(one),
    )


def knee_document(knee: Knee) -> dict[str, Any]:
    """As JSON."""
    return {
        "samples_per_second_by_vcpus": {f"{v:g}": round(r, 1) for v, r in knee.rates.items()},
        "accelerator_samples_per_second": round(knee.accelerator, 1),
        "knee_3_percent": knee.shown(0.03),
        "knee_5_percent": knee.shown(0.05),
        "vcpus_needed_modelled": round(knee.vcpus_needed, 2),
    }
