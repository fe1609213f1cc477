"""What a chart shows, in words, for whoever cannot see it: with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, percent
from advisor.render.sizing.naming import spec_name
from advisor.units import format_mib, format_rate, format_usd

Row = Mapping[str, Any]


def price_alt(rows: Sequence[Row], target: float | None, t: Texts) -> str:
    """The pick, the cheapest spec and the end of the front; how many there are."""
    chosen = [t("price.alt_chosen", one=_spec(one, t)) for one in rows if one["chosen"]]
    aims = [t("price.alt_target", rate=format_rate(target))] if target else []
    front = [one for one in rows if one["on_front"]] or rows
    told = "".join(f"{one} " for one in (*chosen, *aims))
    return t(
        "price.alt", count=len(rows), chosen=told,
        least=_spec(rows[0], t), most=_spec(front[-1], t),
    )  # fmt: skip


def _spec(one: Row, t: Texts) -> str:
    return t(
        "price.alt_one", name=spec_name(one), usd=format_usd(one["total_usd_per_hour"]),
        lower=lower_rate(one["lower"]), median=format_rate(one["median"]),
        upper=format_rate(one["upper"]),
    )  # fmt: skip


def stages_alt(stages: Sequence[Row], t: Texts) -> str:
    """Every stage with its share and its own rate."""
    said = (
        t(
            "stages.alt", stage=t.known("stage." + one["stage"], one["stage"]),
            used=percent(one["utilization"]), rate=format_rate(one["samples_per_second"]),
        )
        for one in stages
    )  # fmt: skip
    return _joined(said)


def curve_alt(
    name: str, points: Sequence[tuple[str, float]], rates: Sequence[float], t: Texts
) -> str:
    """A curve's points, at most seven of them with both ends, and the span of what is measured."""
    step = max(1, -(-len(points) // 6))
    some = [*points[::step], *points[-1:]]
    told = [t("curves.alt_point", rate=format_rate(y), x=x) for x, y in dict(some).items()]
    if rates:
        least, most = format_rate(min(rates)), format_rate(max(rates))
        told.append(t("curves.alt_measured", count=len(rates), least=least, most=most))
    return t("curves.alt", name=name, points=_joined(told))


def memory_alt(batches: Sequence[Row], t: Texts) -> str:
    """Which batches fit, with what each needs."""

    def told(fits: bool) -> str:
        return _joined(
            t("memory.alt_one", batch=one["batch_size"], mib=format_mib(one["needed_mib"]))
            for one in batches
            if one["fits"] is fits
        )

    fits, beyond = told(True), told(False)
    return t(
        "memory.alt",
        fits=t("memory.alt_fits", list=fits) if fits else "",
        beyond=t("memory.alt_beyond", list=beyond) if beyond else "",
    ).strip()


def _joined(parts: Any) -> str:
    return "; ".join(parts)
