"""Words that reports and the service's page share, in the reader's language."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from advisor.catalog.support import quota_text
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market, Provenance, Stage
from advisor.domain.results import UNMEASURED, UNMEASURED_FORMAT, UNMEASURED_GPU
from advisor.messages import (
    Message,
    ceil_ms,
    code_of,
    format_mib,
    format_span,
    format_target,
    format_usd,
    short_usd,
)
from advisor.questions.network import AUTO
from advisor.questions.spec import USUAL_COUNT
from advisor.render.blocks import Column, Command, Look, Paragraph, lower_rate, percent, plain, translated
from advisor.render.borderline import LEVEL, modest
from advisor.render.facts import covers_clouds, decision_of, place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.language_document import OUTPUT_UNIT, TUNING_UNIT
from advisor.render.price_doubt import price_sentences
from advisor.render.records import MISSES, WEAK, WIDE
from advisor.render.text import lower_name, upper_name

Record = Mapping[str, Any]
LOCAL_ORDER = "instance_store"
_OF_CHOSEN = "chosen_may_miss"


def disk_name(order: Any, t: Texts) -> str:
    """Return a disk's order, or 'local disk': 'gp3:158GiB'."""
    return t("disk.local") if order == LOCAL_ORDER else str(order)


def gpu_name(spec: Record, t: Texts) -> str:
    """Return '1 x T4' for a spec or a row of a chart, 'none' without a GPU, or a bare GPU name as it is."""
    gpu = spec["gpu"]
    if not gpu:
        return t("gpu.none")
    if isinstance(gpu, str) and "gpu_count" not in spec:
        return gpu
    facts = gpu if isinstance(gpu, Mapping) else {"name": gpu, "count": spec["gpu_count"]}
    return t("gpu.of", count=facts["count"], name=facts["name"])


def stage_name(stage: str | None, t: Texts, *, on_cpu: bool = False, unit: str = "images/s") -> str:
    """Return a stage's name: 'GPU' ('CPU compute' if `on_cpu`), 'decoding on vCPUs' or, for a language model,
    'reading the weights from GPU memory'. Fine-tuning has no stage: ''."""
    if on_cpu and stage == Stage.ACCELERATOR:
        return t("stage.cpu")
    if stage == Stage.HOST and unit != "images/s":
        return t("stage.batches")
    return t.known(f"stage.{stage}", t.known(f"bind.{stage}", stage or ""))


def bound_name(spec: Record, t: Texts) -> str:
    """Return the name of the stage that limits the rate of a spec, or of a row of a chart."""
    unit = spec.get("predicted", spec).get("unit", "images/s")
    return stage_name(spec.get("bottleneck"), t, on_cpu=spec["gpu"] is None, unit=unit)


def unit_name(section: Record, t: Texts) -> str:
    """Return the unit of a workload's rates: 'images/s', 'sequences/s'."""
    unit = (section["answer"]["spec"] or {}).get("unit", "images/s")
    return t.known(f"unit.{unit}", unit)


def question_text(document: Record, t: Texts, *but_for: str) -> str:
    """Return the question and its aims, but for some fields: 'resnet50 inference; 2,000 images/s or more',
    'Qwen/Qwen3-8B finetuning; method qlora; 50M tokens'."""
    request = {**document["request"], **dict.fromkeys(but_for)}
    aims = aimed_at(request, t) if "asked" in document else t.listed(_limits(request, t))
    return t.listed(filter(None, (_asked(document, t), goal_text(request, t), aims)))


def asked_sentence(document: Record, t: Texts) -> str:
    """Return the question with all its limits, as a sentence."""
    request = document["request"]
    required = request.get("required_confidence", request["confidence"])
    sure = t("limit.confidence", percent=plain(100 * required)) if required is not None else None
    cheapest = t(f"limit.cheapest.{_lowest(request)}")
    behind = {spec.get("behind") for spec in document.get("alternatives", ())}
    cheapest += "".join(t.aside(t(f"limit.level.{why}")) for why in LEVEL if why in behind)
    limits = (goal_text(request, t), sure, *_limits(request, t), cheapest)
    return t("answer.asked", asked=_asked(document, t), limits=t.listed(filter(None, limits)))


