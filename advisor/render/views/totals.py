"""Writes the first page of a report on several workloads: the total cost, the risks, what would cost less,
and a line for each workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from math import ceil
from typing import Any

from advisor.catalog.overlay import is_live, refresh_command
from advisor.domain import HOURS_PER_MONTH, LIST, Market
from advisor.domain.decision import TRIAL_MINUTES, trial_cost_usd
from advisor.domain.results import unmeasured_gpu
from advisor.messages import format_rate, format_target, short_usd, sum_of_shown
from advisor.render.blocks import Column, Items, Look, Paragraph, Part, Section, Table, percent, plain
from advisor.render.borderline import modest
from advisor.render.document import is_language
from advisor.render.facts import (
    ANSWERED,
    covers_clouds,
    decision_of,
    doubt_of,
    hours_of_month,
    is_committed,
    month_usd,
    most_run_usd,
    on_demand_usd,
    per_month,
    safe_spec,
    section_run_usd,
    share_of_month,
    type_name,
)
from advisor.render.i18n.catalogue import Texts
from advisor.render.records import WEAK
from advisor.render.sentences import (
    aimed_at,
    calls_of_chosen,
    columns_of,
    evidence_word,
    relax_sentence,
    unit_name,
)
from advisor.render.text import SURE
from advisor.render.views.alternatives import cheapest_step

Record = Mapping[str, Any]
# The most workloads to name in one sentence, and the most gambles to describe.
_MOST_NAMES = 3
# Names longer than this may be broken over lines.
_LONGEST = 20


def totals_section(document: Record, t: Texts, brief: str) -> Section:
    """Return the page about all workloads: what they cost together, and a line for each."""
    sections, totals = document["workloads"], document["totals"]
    answered = list(filter(_answered, sections))
    blocks: list[Any] = [Paragraph(_bill(document, answered, t), "answer")]
    blocks += [Paragraph(t(brief), "note")] if brief else []
    columns = _columns(sections, t)
    # The cost of one run each is left out if some run more often, because nobody pays that sum.
    once = totals["run_usd"] and "month_with_runs_usd" not in totals
    sums = [[usd_of(each) for each in answered] for usd_of in (month_usd, section_run_usd)]
    texts = [short_usd(sum_of_shown(filter(None, usd))) if any(usd) else "" for usd in sums]
    texts = [texts[0], *([texts[1] if once else ""] if totals["run_usd"] else [])]
    counted = [each for each in answered if once or month_usd(each) is not None]
    title = t("totals.all") if len(counted) == len(sections) else t("totals.part", names=_names(counted, t))
    total = [title, *[""] * (len(columns) - 1 - len(texts)), *texts] if answered else []
    blocks.append(Table(columns, sections, total=total))
    blocks.append(Paragraph(_legend(sections, answered, t), "note"))
    for name, says in (("risks", _risks(document, answered, t)), ("less", _savings(answered, t))):
        if texts := list(says):
            blocks.append(Part(t(f"totals.{name}"), [Items(texts)]))
    blocks += [_quotas(totals["quotas"], t)] if totals.get("quotas") else []
    return Section(t("totals.title"), "", blocks)


def totals_sentences(document: Record, t: Texts) -> list[str]:
    """Return the same content as sentences: the total cost, the risks, and what would cost less."""
    sections = document["workloads"]
    answered = list(filter(_answered, sections))
    return [_bill(document, answered, t), *_risks(document, answered, t), *_savings(answered, t)]


def _bill(document: Record, answered: Sequence[Record], t: Texts) -> str:
    """Return what a month and each run cost, and which workloads have no answer."""
    sections = document["workloads"]
    if not answered:
        return t("totals.none", workloads=len(sections))
    runs = [section for section in answered if month_usd(section) is None]
    monthly = [section for section in answered if section_run_usd(section) is None]
    held = list(filter(_held, monthly))
    hours = _planned(monthly, "hours_per_month", t)
    kept = [each for each in monthly if each not in held and "hours_per_month" not in each]
    often = _planned(filter(section_run_usd, answered), "runs_per_month", t)
    costs = []
    for key, some, usd_of in (
        ("month", kept, month_usd),
        ("hours", hours, month_usd),
        ("held", held, month_usd),
        ("often", often, month_usd),
        ("run" if len(runs) == 1 else "runs", runs, section_run_usd),
    ):
        if some:
            usd = short_usd(sum_of_shown(usd_of(section) or 0.0 for section in some))
            costs.append(t(f"totals.{key}", usd=usd, names=_names(some, t)))
    says = [t("totals.sum", costs=t.listed(costs))]
    unmet = [section for section in sections if _answered(section) is None]
    span = (document["totals"].get("price_range") or {}).get("month_usd") or {"low": 0.0, "high": 0.0}
    is_wide = span["high"] > SURE * span["low"]
    if is_wide or sum(map(bool, (kept, hours, held, often))) > 1:
        left_out = (("unfit", unmet), ("unplanned", runs))
        lacks = [t(f"totals.{why}", names=_names(some, t)) for why, some in left_out if some]
        without = t("totals.without", lacks=all_of(lacks, t)) if lacks else ""
        usd = short_usd(sum_of_shown(filter(None, map(month_usd, answered))))
        ends = {end: short_usd(usd) for end, usd in span.items()}
        ranges = t.aside(t("totals.span", **ends)) if is_wide else ""
        says.append(t("totals.in_all", usd=usd, without=ranges + without))
    elif unmet:
        says.append(t("totals.unmet", names=_names(unmet, t)))
    return t.joined(says)


def _planned(sections: Iterable[Record], key: str, t: Texts) -> list[Record]:
    """Return the workloads whose plan says how much a month has of them, with that beside their names."""
    return [
        {**each, "name": t(f"totals.{key}", name=each["name"][:60], amount=plain(each[key]))}
        for each in sections
        if each.get(key)
    ]


def _risks(document: Record, answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """Yield the risks, the worst first: nothing fits, a target may be missed, a run may cost more, or a rate
    or price is uncertain."""
    for section in document["workloads"]:
        ways = section["recommendation"]["relax"]
        if _answered(section) is None and ways:
            way = relax_sentence(ways[0], section["recommendation"]["request"], t)
            yield t("totals.way_out", name=section["name"][:80], way=way)
    for quota in document["totals"].get("quotas") or ():
        if quota["allowed"] is not None and quota["vcpus"] > quota["allowed"]:
            yield t("quota.short", **{**quota, "allowed": plain(quota["allowed"])})
    yield from _gambles(document["totals"], answered, t)
    yield from _run_bounds(answered, t)
    if weak := [each for each in answered if each["answer"]["spec"]["risk"] >= WEAK]:
        trials = [
            t("totals.trial", name=each["name"][:80], **trial)
            for each in weak[:_MOST_NAMES]
            if (trial := trial_of(each))
        ]
        tries = [t("totals.try", trials=t("brief.comma").join(trials))] if trials else []
        yield t.joined([t("totals.weak", names=_names(weak, t)), *tries])
    gpus = {id(each): _unmeasured(each["recommendation"]["recommendation"]) for each in answered}
    if never := [each for each in answered if gpus[id(each)]]:
        named = t("brief.comma").join(dict.fromkeys(filter(None, gpus.values())))
        yield t("totals.never", names=_names(never, t), gpus=named)
    yield from _price_risks(document, answered, t)


def trial_of(section: Record) -> dict[str, str] | None:
    """Return the minutes and dollars of a pick's trial, on demand and on one instance; None without one."""
    answer, spec = section["recommendation"], section["answer"]["spec"]
    if calls := calls_of_chosen(answer):
        trial = calls[0]["trial"]
        return {"minutes": plain(trial["minutes"]), "usd": short_usd(trial["usd"])}
    if not section.get("trial_command"):
        return None
    usd = _choices(section).get(Market.ON_DEMAND, spec)["usd_per_hour"] / spec["count"]
    starts = (answer["recommendation"].get("serving") or {}).get("ready_seconds") or {"total": 0.0}
    minutes = ceil(TRIAL_MINUTES + starts["total"] / 60)
    return {"minutes": plain(minutes), "usd": short_usd(trial_cost_usd(usd, minutes))}


