"""Facts derived from a section of a document: rows of its chart, and names of specs and places.

A sample is what the rate counts: an image, a sequence, or a token of a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from advisor.catalog.support import CLOUD, quota_code, quota_name
from advisor.domain import HOURS_PER_MONTH, Market
from advisor.render.text import SURE

Record = Mapping[str, Any]


def spec_name(spec: Record) -> str:
    """'g4dn.xlarge', '2 x g4dn.xlarge': the name of a spec, of its row, or of an end of a break-even."""
    count = spec.get("count", 1)
    name = str(spec["instance_type"])
    return name if count == 1 else f"{count} x {name}"


def ordered_name(spec: Record) -> str:
    """Return 'g6.xlarge', with the disk if that has other rates than its type's default:
    'p5en.48xlarge + gp3:160GiB:80000iops:2000MiB/s'."""
    order = str(spec["disk"]["order"])
    return f"{spec_name(spec)} + {order}" if order.count(":") > 1 else spec_name(spec)


def covers_clouds(document: Record) -> bool:
    """Return whether a recommendation's document answers a question about more than one cloud."""
    return bool(document["request"]["cloud"] == "any")


def place_name(spec: Record, *, clouds: bool) -> str:
    """'us-central1'; if `clouds`, 'gcp us-central1'."""
    return f"{spec['cloud']} {spec['region']}" if clouds else str(spec["region"])


def type_name(record: Record, *, clouds: bool) -> str:
    """'2 x g2-standard-4'; if `clouds`, '2 x g2-standard-4 (gcp)'. For records without a region. Documents of
    earlier versions hold no cloud there."""
    cloud = record.get("cloud") if clouds else None
    name = spec_name(record)
    return f"{name} ({cloud})" if cloud else name


SCHEMA = "advisor.report/1"
ANSWERED, NOTHING_FITS = "answered", "nothing_fits"
# Fields of a request that hold the target rate, by kind of question.
TARGETS = ("target_throughput", "target_output_tokens_per_second", "target_tokens_per_second")

# Fields that distinguish a spec from the others in an answer.
OF_A_SPEC = ("cloud", "instance_type", "count", "market")

Document = dict[str, Any]


def per_month(usd_per_hour: float, hours: float = HOURS_PER_MONTH) -> float:
    """Return the dollars of a month, by default of 730 hours, as clouds bill one."""
    return usd_per_hour * hours


def hours_of_month(section: Record, spec: Record) -> float:
    """Return the hours of a month that are paid: the plan's, else 730. A commitment owes all."""
    given: float = section.get("hours_per_month", HOURS_PER_MONTH)
    return HOURS_PER_MONTH if is_committed(spec) else given


def with_plan(section: Record, month: Mapping[str, float]) -> Document:
    """Return the section with what its plan says of a month: `runs_per_month`, or `hours_per_month` of work
    that does not stay on. Months, savings and a commitment's dollars per million samples follow."""
    planned, spec, costs = {**section, **month}, section["answer"]["spec"], section["costs"]
    whole = spec and on_demand_usd(planned)

    def priced(row: Record) -> Document:
        usd, market = row.get("total_usd_per_hour", row["usd_per_hour"]), row.get("market", spec["market"])
        paid = usd and per_month(usd, hours_of_month(month, {"market": market}))
        return {**_per_used(row, month, market), "usd_per_month": paid}

    if costs:
        rows = list(map(priced, costs["choices"]))
        for row in filter(is_committed, rows if whole else ()):
            row["saving_percent"] = 100 * (1 - row["usd_per_month"] / whole)
        hours = month.get("hours_per_month", HOURS_PER_MONTH)
        planned["costs"] = {**costs, "choices": rows, "hours_per_month": hours}
    if spec is None or "hours_per_month" not in month:
        return planned
    answer, others = section["recommendation"], section["recommendation"]["alternatives"]
    pick, *others = (each and _per_used(each, month) for each in (answer["recommendation"], *others))
    return {
        **planned,
        "answer": {**section["answer"], "spec": priced(spec)},
        "recommendation": {**answer, "recommendation": pick, "alternatives": others},
        "price_throughput": [_per_used(row, month) for row in section["price_throughput"]],
        "regions": list(map(priced, section["regions"])),
    }


def _per_used(costs: Record, month: Record, market: str = "") -> Document:
    """Return a spec or its costs with dollars per million by the month's bill: a commitment also owes hours
    without work."""
    market = market or costs["market"]
    times = hours_of_month(month, {"market": market}) / month.get("hours_per_month", HOURS_PER_MONTH)

    def used(name: str, usd: Any) -> Any:
        if name == "cost":
            return _per_used(usd, month, market)
        if not name.startswith(("usd_per_million", "by_price")):
            return usd
        return (
            {end: each * times for end, each in usd.items()}
            if isinstance(usd, Mapping)
            else usd and usd * times
        )

    return {name: used(name, value) for name, value in costs.items()}