def _lowest(request: Record) -> str:
    """Return which cost ranks the specs of a question: of a run (or its commitment), a month or a sample."""
    tunes = request.get(_OF_TUNING, 0.0) is None
    if tunes or request.get("epochs") or request.get("samples"):
        return "term" if str(request["market"]).startswith("commitment") else "run"
    if any(request.get(name) for name in (*_GOALS, "users", "target_requests_per_second")):
        return "month"
    return "token" if "output_tokens" in request else "sample"


def _asked(document: Record, t: Texts) -> str:
    request = document["request"]
    usual = Message("{model} {task}", model=request["model"], task=Message(request["task"]))
    return translated(document.get("asked") or usual, t)


def headline(document: Record, t: Texts) -> str:
    """Return the pick and its price, else the nearest spec, else that there is none."""
    chosen = document["recommendation"]
    spec = chosen or document["nearest"]
    if spec is None:
        return t("answer.nothing")
    market = t.known("market." + spec["market"], spec["market"])
    pick = t(
        "answer.pick",
        spec=spec_name(spec),
        disk=disk_name(spec["disk"]["order"], t),
        usd=format_usd(spec["price"]["total_usd_per_hour"]),
        region=place_name(spec, clouds=covers_clouds(document)),
        market=t("brief.comma").join([market, *owners_of(spec, t)]),
    )
    return t("answer.rent", pick=pick) if chosen else t("answer.none", nearest=pick)


def owners_of(spec: Record, t: Texts) -> list[str]:
    """Return whose machines those on demand are if not the cloud's, as a list: "other people's hosts"."""
    terms = spec["price"].get("terms")
    return [translated(terms, t)] if terms and spec["market"] == Market.ON_DEMAND else []


def evidence_word(risk: int | None, t: Texts) -> str:
    """Return 'strong', 'fair' or 'weak' for a risk from 0 to 4, or '' for None (nothing is recommended)."""
    return "" if risk is None else t(f"evidence.{min(max(risk, 1), WEAK)}")


def evidence_text(spec: Record, t: Texts) -> str:
    """'weak evidence (wide bounds, typical error 16 %): L40S never measured': how strong, and on what."""
    rates, test = spec["predicted"]["throughput"], spec["predicted"].get("withheld")
    is_wide = rates["lower"] < WIDE * rates["median"]
    causes = (("weak.held", test and test["held_percent"] < MISSES), ("weak.wide", is_wide))
    causes_of_weak = [t(cause) for cause, holds in causes if holds and spec["risk"] >= WEAK]
    typical = [t("brief.withheld", half=f"{test['median_percent']:.2g}")] if test else []
    return t(
        "brief.evidence",
        evidence=evidence_word(spec["risk"], t),
        aside=_aside(causes_of_weak[:1] + typical, t),
        basis=_basis(spec, t, is_whole=spec.get("probability") is None),
    )


def _aside(texts: Sequence[str], t: Texts) -> str:
    return t.aside(t("brief.comma").join(texts)) if texts else ""


# A smaller saving is not printed.
_LEAST_SHARE = 0.005


def behind_text(why: str | None, t: Texts, cheaper: float = 0.0) -> str:
    """': 9 % cheaper, but slower': why an alternative is not the pick; '' if it costs more, and in saved
    answers. `cheaper` is the share of the pick's cost that it saves, where the costs are not beside it."""
    reason = t.known(f"behind.{why}", "")
    if not reason:
        return ""
    key = "behind.cheaper" if cheaper >= _LEAST_SHARE else "behind.equal"
    return t(key, share=percent(cheaper), why=reason)