def _run_bounds(answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """Yield the upper bound of each run's cost, the dearest first, and runs too long for their commitment."""
    bounds = [
        (upper, section.get("runs_per_month") or 0, section)
        for section in answered
        if section_run_usd(section)
        if (spec := section["recommendation"]["recommendation"]) and (upper := most_run_usd(spec)) is not None
    ]
    texts = []
    for upper, often, section in sorted(bounds, key=lambda bound: -bound[0])[:_MOST_NAMES]:
        spec = section["answer"]["spec"]
        doubt = doubt_of(spec, section_run_usd(section) or 0.0) or {"high": 0.0}
        usd, moved = (
            short_usd(usd) + (t.aside(t("cost.month", usd=short_usd(usd * often))) if often else "")
            for usd in (upper, doubt["high"])
        )
        about = {"usd": usd, "moved": moved, "name": section["name"][:80], "day": spec["price_as_of"]}
        texts.append(t("totals.moved" if doubt["high"] else "totals.most_one", **about))
    if texts:
        share = percent(bounds[0][2]["answer"]["confidence"])
        yield t("totals.most", percent=share, costs=t("brief.comma").join(texts))
    for each in filter(_held, answered):
        if (most := share_of_month(each, "upper")) and most > 1:
            sure, runs = percent(each["answer"]["confidence"]), plain(each["runs_per_month"])
            yield t("totals.full", name=each["name"][:80], runs=runs, most=percent(most), percent=sure)


def _price_risks(document: Record, answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """Yield the price risks: spot interruptions, binding commitments and old price lists."""
    if spot := [each for each in answered if each["answer"]["spec"]["market"] == Market.SPOT]:
        firm = t("brief.comma").join(filter(None, (_firm_text(each, t) for each in spot[:_MOST_NAMES])))
        firm = t("totals.firm", costs=firm) if firm else ""
        yield t.joined(filter(None, (t("totals.spot", names=_names(spot, t)), firm)))
    for market, usd_per_hour in document["totals"]["usd_per_hour_by_market"].items():
        if market.startswith("commitment"):
            usd = short_usd(usd_per_hour * document["totals"]["hours_per_month"])
            yield t("totals.committed", market=t.known(f"market.{market}", market), usd=usd)
    specs = [section["answer"]["spec"] for section in answered]
    if listed := [spec["price_as_of"] for spec in specs if spec.get("price_kind", LIST) == LIST]:
        age = (date.fromisoformat(document["as_of"]) - date.fromisoformat(min(listed))).days
        if age >= 0:  # a report of an earlier day has the prices of today
            yield t.joined([t("totals.age", day=min(listed), days=age), *_how_to_check(answered, t)])


def _firm_text(section: Record, t: Texts) -> str:
    """'Chat 2 x g6.xlarge $1,178 a month': what work on spot costs at a listed price, if one is known."""
    answer, call = section["recommendation"], section["recommendation"].get("price_call") or {}
    firm, per = call.get("listed"), {"hour": "month", "run": "run"}.get(call.get("per", ""))
    if not (firm and per) or firm["market"] == answer["recommendation"]["market"]:
        return ""
    usd = firm["cost"]["median"] * (hours_of_month(section, firm) if per == "month" else 1)
    name = f"{section['name'][:80]} {type_name(firm, clouds=covers_clouds(answer))}"
    return t("totals.for", name=name, usd=t(f"cost.{per}", usd=short_usd(usd)))


def _how_to_check(answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """Yield how this plan gets today's prices: by --live if it has networks alone, else by a refresh."""
    specs = [section["answer"]["spec"] for section in answered]
    live = [spec for spec in specs if is_live(spec["cloud"], spec["market"])]
    if live and not any(is_language(section["recommendation"]) for section in answered):
        yield t("totals.by_live")
    elif live:
        places = dict.fromkeys((spec["cloud"], spec["region"]) for spec in live)
        command = refresh_command(*next(iter(places))) if len(places) == 1 else "advisor catalog refresh"
        yield t("totals.by_refresh", command=command)


def _gambles(totals: Record, answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """For the least sure workloads, yield the chance of a miss, the trial that settles it, and the safe spec.
    Then name the workloads that no trial settles, and those without a safe spec."""
    calls = [(call, each) for each in answered for call in calls_of_chosen(each["recommendation"])]
    for call, section in sorted(calls, key=lambda row: float(row[0]["probability"]))[:_MOST_NAMES]:
        run, spec = section_run_usd(section), section["answer"]["spec"]
        per, usd = ("month", spec["usd_per_month"]) if run is None else ("run", run)
        more = call[f"saves_usd_per_{per}"] or 0.0
        more *= 1.0 if run else hours_of_month(section, spec) / HOURS_PER_MONTH
        about = {"name": section["name"][:80], "percent": percent(1 - modest(call["probability"]))}
        trial = {"minutes": plain(call["trial"]["minutes"]), "trial": short_usd(call["trial"]["usd"])}
        safe = _safe_text(section, t(f"safe.{per}", usd=short_usd(usd + more)), t)
        yield t("totals.gamble", **about, **trial, safe=safe)
    without = (totals.get("safe") or {"without": ()})["without"]
    settled = {id(section) for _, section in calls}
    chances = [
        (decision_of(each["recommendation"]).get("probability"), each)
        for each in answered
        if id(each) not in settled and each["name"] not in without
    ]
    unsure = [
        t("totals.chance", name=each["name"][:80], percent=percent(1 - modest(chance)))
        for chance, each in chances
        if chance is not None and chance < each["answer"]["confidence"]
    ]
    if unsure:
        yield t("totals.unsettled", names=t("brief.comma").join(unsure))
    if without:
        yield t("totals.unsafe", names=t("brief.comma").join(without))


def _safe_text(section: Record, costs: str, t: Texts) -> str:
    """', or rent g7e.2xlarge (99 % sure): $2,457 a month': the safe spec, if any, and whether its GPU was
    measured."""
    answer, pick = section["recommendation"], section["answer"]["spec"]
    if (spec := safe_spec(answer)) is None:
        return ""
    other = "" if spec["market"] == pick["market"] else t.aside(t("market." + spec["market"]))
    name = type_name(spec, clouds=covers_clouds(answer)) + other
    key = "safe.unmeasured" if _unmeasured(spec) else "safe.measured"
    return t("safe.spec", spec=name, sure=t(key, percent=percent(modest(spec["probability"]))), costs=costs)


def _unmeasured(spec: Record) -> str:
    text = unmeasured_gpu(spec["extrapolation"])
    return str(text.parameters["gpu"]) if text else ""


def _savings(answered: Sequence[Record], t: Texts) -> Iterator[str]:
    """Yield what would cost less, the largest saving first, then what was not compared."""
    savings = [*_by_format(answered, t), *_by_market(answered, t)]
    yield from (text for _, text in sorted(savings, reverse=True))
    on_demand = [each for each in answered if each["answer"]["spec"]["market"] == Market.ON_DEMAND]
    if unknown := [each for each in on_demand if each["costs"] and Market.SPOT not in _choices(each)]:
        yield t("totals.no_spot", names=_names(unknown, t))
    for each in answered:
        usd, share, spec = on_demand_usd(each), share_of_month(each), each["answer"]["spec"]
        if is_committed(spec) and share and usd and usd < spec["usd_per_month"]:
            yield t("totals.used", name=each["name"][:80], percent=percent(share), usd=short_usd(usd))
    if answered and not any(covers_clouds(each["recommendation"]) for each in answered):
        yield t("totals.clouds")


def _by_format(answered: Sequence[Record], t: Texts) -> Iterator[tuple[float, str]]:
    """Yield the dollars a month that each workload saves with a smaller number format, and a sentence."""
    for each in answered:
        if section_run_usd(each) is None and (step := cheapest_step(each["recommendation"])):
            spec, usd = step["instead"], each["answer"]["spec"]["usd_per_month"]
            less = per_month(spec["total_usd_per_hour"], hours_of_month(each, spec))
            about = {"name": each["name"][:80], "spec": type_name(spec, clouds=False)}
            costs = {"usd": short_usd(less), "now": short_usd(usd), "option": step["option"]}
            yield usd - less, t("totals.format", **about, **costs)


def _by_market(answered: Sequence[Record], t: Texts) -> Iterator[tuple[float, str]]:
    """Yield the dollars that spot instances or a year's commitment save, and a sentence."""
    for key, market in (("totals.on_spot", Market.SPOT), ("totals.commit", Market.COMMITMENT_1Y)):
        if not (priced := _at_market(answered, market)):
            continue
        costs = [t("totals.for", name=each["name"][:80], usd=_usd_at(each, row, t)) for each, row in priced]
        untried = [each for each, _ in priced if calls_of_chosen(each["recommendation"])]
        saved = sum(each["answer"]["spec"]["usd_per_month"] - row["usd_per_month"] for each, row in priced)
        yield (
            saved,
            t(
                key,
                names=_names([each for each, _ in priced], t),
                costs=t("brief.comma").join(costs[:_MOST_NAMES]),
                usd=short_usd(saved),
                days=all_of(sorted({str(row["as_of"]) for _, row in priced}), t),
                after=t("totals.after", names=_names(untried, t)) if untried else "",
            ),
        )


def _at_market(sections: Iterable[Record], market: Market) -> list[tuple[Record, Record]]:
    """Return the workloads whose pick is on demand and costs less on another market, each with that price."""
    return [
        (section, row)
        for section in sections
        if (spec := section["answer"]["spec"])["market"] == Market.ON_DEMAND
        # A commitment makes no sense for a run, and owes hours that a plan may not use.
        and (market is Market.SPOT or section_run_usd(section) is None)
        and (row := _choices(section).get(market))
        and row["usd_per_month"] < spec["usd_per_month"]
    ]


def _choices(section: Record) -> dict[str, Record]:
    """Return the pick's known prices by market; saved answers have none."""
    return {row["market"]: row for row in (section["costs"] or {"choices": ()})["choices"]}


def _usd_at(section: Record, row: Record, t: Texts) -> str:
    """'$224 a month', '$20.30 a run': what the pick costs at another hourly price."""
    run, share = section_run_usd(section), row["usd_per_hour"] / section["answer"]["spec"]["usd_per_hour"]
    usd = section["answer"]["spec"]["usd_per_month"] if run is None else run
    return t("cost.month" if run is None else "cost.run", usd=short_usd(usd * share))


def _names(sections: Sequence[Record], t: Texts) -> str:
    """Return the names of workloads, or how many if they are many: 'Thumbnails and Chat', '7 workloads'."""
    names = [section["name"][:80] for section in sections]
    return t("totals.names", count=len(names)) if len(names) > _MOST_NAMES else all_of(names, t)


def all_of(names: Sequence[str], t: Texts) -> str:
    """Return names in one phrase: 'a, b and c'."""
    *first, last = names
    return t("totals.and", first=t("totals.comma").join(first), last=last) if first else str(last)


def _legend(sections: Sequence[Record], answered: Sequence[Record], t: Texts) -> str:
    percents = sorted({plain(100 * section["answer"]["confidence"]) for section in sections})
    says = [t("totals.legend", percent=" / ".join(percents))]
    if any("TPOT" in target_text(section, t) for section in answered):
        says.append(t("totals.tokens"))
    return t.joined([*says, t("totals.not_shared")])


def _quotas(quotas: Sequence[Record], t: Texts) -> Part:
    columns = [
        Column(t("quota.name"), lambda quota: f"{quota['name']} ({quota['code']})", Look.LONG),
        Column(t("table.region"), "region", Look.NAME),
        Column(t("quota.kept"), "kept_vcpus", Look.WHOLE),
        Column(t("quota.all"), "vcpus", Look.WHOLE),
        Column(t("quota.allowed"), "allowed", Look.NUMBER, t("quota.unsaid")),
    ]
    return Part(t("quota.title"), [Table(columns, quotas), Paragraph(t("quota.note"), "note")])


def _columns(sections: Sequence[Record], t: Texts) -> list[Column]:
    """Return the columns of the table of workloads: the target, the pick, how sure it is, and its cost."""
    anchors = {id(section): f"#w{number}" for number, section in enumerate(sections, 1)}

    def of_spec(name: str) -> Callable[[Record], Any]:
        return lambda section: (_answered(section) or {}).get(name)

    def expected(section: Record) -> str | None:
        """'2,310 images': the rate without its 'per second', which the column's heading says."""
        median = of_spec("median")(section)
        return median and f"{format_rate(median)} {unit_name(section, t).partition('/')[0]}"

    def pick(section: Record) -> str:
        spec, clouds = _answered(section), covers_clouds(section["recommendation"])
        return type_name(spec, clouds=clouds) if spec else t("totals.none_fits")

    paying = partial(_paying, t=t)
    is_listed = all(paying(section) in ("", t("market.on-demand")) for section in sections)
    run = ("per_run", section_run_usd, Look.COST)
    return [
        Column(
            t("totals.workload"),
            lambda section: section["name"][:80],
            link=lambda section: anchors[id(section)],
        ),
        *columns_of(
            t,
            ("instance", pick, Look.LONG if max(map(len, map(pick, sections))) > _LONGEST else Look.NAME),
            *([] if is_listed else [("paying", paying)]),
            ("target", partial(target_text, t=t)),
            ("expected", expected),
            ("at_least", of_spec("lower"), Look.LOWER),
            ("sure", partial(_sure, t=t), Look.NAME),
            ("evidence", lambda section: evidence_word(of_spec("risk")(section), t), Look.NAME),
            ("per_month", month_usd, Look.COST),
            *([run] if any(map(section_run_usd, sections)) else []),
        ),
    ]


def _sure(section: Record, t: Texts) -> str:
    """'92 %', with a mark if the evidence is weak; of a workload without limits what was asked instead."""
    chance, spec = decision_of(section["recommendation"]).get("probability"), _answered(section)
    users = section["recommendation"]["request"].get("users")
    if chance is None or spec is None:
        unlimited = t("sure.users", users=users) if users else t("sure.unlimited")
        return unlimited if spec else ""
    share = percent(modest(chance))
    return t("sure.unproven", percent=share) if spec["risk"] >= WEAK else share


def _paying(section: Record, t: Texts) -> str:
    """'on-demand', or 'spot (price of 2024-09-28)' if today's price may differ."""
    if (spec := _answered(section)) is None:
        return ""
    market = t.known("market." + spec["market"], spec["market"])
    return t("totals.paying", market=market, day=spec["price_as_of"]) if doubt_of(spec, 1.0) else market


def target_text(section: Record, t: Texts) -> str:
    """'500 images/s; 40 users': the targets of a workload."""
    rate = section["answer"]["target_throughput"]
    aims = aimed_at(section["recommendation"]["request"], t)
    return t.listed(filter(None, [rate and f"{format_target(rate)} {unit_name(section, t)}", aims]))


def _held(section: Record) -> bool:
    """Return whether a workload is a run on a commitment, which is owed by the month."""
    spec = section["recommendation"]["recommendation"]
    return is_committed(spec) and bool(spec.get("run"))


def _answered(section: Record) -> Record | None:
    spec: Record | None = section["answer"]["spec"]
    return spec if section["answer"]["status"] == ANSWERED else None