def per_million(usd_per_hour: float, samples_per_second: float) -> float:
    """Return the dollars for a million samples at a rate that is sustained all the time."""
    return usd_per_hour / (samples_per_second * 3600) * 1e6


def answer_facts(recommendation: Mapping[str, Any]) -> Document:
    """Return the facts for one paragraph: the recommended spec (or the nearest if nothing fits), its rate and
    its cost. The recommendation holds all of them too."""
    spec = recommendation["recommendation"] or recommendation["nearest"]
    status = ANSWERED if recommendation["recommendation"] else NOTHING_FITS
    request = recommendation["request"]
    return {
        "status": status,
        "task": request["task"],
        "model": request["model"],
        "target_throughput": next(request[name] for name in TARGETS if name in request),
        "confidence": request["confidence"],
        "spec": spec
        and {
            **_flat(spec),
            **{name: spec[name] for name in ("gpu", "physical_cores", "risk")},
            "unit": spec["predicted"]["unit"],
            "usd_per_hour": spec["price"]["total_usd_per_hour"],
            "usd_per_month": per_month(spec["price"]["total_usd_per_hour"]),
            "price_as_of": spec["price"]["as_of"],
        },
    }


def _flat(record: Mapping[str, Any]) -> Document:
    """Return a spec's identity, rate and cost without nesting. Earlier versions have no price range."""
    price = record["price"]
    total, same = price["total_usd_per_hour"], ("cloud", "region", "market", "count", "instance_type")
    return {
        **{name: record[name] for name in (*same, "vcpus", "memory_mib")},
        **{name: record.get(name) for name in ("batch_size", "precision", "memory_format", "bottleneck")},
        "disk": record["disk"]["order"],
        **record["predicted"]["throughput"],
        "provenance": record["predicted"]["provenance"],
        "usd_per_million_samples": usd_per_million_samples(record),
        "price_kind": price["kind"],
        "low_usd_per_hour": price.get("total_low_usd_per_hour", total),
        "high_usd_per_hour": price.get("total_high_usd_per_hour", total),
    }


def usd_per_million_samples(record: Mapping[str, Any]) -> float:
    """Return a spec's dollars per million samples at its median rate."""
    usd: float | None = record.get("cost", {}).get("usd_per_million_samples")
    if usd is not None:
        return usd
    total, rate = record["price"]["total_usd_per_hour"], record["predicted"]["throughput"]
    return per_million(total, rate["median"])


def bottleneck_facts(recommendation: Mapping[str, Any]) -> Document | None:
    """Return each stage's rate by itself and its utilization, the slowest stage first."""
    spec = recommendation["recommendation"] or recommendation["nearest"]
    if spec is None or "stage_rates" not in spec:  # a language model's spec has no stages
        return None
    used = spec["utilization"]
    stages = [
        {"stage": stage, "samples_per_second": rate, "utilization": used[stage]}
        for stage, rate in sorted(spec["stage_rates"].items(), key=lambda item: item[1])
    ]
    return {"stage": spec["bottleneck"], "stages": stages}


def decision_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how the spec was chosen and how sure it is; empty without an answer or in earlier versions."""
    return document.get("decision") or {}


def safe_spec(document: Record) -> Record | None:
    """Return the safe spec from the ranked ones; None if there is none, or it is not among them."""
    safe, ranked = decision_of(document).get("safe"), (document["recommendation"], *document["alternatives"])
    same = (spec for spec in ranked if safe and all(spec[name] == safe[name] for name in OF_A_SPEC))
    return next(same, None)


def run_usd(spec: Record | None) -> float | None:
    """Return the dollars of one run of a spec at the median rate; None if it is kept running, or paid for by
    a commitment, which is owed by the month."""
    run = None if spec is None or is_committed(spec) else spec.get("run")
    return run and run["usd"] and run["usd"]["median"]


def is_committed(spec: Record) -> bool:
    """Return whether a spec is paid for its whole term, used or not; a predicted one names no market."""
    return str(spec.get("market")).startswith("commitment")


def most_run_usd(spec: Record) -> float | None:
    """Return the dollars of a run's longest time at the price shown, whose own range has a line elsewhere.
    None without a bound, and where a run has no price (`run_usd`)."""
    most: float | None = None if run_usd(spec) is None else spec["run"]["usd"]["upper"]
    return most


def on_demand_usd(section: Record) -> float | None:
    """Return the dollars of a pick's planned runs or hours, else of one run, on demand; None if the price is
    not known, or the pick stays on."""
    hours, costs = _hours_of_work(section, "median"), section["costs"] or {"choices": ()}
    usd = [row["usd_per_hour"] for row in costs["choices"] if row["market"] == Market.ON_DEMAND]
    return hours * float(usd[0]) if hours and usd else None


def share_of_month(section: Record, bound: str = "median") -> float | None:
    """Return the share of a month that a pick's planned runs or hours take; None without such a plan."""
    hours = _hours_of_work(section, bound) if {"runs_per_month", "hours_per_month"} & set(section) else None
    return hours and hours / HOURS_PER_MONTH