def basis_sentence(spec: Record, t: Texts) -> str:
    """Return 'Based on fair evidence (typical error 8.4 %): L4 never measured. The lower bound held in ..'"""
    says = [t("brief.based", basis=t.listed([evidence_text(spec, t), *price_source(spec, t)]))]
    if test := spec["predicted"].get("withheld"):  # earlier versions lack it
        says.append(t("answer.held", held=f"{test['held_percent']:.0f}"))
    return t.joined(says)


def _basis(spec: Record, t: Texts, *, is_whole: bool = True) -> str:
    """Return the source of a spec's rate, or what was never measured. `is_whole`: with a remark if nothing
    like it was ever tested."""
    predicted = spec["predicted"]
    never, is_modelled = never_measured(spec, t, names=True), predicted["provenance"] == Provenance.MODELLED
    rate = t.known(f"basis.{predicted['provenance']}", predicted["provenance"])
    if never:
        names = t("basis.never", names=t("brief.comma").join(never))
        rate = names if is_modelled else rate + t.aside(names)
    is_untested = is_modelled and not predicted.get("withheld")
    return rate + t("brief.untested") if is_whole and is_untested else rate


def price_source(spec: Record, t: Texts) -> Iterator[str]:
    """Yield 'list price of 2026-07-20', if the spec has a price."""
    if price := spec.get("price"):
        kind = t.known("price." + price["kind"], price["kind"])
        yield t("answer.dated", kind=kind, date=price["as_of"])


def never_measured(spec: Record, t: Texts, *, names: bool = False) -> list[str]:
    """Return what was never measured on the GPU: 'never measured in bf16'. If `names`, also for the network,
    and only names: 'H100 in bf16'. Saved answers do not have these remarks."""
    codes = UNMEASURED if names else (UNMEASURED_GPU, UNMEASURED_FORMAT)
    remarks = [remark for remark in spec["extrapolation"] if code_of(remark) in codes]
    return [
        t(
            f"named.{remark.code}" if names else f"never.{remark.code}",
            **{name: translated(value, t) for name, value in remark.parameters.items()},
        )
        for remark in remarks
    ]


def borderline_sentence(call: Record, t: Texts, *, clouds: bool) -> str:
    """'g5.4xlarge $1.624/h would save $242 a month: 23 % sure, a trial of 10 min costs $0.27'."""
    run, month, trial = call["saves_usd_per_run"], call["saves_usd_per_month"], call["trial"]
    saved = t("close.saves_run", usd=short_usd(run)) if run is not None else ""
    if run is None and month is not None:
        saved = t("close.saves_month", usd=f"${month:,.0f}")
    return t(
        "brief.try_it" if saved else "brief.try_nearest",
        name=f"{type_name(call, clouds=clouds)} {per_hour(call['usd_per_hour'], t)}",
        saved=saved,
        chance=percent(modest(call["probability"])),
        minutes=plain(trial["minutes"]),
        trial=short_usd(trial["usd"]),
    )


def borderline_calls(document: Record) -> list[Record]:
    """Return the most important borderline candidate that is not in `calls_of_chosen`, as a list."""
    own = calls_of_chosen(document)
    return [call for call in document["close_calls"] if call not in own][:1]


def calls_of_chosen(document: Record) -> list[Record]:
    """Return the chosen spec's trial, if the expected cost decided; earlier versions have none."""
    weighed = decision_of(document).get("rule") == "expected-cost"
    return [call for call in document["close_calls"] if weighed and call["kind"] == _OF_CHOSEN]


