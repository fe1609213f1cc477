"""What was measured of a replica under a load: what the serving predictor is conditioned on."""

from __future__ import annotations

from typing import NamedTuple

from advisor.models.language.deployments import Deployment, Traffic


class ServingObservation(NamedTuple):
    """One replica with `concurrency` requests in flight in the mean.

    `requests_per_second` is the Poisson rate that was held, None in a closed loop. Times are means
    of one request, TPOT without the first token; what was not measured is None. Each sigma is the
    standard error of the natural logarithm, of the figure as another run would have it. `origin`
    is the file and row that a message names.
    """

    deployment: Deployment
    traffic: Traffic
    concurrency: float
    requests_per_second: float | None = None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    output_tokens_per_second: float | None = None
    ttft_sigma: float = 0.1
    tpot_sigma: float = 0.03
    rate_sigma: float = 0.03
    origin: str = ""