def _hours_of_work(section: Record, bound: str) -> float | None:
    """Return the hours of a pick's runs in a month, else of one run; None if it stays on."""
    run = (section["recommendation"]["recommendation"] or {}).get("run")
    often, hours = section.get("runs_per_month", 1.0), section.get("hours_per_month")
    return often * run["hours"][bound] if run else hours


def section_run_usd(section: Record) -> float | None:
    """Return `run_usd` of a workload's pick."""
    return run_usd(section["recommendation"]["recommendation"])


def month_usd(section: Record) -> float | None:
    """Return a pick's dollars per month, kept running or for its planned runs; None without plan or pick."""
    run, often = section_run_usd(section), section.get("runs_per_month")
    if section["answer"]["status"] != ANSWERED or run is not None:
        return run and often and run * often
    usd: float = section["answer"]["spec"]["usd_per_month"]
    return usd


def totals(sections: Sequence[Mapping[str, Any]]) -> Document:
    """Return the sums over all workloads. Hourly and monthly dollars cover those kept running, `run_usd` is
    one run of each that ends, and `month_with_runs_usd` adds planned runs, if any plan gives their number.
    Sums of nothing are null, never 0."""
    answered = [section for section in sections if section["answer"]["status"] == ANSWERED]
    specs = [section["answer"]["spec"] for section in answered]
    runs = [section_run_usd(section) for section in answered]
    kept = [spec for spec, run in zip(specs, runs, strict=True) if run is None]
    once = [run for run in runs if run is not None]
    usd = sum(spec["usd_per_hour"] for spec in kept) if kept else None
    month = sum(spec["usd_per_month"] for spec in kept) if kept else None
    often = any(section.get("runs_per_month") for section in answered)
    sums: dict[str, dict[str, float]] = {"market": {}, "region": {}}
    for spec in kept:
        for name, usd_by in sums.items():
            usd_by[spec[name]] = usd_by.get(spec[name], 0.0) + spec["usd_per_hour"]
    return {
        "workloads": len(sections),
        "answered": len(specs),
        "instances": sum(spec["count"] for spec in specs),
        "runs": sum(
            (section["recommendation"]["recommendation"] or {}).get("run") is not None for section in sections
        ),
        "hours_per_month": HOURS_PER_MONTH,
        "usd_per_hour": usd,
        "usd_per_month": month,
        "month_usd": month,
        "run_usd": sum(once) if once else None,
        **({"month_with_runs_usd": sum(map(float, filter(None, map(month_usd, answered))))} if often else {}),
        **{f"usd_per_hour_by_{name}": dict(sorted(usd_by.items())) for name, usd_by in sums.items()},
        "price_range": _price_range(answered),
        "safe": _safe(answered),
        "quotas": _quotas(answered),
    }


def _price_range(answered: Sequence[Record]) -> Document | None:
    """Return the ranges of the sums in 9 of 10 cases, if some prices are old or were seen on the spot market,
    with the date of the oldest of these. The month includes planned runs. None if all prices are sure."""
    days = [spec["price_as_of"] for each in answered if doubt_of(spec := each["answer"]["spec"], 1.0)]
    costs: dict[str, list[Document]] = {"month_usd": [], "run_usd": []}
    for section in answered:
        name, usd = "month_usd", month_usd(section)
        if usd is None:
            name, usd = "run_usd", section_run_usd(section) or 0.0
        costs[name].append(doubt_of(section["answer"]["spec"], usd) or {"low": usd, "high": usd})
    sums = {
        name: {end: sum(each[end] for each in some) for end in ("low", "high")} if some else None
        for name, some in costs.items()
    }
    return {"as_of": min(days), **sums} if days else None


def doubt_of(spec: Record, usd: float) -> Document | None:
    """Return the range of a cost by the range of its spec's price; None if that is sure (`SURE`)."""
    total = spec["usd_per_hour"]
    low, high = (spec.get(f"{end}_usd_per_hour", total) for end in ("low", "high"))
    return {"low": usd * low / total, "high": usd * high / total} if high > SURE * low else None