def relax_sentence(relaxation: Record, request: Record, t: Texts) -> str:
    """Return the relaxed question, the rate that it gives, and the chance if known."""
    changes = [
        t("relax.change", option=change["option"], to=shlex.quote(change["to"]), from_=change["from"])
        if change["to"] is not None
        else t("relax.without", option=change["option"], from_=change["from"])
        for change in relaxation["changes"]
    ]
    gives, run = relaxation["gives"], relaxation["gives"].get("run")
    clouds = request["cloud"] == "any" or any(
        change["option"] == "--cloud" for change in relaxation["changes"]
    )
    usd, beside, kind = per_hour(gives["total_usd_per_hour"], t), list[str](), gives.get("price_kind")
    if run:
        usd, most = short_usd(run["usd"]), run.get("most_usd")
        beside = [t("relax.up_to", most=short_usd(most))] if most else []
    if kind in (OBSERVED, ESTIMATED):
        beside.append(t("answer.dated", kind=t.known(f"price.{kind}", kind), date=gives["price_as_of"]))
    name, paid = type_name(gives, clouds=clouds), usd + _aside(beside, t)
    parts = [name, format_span(run["hours"]), paid] if run else [t("relax.at", name=name, usd=paid)]
    if (chance := gives.get("probability")) is not None:
        parts.append(t("brief.likely", percent=percent(modest(chance))))
    elif not run:
        parts.append(f"{lower_name(request['confidence'])} {lower_rate(gives['lower'])}/s")
    return t("relax.way", changes=", ".join(changes), gives=t("brief.comma").join(parts))


def live_text(row: Record, t: Texts) -> str:
    """'g4dn.xlarge $0.526/h (as known), offered, quota 8 vCPUs'."""
    now, before = row["told"], row["before"]
    price = t("live.not_verified")
    if now:
        was = t("live.as_known" if before else "live.new")
        if before and row["changed"]:
            was = t("live.was", usd=format_usd(before["usd_per_hour"]))
        price = t("live.price", usd=format_usd(now["usd_per_hour"]), was=was)
    offered = t({True: "live.offered", False: "live.gone", None: "live.not_confirmed"}[row["offered"]])
    quota = [] if row["vcpu_quota"] is None else [t("live.quota", vcpus=f"{row['vcpu_quota']:g}")]
    return ", ".join([f"{row['instance_type']} {price}", offered, *quota])


def live_sentence(live: Record, t: Texts) -> str:
    """Return what the cloud says of the pick now, or why it could not be asked."""
    warnings = t.joined(translated(text, t) for text in live["warnings"])
    return warnings or live_text(live["checked"][0], t)


def per_hour(usd: float, t: Texts) -> str:
    """Return an hourly price: '$0.606/h'."""
    return t("per_hour", usd=format_usd(usd))


def _counted(count: float) -> str:
    """Return a count: '90', '1,281,167', or '50M' and '2B' if it has few enough digits."""
    if count < 1e6 or count % 1e4:
        return f"{count:,.12g}"
    return f"{count / 1e6:g}M" if count < 1e9 else f"{count / 1e9:g}B"


def _range(limits: Record, *, write: Callable[[float], str]) -> str:
    """Return a range in the notation of options: '8', '4..16', '32 GiB..'."""
    least, most = ("" if end is None else write(end) for end in (limits["least"], limits["most"]))
    return least if least == most else f"{least}..{most}"


