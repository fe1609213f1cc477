"""Hours and dollars of a whole run, as JSON, as a line of text and as table cells."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from advisor.domain import Request, RunTime, Span
from advisor.units import ceil_significant, format_counted, format_hours, format_usd

# A first epoch that is less slower than this is not worth a word.
TOLD_SLOWER = 1.05
SMALLEST_USD = 0.0001
BOUNDS = ("lower", "median", "upper")
RUN_COLUMNS = (
    "run_samples",
    *(f"run_hours_{bound}" for bound in BOUNDS),
    *(f"run_usd_{bound}" for bound in BOUNDS),
)


def run_document(run: RunTime | None, usd: Span | None) -> dict[str, Any] | None:
    """JSON-ready values, null where no run was asked for; `usd` is null where no price is known."""
    if run is None:
        return None
    return {
        "samples": run.samples,
        "hours": _span_document(run.hours),
        "usd": _span_document(usd) if usd else None,
        "first_epoch_hours": _span_document(run.first_epoch) if run.first_epoch else None,
    }


def _span_document(span: Span) -> dict[str, float | None]:
    """An infinite bound is null: nothing is sure."""
    values = {bound: float(getattr(span, bound)) for bound in BOUNDS}
    return {bound: value if isfinite(value) else None for bound, value in values.items()}


def run_lines(request: Request, run: RunTime | None, usd: Span | None) -> list[str]:
    """'90 epochs: 30 h likely, surely within 42.1 h', and what that costs; none without a run."""
    if run is None:
        return []
    length = format_counted(run.samples, "sample")
    if request.epochs is not None:
        length = format_counted(request.epochs, "epoch")
    time = _sure_text(run.hours, format_hours, "within")
    lines = [f"  run         {length}: {time}{_first_epoch_text(request, run)}"]
    return lines + ([f"  run costs   {_sure_text(usd, _usd, 'up to')}"] if usd else [])


def _first_epoch_text(request: Request, run: RunTime) -> str:
    """How long the first epoch takes where reading the disk makes it slower than later ones."""
    first, epochs = run.first_epoch, run.samples / request.dataset.samples
    if first is None or epochs <= 1:
        return ""
    later = (run.hours.median - first.median) / (epochs - 1)
    if first.median < TOLD_SLOWER * later:
        return ""
    return f" (the first, from the disk: {format_hours(first.median)})"


def _sure_text(span: Span, told: Any, bound: str) -> str:
    surely = f"surely {bound} {told(span.upper, up=True)}" if isfinite(span.upper) else "not sure"
    return f"{told(span.median)} likely, {surely}"


def _usd(usd: float, *, up: bool = False) -> str:
    if usd < SMALLEST_USD:
        return f"under {format_usd(SMALLEST_USD)}"
    return format_usd(ceil_significant(usd) if up else usd)


def run_cells(run: Mapping[str, Any] | None) -> dict[str, Any]:
    """The cells of `RUN_COLUMNS` from a document's `run`; empty where there is none."""
    hours, usd = ((run or {}).get(name) or {} for name in ("hours", "usd"))
    return {
        "run_samples": (run or {}).get("samples"),
        **{f"run_hours_{bound}": hours.get(bound) for bound in BOUNDS},
        **{f"run_usd_{bound}": usd.get(bound) for bound in BOUNDS},
    }