def _safe(answered: Sequence[Mapping[str, Any]]) -> Document:
    """Return the sums without any trial: a month of the safe specs of what is kept running, and the upper
    bounds of one run of each that ends. `without` names workloads whose document has no safe spec."""
    months, runs, without = list[float](), list[float](), list[str]()
    for section in answered:
        document, safe = section["recommendation"], decision_of(section["recommendation"]).get("safe")
        whole = safe_spec(document)
        if safe and run_usd(document["recommendation"]) is None:
            months.append(per_month(safe["total_usd_per_hour"], hours_of_month(section, safe)))
        elif whole and (most := most_run_usd(whole)) is not None:
            runs.append(most)
        else:
            without.append(section["name"])
    month = sum(months) if months else None
    return {"month_usd": month, "run_usd": sum(runs) if runs else None, "without": without}


def _quotas(answered: Sequence[Mapping[str, Any]]) -> list[Document]:
    """Return the vCPUs that all answers together need from each quota of an account: always (`kept_vcpus`,
    without runs and `hours_per_month`), and all at once. `allowed`: the least that a question gives."""
    rows: dict[tuple[str, str], Document] = {}
    for section in answered:
        spec, document = section["answer"]["spec"], section["recommendation"]
        code = quota_code(spec["instance_type"], Market(spec["market"])) if spec["cloud"] == CLOUD else None
        if code is None:
            continue
        head = {"cloud": CLOUD, "region": spec["region"], "code": code, "name": quota_name(code)}
        key = spec["region"], code
        row = rows.setdefault(key, {**head, "kept_vcpus": 0, "vcpus": 0, "allowed": None})
        vcpus = spec["count"] * spec["vcpus"]
        row["vcpus"] += vcpus
        is_kept = run_usd(document["recommendation"]) is None and "hours_per_month" not in section
        row["kept_vcpus"] += vcpus if is_kept else 0
        limits = (row["allowed"], document["request"].get("vcpu_quota", {}).get(code))
        row["allowed"] = min((limit for limit in limits if limit is not None), default=None)
    return [rows[key] for key in sorted(rows)]


# Each step of the front brings at least 1 % more: nobody pays for less, and rates are printed with
# three digits.
_MORE = 1.01


class Drawn(NamedTuple):
    """A spec from the recommendation's document, whether it answers, and whether it is recommended."""

    spec: Mapping[str, Any]
    answers: bool
    chosen: bool


def drawn_rows(specs: Sequence[Drawn]) -> list[dict[str, Any]]:
    """Return rows by price. A row `on_front` beats the lower bounds of all cheaper rows by over 1 %."""
    rows = [
        {
            **_flat(spec),
            "gpu": (spec["gpu"] or {}).get("name"),
            "gpu_count": (spec["gpu"] or {}).get("count", 0),
            "total_usd_per_hour": spec["price"]["total_usd_per_hour"],
            "on_front": False,
            "answers": answers,
            "chosen": chosen,
        }
        for spec, answers, chosen in specs
    ]
    rows.sort(key=lambda row: (row["total_usd_per_hour"], -row["lower"], row["instance_type"], row["disk"]))
    best = 0.0
    for row in rows:
        row["on_front"] = row["lower"] > _MORE * best
        best = row["lower"] if row["on_front"] else best
    return rows


def break_evens(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for neighbours on the front, the rate above which the dearer one is needed, and the price of
    the dearer one at which a sample costs the same on both. Below that price, the dearer one is cheaper for
    those who keep it busy."""
    front = [row for row in rows if row["on_front"]]
    return [_between(cheaper, dearer) for cheaper, dearer in pairwise(front)]


_NAMES = ("instance_type", "cloud", "count", "region", "disk", "total_usd_per_hour", "lower")


def _between(cheaper: Record, dearer: Record) -> dict[str, Any]:
    even_usd = cheaper["total_usd_per_hour"] * dearer["lower"] / cheaper["lower"]
    return {
        "cheaper": {name: cheaper[name] for name in _NAMES},
        "dearer": {name: dearer[name] for name in _NAMES},
        "at_samples_per_second": cheaper["lower"],
        "more_usd_per_hour": dearer["total_usd_per_hour"] - cheaper["total_usd_per_hour"],
        "more_samples_per_second": dearer["lower"] - cheaper["lower"],
        "dearer_pays_below_usd_per_hour": even_usd,
        "dearer_pays_now": dearer["total_usd_per_hour"] <= even_usd,
        "of_chosen": cheaper["chosen"] or dearer["chosen"],
    }