# These limits apply to the mean of requests, or to a percentile.
_OF_REQUESTS = "max_ttft_ms max_tpot_ms max_e2e_seconds"
# How to write fields of a request. Missing fields, and those with a value in `_USUAL`, are not written.
_WRITERS: Sequence[tuple[Callable[[Any], str], str]] = (
    (str, "precision stack memory_format tf32 protocol input disk accelerated_only allow_extrapolation"),
    (str, "kv_precision engine method image_size"),
    # Dollars for a million input tokens, and for a million output tokens.
    (lambda usd: " in, $".join(usd.split(",")), "api_usd_per_million"),
    (plain, "batch_size max_hours start_minutes max_first_epoch_hours max_latency_ms"),
    (plain, "max_gpus max_count max_nodes"),
    (_counted, "epochs samples tokens"),
    ("{:,.0f}".format, "users input_tokens output_tokens context_tokens sequence"),
    (percent, "prefix_share"),
    # A number for the mean ('2000'), or a percentile with its limit ('p99:2000').
    (lambda time: time if isinstance(time, str) else plain(time), _OF_REQUESTS),
    (plain, "target_requests_per_second max_ready_seconds burstiness think_seconds images_per_request"),
    (plain, "tensor_parallel micro_batch"),
    (short_usd, "max_run_usd"),
    (format_usd, "max_usd_per_hour"),
    (format_mib, "min_gpu_memory_mib max_gpu_memory_mib"),
    (", ".join, "gpus disk_types price_kinds"),
    (partial(_range, write=plain), "compute_capability vcpus"),
    (partial(_range, write=format_mib), "memory_mib"),
    (lambda quota: quota_text(quota.items(), None), "vcpu_quota"),
)
_USUAL: Mapping[str, tuple[object, ...]] = {
    "precision": (AUTO,),
    "stack": ("eager",),
    "memory_format": (AUTO,),
    "tf32": ("convolutions",),
    "protocol": ("script",),
    "max_count": (1, USUAL_COUNT),
    "max_nodes": (1,),
    "engine": ("vllm",),
    "burstiness": (1.0,),
}
# What a question aims at other than a rate: how much to run, by when, and for how many users.
_AIMS = (
    "epochs samples tokens max_hours max_run_usd max_latency_ms max_usd_per_hour users "
    "target_requests_per_second max_ttft_ms max_tpot_ms max_e2e_seconds"
)


_OF_TUNING = "target_tokens_per_second"
# The target rate of each kind of question, and its unit ('' if the data set determines it).
_GOALS = {"target_throughput": "", "target_output_tokens_per_second": OUTPUT_UNIT, _OF_TUNING: TUNING_UNIT}


def goal_text(request: Record, t: Texts) -> str | None:
    """Return the target rate of a question, if it has one: '2,000 images/s or more'."""
    for name, usual in _GOALS.items():
        if (target := request.get(name)) is not None:
            unit = usual or f"{request['dataset']['sample']}s/s"
            return t("limit.target", rate=format_target(target), unit=t.known(f"unit.{unit}", unit))
    return None


def aimed_at(request: Record, t: Texts) -> str | None:
    """Return the aims other than a rate: '90 epochs of 1,281,167 images; done within 72 h', '40 users'."""
    writers = {field: write for write, fields in _WRITERS for field in fields.split()}
    aims = [name for name in _AIMS.split() if request.get(name)]
    says = {name: _limit(name, writers[name](request[name]), t) for name in aims}
    if "epochs" in says and "dataset" in request:
        sample, size = request["dataset"]["sample"], f"{request['dataset']['samples']:,}"
        of_it = t.known(f"limit.epochs_of_{sample}", t("limit.epochs_of_sample"))
        count = writers["epochs"](request["epochs"])
        if count == "1":
            of_it = t.known(f"limit.epoch_of_{sample}", t("limit.epoch_of_sample"))
        says["epochs"] = of_it.format(value=count, samples=size)
    return t.listed(list(says.values())) or None


def _limits(request: Record, t: Texts) -> Iterator[str]:
    """Yield the limits of a question: 'precision amp', '90 epochs in all', 'done within 72 h'."""
    for write, fields in _WRITERS:
        for field in fields.split():
            if request.get(field) and request[field] not in _USUAL.get(field, ()):
                yield _limit(field, write(request[field]), t)


def requests_text(requests_per_second: float, t: Texts) -> str:
    """'1 request/s', '3.5 requests/s'."""
    return _limit("target_requests_per_second", plain(requests_per_second), t)


def _limit(field: str, value: str, t: Texts) -> str:
    """'90 epochs in all', 'mean TPOT within 50 ms', 'p99 of TTFT within 2,000 ms'."""
    if field not in _OF_REQUESTS:
        many = t(f"limit.{field}", value=value)
        return t.known(f"limit.{field}.one", many) if value == "1" else many
    which, _, most = value.rpartition(":")
    limit = t(f"limit.{field}", value=f"{float(most):,.12g}")
    return t("limit.percentile", which=which, limit=limit) if which else t("limit.mean", limit=limit)


