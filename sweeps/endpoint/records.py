"""Requests to an endpoint, and their outcomes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from advisor.sweeps.endpoint.faults import RequestFailed

OK, CUT = "ok", "cut"


class Load(Struct, frozen=True):
    """A load: the number of requests in flight at any time (closed loop), or the rate at which requests
    begin at random (Poisson); one of the two is None."""

    concurrency: int | None = None
    requests_per_second: float | None = None

    @property
    def kind(self) -> str:
        """`closed_loop` or `poisson`."""
        return "poisson" if self.concurrency is None else "closed_loop"

    def __str__(self) -> str:
        if self.concurrency is None:
            return f"{self.requests_per_second:g} requests/s"
        return f"concurrency {self.concurrency}"


class RequestRecord(Struct):
    """One request. Moments are seconds after the measurement began.

    `status`: ok, cut (the load was over before the answer), or a fault's code, whose `detail` is
    what the server said. `piece_seconds` has the moment of each piece of the answer, of one token
    where the server streams each. `output_tokens` is the server's own count, else the pieces'.
    """

    load: int
    slot: int
    started_seconds: float
    asked_tokens: int
    status: str = CUT
    detail: str = ""
    ended_seconds: float | None = None
    piece_seconds: list[float] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def ttft_seconds(self) -> float | None:
        """To the first token."""
        return self.piece_seconds[0] - self.started_seconds if self.piece_seconds else None

    @property
    def tpot_seconds(self) -> float | None:
        """A token after the first one, in the mean; None where the answer is not whole, or has
        no second token."""
        tokens = self.output_tokens or 0
        if self.status != OK or tokens < 2 or len(self.piece_seconds) < 2:
            return None
        return (self.piece_seconds[-1] - self.piece_seconds[0]) / (tokens - 1)

    @property
    def tokens_per_piece(self) -> float:
        """1 where the server streams each token, or its count is not known."""
        if self.status != OK or not self.output_tokens or not self.piece_seconds:
            return 1.0
        return self.output_tokens / len(self.piece_seconds)

    def row(self) -> dict[str, Any]:
        """The request as a line of JSON has it; moments to the microsecond."""
        return {
            "load": self.load,
            "slot": self.slot,
            "status": self.status,
            "detail": self.detail,
            "started_seconds": round(self.started_seconds, 6),
            "ended_seconds": None if self.ended_seconds is None else round(self.ended_seconds, 6),
            "input_tokens": self.input_tokens,
            "asked_tokens": self.asked_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "piece_seconds": [round(moment, 6) for moment in self.piece_seconds],
        }


class DrivenLoad(Struct):
    """One load's requests. `began_seconds` and `ended_seconds` frame the time in which requests
    were begun; `busy_share` is the part of a core that the generator took in it, `late_seconds`
    how much later than planned its clock ticked. `failed`: it was given up."""

    load: Load
    number: int
    began_seconds: float
    ended_seconds: float = 0.0
    requests: list[RequestRecord] = field(default_factory=list)
    busy_share: float = 0.0
    late_seconds: list[float] = field(default_factory=list)
    failed: RequestFailed | None = None
    is_capped: bool = False


class Lengths(Struct, frozen=True):
    """Tokens of a prompt and of its answer, in the mean."""

    input_tokens: int
    output_tokens: int