def price_call_leaves(document: Mapping[str, Any], t: Texts) -> Iterator[Paragraph | Command]:
    """Yield how a recommendation depends on unlisted prices, and the command that fetches today's. Documents
    of earlier versions have nothing about it, or only English sentences."""
    call = document.get("price_call")
    if call is None:
        return
    is_old = "per" not in call
    sentences = call["sentences"] if is_old else price_sentences(call, clouds=covers_clouds(document))
    if not sentences:  # the range of the price is too narrow to matter
        return
    for sentence in sentences:
        yield Paragraph(translated(sentence, t), "note")
    command, page = call["todays_price"]["command"], call["todays_price"]["page"]
    if command is not None:
        yield Command(command)
    elif page is not None:
        name = spec_name(call.get("cheaper") or document["recommendation"])
        yield Paragraph(t("price_call.page", name=name, page=page), "note")


def columns_of(t: Texts, *columns: tuple[Any, ...]) -> list[Column]:
    """Return columns from `(name of the heading, value, look)`; unknown prices are marked as unknown."""
    looks = [rest[0] if rest else Look.TEXT for _, _, *rest in columns]
    return [
        Column(t(f"table.{name}"), of, look, t("unknown") if look is Look.USD else "")
        for (name, of, *_), look in zip(columns, looks, strict=True)
    ]


def rate_columns(t: Texts, confidence: float | None, path: str = "") -> list[Column]:
    """Return columns of lower bound, median and upper bound, with the bounds' percentiles as headings."""
    lower, upper = t("table.lower"), t("table.upper")
    if confidence is not None:
        lower, upper = f"{lower_name(confidence)}/s", f"{upper_name(confidence)}/s"
    return [
        Column(lower, f"{path}lower", Look.LOWER),
        Column(t("table.median"), f"{path}median", Look.RATE),
        Column(upper, f"{path}upper", Look.RATE),
    ]


def spec_columns(t: Texts, home: str, *, clouds: bool) -> list[Column]:
    """Return columns of the instance (with region unless it is `home`; cloud if `clouds`), GPU and disk."""

    def name(spec: Record) -> str:
        is_home = spec["region"] == home and not clouds
        return spec_name(spec) if is_home else f"{spec_name(spec)} {place_name(spec, clouds=clouds)}"

    def disk(spec: Record) -> str:
        return disk_name(spec["disk"]["order"] if isinstance(spec["disk"], Mapping) else spec["disk"], t)

    gpu = partial(gpu_name, t=t)
    return columns_of(t, ("instance", name, Look.NAME), ("gpu", gpu, Look.LONG), ("disk", disk, Look.LONG))


def cost_columns(t: Texts, spec: Record) -> list[Column]:
    """Return columns of costs and bottlenecks that suit specs like this one."""
    bound = columns_of(t, ("bound", lambda spec: bound_name(spec, t))) if "tuning" not in spec else []
    if spec.get("run"):
        takes = ("run_takes", lambda spec: t.local(format_span(spec["run"]["hours"]["median"])))
        return [*columns_of(t, takes, ("per_run", "run.usd.median", Look.COST)), *bound]
    if "serving" in spec:
        path = "cost.usd_per_million_output_tokens.median"
        return [*columns_of(t, ("per_million_output_tokens", path, Look.USD)), *bound]
    path = "cost.usd_per_million_samples" if "cost" in spec else "usd_per_million_samples"
    return [*columns_of(t, ("per_million_samples", path, Look.USD)), *bound]


def alternative_columns(specs: Sequence[Record], t: Texts, home: str, *, clouds: bool) -> list[Column]:
    """Return columns of the specs that answer. Market and price kind are included only if needed."""
    priced = columns_of(
        t, ("kind", lambda spec: f"{t('market.' + spec['market'])}, {t('kind.' + spec['price']['kind'])}")
    )
    alike = len({spec["market"] for spec in specs}) == 1
    return [
        *spec_columns(t, home, clouds=clouds),
        *columns_of(t, ("per_hour", "price.total_usd_per_hour", Look.USD)),
        *rate_columns(t, specs[0]["predicted"]["confidence"], "predicted.throughput.")[:2],
        *_wait_columns(specs, t),
        # The bottleneck of a served model takes more space than it is worth.
        *cost_columns(t, specs[0])[: 1 if "serving" in specs[0] else None],
        *([] if alike and all(spec["price"]["kind"] == LIST for spec in specs) else priced),
    ]


def _wait_columns(specs: Sequence[Record], t: Texts) -> Iterator[Column]:
    """Yield columns of the batch size (if they differ), of times of a batch or request, and of the chance."""
    if len({each.get("batch_size") for each in specs}) > 1:
        yield from columns_of(t, ("batch", "batch_size", Look.WHOLE))
    if all((each.get("latency") or {}).get("p99_ms") for each in specs):
        heading = t("table.p99", percent=percent(specs[0]["predicted"]["confidence"]))
        yield Column(heading, lambda spec: ceil_ms(spec["latency"]["p99_ms"] / 1000), Look.NUMBER)
    for name in ("ttft", "tpot") if "serving" in specs[0] else ():
        yield from columns_of(t, (name, f"serving.rates.{name}_seconds.median", Look.MS))
    if all(each["probability"] is not None for each in specs):
        yield from columns_of(t, ("sure", lambda spec: modest(spec["probability"]), Look.SHARE))


def rejected_columns(t: Texts, *, clouds: bool) -> list[Column]:
    """Return columns of the document's `rejected`; the service's page has the same."""
    return columns_of(
        t,
        ("instance", lambda record: type_name(record, clouds=clouds), Look.NAME),
        ("per_hour", "usd_per_hour", Look.USD),
        ("reason", lambda record: t.known("reason." + record["reason"], record["reason"]), Look.NAME),
        ("detail", lambda record: translated(record["detail"], t)),
    )


def settings_columns(settings: Sequence[Record], t: Texts, *, on_cpu: bool = False) -> list[Column]:
    """Return columns of the document's `other_settings`; the service's page has the same."""

    def of_gpu(setting: Record) -> str:
        return f"{setting['gain']:.2f} ({setting['lower']:.2f}\u2013{setting['upper']:.2f})"

    return [
        Column(t("settings.change"), "change"),
        Column(t("settings.gpu"), of_gpu),
        Column(t("settings.whole"), lambda setting: f"{100 * (setting['throughput_gain'] - 1):+.0f}\u00a0%"),
        Column(t("table.bound"), lambda setting: stage_name(setting["bottleneck"], t, on_cpu=on_cpu)),
        Column(t("settings.known"), lambda setting: t("yes" if setting["measured"] else "no")),
        *instead_columns(settings, t),
    ]


def instead_columns(changes: Sequence[Record], t: Texts) -> list[Column]:
    """Return a column of the spec to choose with each change, if any change leads to one."""

    def text(change: Record) -> str | None:
        cost = (change.get("instead") or {}).get("usd_per_million_output_tokens")
        usd = cost and t("settings.per_million", usd=format_usd(cost["median"]))
        return ", ".join(filter(None, (instead_text(change), usd))) or None

    return [Column(t("settings.instead"), text)] if any(map(text, changes)) else []


def instead_text(change: Record) -> str | None:
    """'g6.xlarge, $0.8049/h': the spec to choose with a change."""
    spec = change.get("instead")
    return f"{type_name(spec, clouds=False)}, {format_usd(spec['total_usd_per_hour'])}/h" if spec else None
