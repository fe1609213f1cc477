"""The sheets of a report's workbook: a table each, of every record of the document.

Headings and the names of sheets are what other programs read by: they stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.render.language.tables import language_sheets
from advisor.render.sizing.facts import usd_per_million_samples
from advisor.render.workbook_sheet import Sheet, columns_in

Record = Mapping[str, Any]
# The cell that a buyer changes; the first sheet has it.
HOURS_NAME = "hours_per_month"
USD_HOUR, USD_MONTH = "USD/hour", "USD/month"
_RATES = """Lower samples/s={0}lower:rate; Median samples/s={0}median:rate;
    Upper samples/s={0}upper:rate"""
_INTERVAL = """Lowest USD/hour={0}low_usd_per_hour:usd;
    Highest USD/hour={0}high_usd_per_hour:usd"""
_PRICED = "Price=kind; Price of=as_of:day; Source=source"
# Documents of earlier versions tell neither.
_NO_INTERVAL = {"price_kind": None, "low_usd_per_hour": None, "high_usd_per_hour": None}
_NO_TOTAL_INTERVAL = {"total_low_usd_per_hour": None, "total_high_usd_per_hour": None}
_BOTH_USD = "{Instances USD/hour}+{Disks USD/hour}"
_MONTH = f"{{{USD_HOUR}}}*{HOURS_NAME}"


def sheets_of(document: Record) -> list[Sheet]:
    """Every sheet, in the order of a reader's questions; the first one has the totals."""
    sections = document["workloads"]
    return [
        _picks(document),
        *_money(sections),
        *_charts(sections),
        *_facts(sections),
        *language_sheets(sections),
        Sheet(
            "Reproducibility",
            "Versions, digests, and the command.",
            columns_in("What=what; Value=value:number"),
            [{"what": name, "value": value} for name, value in _flat(document["reproducibility"])],
        ),
    ]


def _sheet(
    sections: Sequence[Record],
    rows_of: Callable[[Record], Sequence[Record]],
    name: str,
    note: str,
    columns: str,
    **formulas: str,
) -> Sheet:
    """The rows of all sections, each after the name of its workload."""
    rows = [{"workload": section["name"], **row} for section in sections for row in rows_of(section)]
    return Sheet(name, note, columns_in(f"Workload=workload; {columns}", formulas), rows)


def _picks(document: Record) -> Sheet:
    """A row a workload, with its own hours a month, which follow the one cell until changed. Where
    nothing meets the target no spec is bought, and none is added up."""
    columns = columns_in(
        f"""Workload=name; Status=answer.status; Instance type=spec.instance_type;
        Instances=spec.count:whole; Disk (each)=spec.disk; Region=spec.region; Market=spec.market;
        {USD_HOUR}=spec.usd_per_hour:usd; Hours/month=spec.hours:whole;
        {USD_MONTH}=spec.usd_per_month:usd_month;
        USD/million samples=spec.usd_per_million_samples:usd;
        Target samples/s=answer.target_throughput:rate; {_RATES.format("spec.")};
        Confidence=answer.confidence:number; Bottleneck=spec.bottleneck;
        Prediction=spec.provenance; Risk (1-5)=spec.risk:whole; Price=spec.price_kind;
        Price of=spec.price_as_of:day; {_INTERVAL.format("spec.")}; Unit=spec.unit""",
        {
            "Hours/month": HOURS_NAME,
            USD_MONTH: f"{{{USD_HOUR}}}*{{Hours/month}}",
            "USD/million samples": f"{{{USD_HOUR}}}/({{Median samples/s}}*3600)*1000000",
        },
        ("Instances", USD_HOUR, USD_MONTH),
    )
    hours, rows = document["totals"]["hours_per_month"], []
    for section in document["workloads"]:
        answered = section["answer"]["status"] == "answered"
        spec = {**_NO_INTERVAL, **section["answer"]["spec"], "hours": hours} if answered else None
        rows.append({**section, "spec": spec})
    note = f"Change {HOURS_NAME} above, or the hours of one workload: months and sums follow."
    return Sheet("Totals", note, columns, rows)


def _money(sections: Sequence[Record]) -> list[Sheet]:
    """What the picks cost however they are paid for, and where."""
    sums = {USD_HOUR: _BOTH_USD, USD_MONTH: _MONTH}
    return [
        _sheet(
            sections,
            lambda section: (section["costs"] or {}).get("choices", []),
            "Costs",
            "The picks by every way of paying that is known.",
            f"""Market=market; Asked for=asked; Terms=terms;
            Instances USD/hour=instance_usd_per_hour:usd; Disks USD/hour=disk_usd_per_hour:usd;
            {USD_HOUR}=usd_per_hour:usd; {USD_MONTH}=usd_per_month:usd_month;
            USD/million samples=usd_per_million_samples:usd;
            Less than on demand (%)=saving_percent:percent; {_PRICED}""",
            **sums,
        ),
        _sheet(
            sections,
            lambda section: section["regions"],
            "Regions",
            "The same spec in other regions; empty: no price known.",
            f"""Region=region; Chosen=chosen; Instances USD/hour=usd_per_hour:usd;
            Disks USD/hour=disk_usd_per_hour:usd; {USD_HOUR}=total_usd_per_hour:usd;
            {USD_MONTH}=usd_per_month:usd_month; {_PRICED}""",
            **sums,
        ),
    ]


def _charts(sections: Sequence[Record]) -> Iterator[Sheet]:
    """The data of every chart."""
    yield _sheet(
        sections,
        _drawn,
        "Price and rate",
        "What each spec costs and reaches.",
        f"""Instance type=instance_type; Cloud=cloud; Region=region; Market=market;
        Instances=count:whole; GPU=gpu; GPUs=gpu_count:whole; vCPUs=vcpus:number;
        Memory (MiB)=memory_mib:whole; Disk (each)=disk; Batch size=batch_size:whole;
        {USD_HOUR}=total_usd_per_hour:usd; {_RATES.format("")}; Bottleneck=bottleneck;
        USD/million samples=usd_per_million_samples:usd; Prediction=provenance;
        On the front=on_front; Meets the target=answers; Chosen=chosen; Price=price_kind;
        {_INTERVAL.format("")}""",
    )
    yield _sheet(
        sections,
        lambda section: section["break_even"],
        "Break-even",
        "At which rate, and at which price, the choice turns.",
        """Cheaper=cheaper.instance_type; Its disk=cheaper.disk;
        Cheaper USD/hour=cheaper.total_usd_per_hour:usd; Cheaper lower samples/s=cheaper.lower:rate;
        Dearer=dearer.instance_type; Disk of that=dearer.disk;
        Dearer USD/hour=dearer.total_usd_per_hour:usd; Dearer lower samples/s=dearer.lower:rate;
        Dearer needed above samples/s=at_samples_per_second:rate;
        More USD/hour=more_usd_per_hour:usd; More samples/s=more_samples_per_second:rate;
        Dearer pays below USD/hour=dearer_pays_below_usd_per_hour:usd; Pays now=dearer_pays_now;
        Of the pick=of_chosen""",
        **{
            "Dearer needed above samples/s": "{Cheaper lower samples/s}",
            "More USD/hour": "{Dearer USD/hour}-{Cheaper USD/hour}",
            "More samples/s": "{Dearer lower samples/s}-{Cheaper lower samples/s}",
            "Dearer pays below USD/hour": (
                "{Cheaper USD/hour}*{Dearer lower samples/s}/{Cheaper lower samples/s}"
            ),
        },
    )
    yield _sheet(
        sections,
        _stages,
        "Bottleneck",
        "What each stage could do alone; the slowest binds.",
        "Stage=stage; Its own samples/s=samples_per_second:rate; Used (%)=used_percent:percent",
    )
    rates = f"{_RATES.format('')}; Bottleneck=bottleneck"
    for name, curve, columns in (
        ("Over vCPUs", "vcpus", "vCPUs (each)=vcpus:number; Physical cores=physical_cores:number"),
        ("Over memory", "memory", "Memory (MiB, each)=memory_mib:whole"),
        (
            "Over disks",
            "disk",
            """Disk (each)=order; Disk type=type;
            Reads (MiB/s)=read_mib_per_second:number; Reads (IOPS)=read_iops:whole;
            Disk USD/hour (each)=usd_per_hour_each:usd""",
        ),
    ):
        note = "Everything else as the pick has it."
        points = _points_of(curve)
        yield _sheet(sections, points, name, note, f"{columns}; {rates}")
    yield _sheet(
        sections,
        _measured,
        "Measured",
        "Points that were measured, in the charts or beside.",
        """Trial=trial_id; Network=network; Task=task; Batch size=batch_size:whole;
        Precision=precision; Data set=dataset; vCPUs=vcpus:number; Memory (MiB)=memory_mib:whole;
        Disk type=disk_type; Disk (MiB/s)=disk_read_mib_per_second:number; Accelerator=accelerator;
        CPU=cpu_model; Measured samples/s=samples_per_second:rate; Known as=provenance; From=origin;
        Measured on=measured_on:day; Drawn over vCPUs=over_vcpus; Drawn over memory=over_memory;
        Drawn over disks=over_disk""",
    )
    yield _sheet(
        sections,
        _batches,
        "GPU memory",
        "Batches and the memory of one GPU.",
        f"""GPU=gpu; Has (MiB)=has_mib:whole; Batch size=batch_size:whole;
        Needs (MiB)=needed_mib:whole; Used (%)=used_percent:percent; Fits=fits; Chosen=chosen;
        {_RATES.format("reached.")}""",
        **{"Used (%)": "100*{Needs (MiB)}/{Has (MiB)}"},
    )


def _drawn(section: Record) -> list[Record]:
    return [{**_NO_INTERVAL, **row} for row in section["price_throughput"]]


def _stages(section: Record) -> list[Record]:
    stages = (section["bottleneck"] or {}).get("stages", [])
    return [{**stage, "used_percent": 100 * stage["utilization"]} for stage in stages]


def _points_of(curve: str) -> Callable[[Record], Sequence[Record]]:
    return lambda section: section["curves"][curve]["points"] if section["curves"] else []


def _measured(section: Record) -> list[Record]:
    """Each measurement, and which curves show it."""
    curves = section["curves"] or {}
    drawn = {
        f"over_{name}": set(curves[name]["measured"]) if curves else set()
        for name in ("vcpus", "memory", "disk")
    }
    return [
        {**row, **{name: row["trial_id"] in ids for name, ids in drawn.items()}}
        for row in section["measured"]
    ]


def _batches(section: Record) -> list[Record]:
    block = section["gpu_memory"]
    if block is None:
        return []
    card = {"gpu": block["gpu"], "has_mib": block["has_mib"]}
    return [
        {**card, **row, "used_percent": 100 * row["needed_mib"] / block["has_mib"]}
        for row in block["batches"]
    ]


def _facts(sections: Sequence[Record]) -> list[Sheet]:
    """What stands beside the numbers: other specs, reasons, evidence, ages, notes."""
    return [
        _sheet(
            sections,
            lambda section: section["sensitivity"],
            "Sensitivity",
            "What one step more of each resource brings.",
            """Resource=resource; One step more=step; Has=has:number; Unit=unit;
            More samples/s=samples_per_second:rate; More (%)=percent:percent;
            Bottleneck then=bottleneck; Flat after=flat_after:number""",
        ),
        _sheet(
            sections,
            _ranked,
            "Alternatives",
            "What meets the target, the pick first.",
            f"""Place=place:whole; Instance type=instance_type; Cloud=cloud; Region=region;
            Market=market; Instances=count:whole; Disk (each)=disk.order;
            Instance USD/hour (each)=price.usd_per_hour:usd;
            Disk USD/hour (each)=price.disk_usd_per_hour:usd;
            {USD_HOUR}=price.total_usd_per_hour:usd; {_RATES.format("predicted.throughput.")};
            USD/million samples=usd_per_million_samples:usd; Bottleneck=bottleneck;
            Risk (1-5)=risk:whole; Price=price.kind; Price of=price.as_of:day; Note=note;
            {_INTERVAL.format("price.total_")}""",
            **{USD_HOUR: "{Instances}*({Instance USD/hour (each)}+{Disk USD/hour (each)})"},
        ),
        _sheet(
            sections,
            _rejected,
            "Rejected",
            "What was passed over, and why.",
            """Instance type=instance_type; Cloud=cloud; Reason=reason; In detail=detail;
            Instance USD/hour=usd_per_hour:usd""",
        ),
        _sheet(
            sections,
            lambda section: section["evidence"],
            "Evidence",
            "What each prediction stands on.",
            """About=subject; Stage=stage; Matters=matters; Inside what was measured=inside;
            Times beyond=times:number; In detail=detail""",
        ),
        _sheet(
            sections,
            lambda section: section["data_ages"],
            "Data age",
            "Dates of what decided, on the report's day.",
            "What=what; Of=as_of:day; Age (days)=age_days:whole; Known as=kind; Source=source",
        ),
        _sheet(
            sections,
            _notes,
            "Notes",
            "Warnings, assumptions, and how to ask each workload alone.",
            "Kind=kind; Text=text",
        ),
    ]


def _ranked(section: Record) -> list[Record]:
    answer = section["recommendation"]
    ranked = [spec for spec in (answer["recommendation"], *answer["alternatives"]) if spec]
    return [
        {
            "bottleneck": None,
            **spec,
            "place": place,
            "usd_per_million_samples": usd_per_million_samples(spec),
            "price": {**_NO_TOTAL_INTERVAL, **spec["price"]},
        }
        for place, spec in enumerate(ranked, start=1)
    ]


def _notes(section: Record) -> list[Record]:
    answer = section["recommendation"]
    kinds = {
        "warning": answer["warnings"],
        "assumption": answer["assumptions"],
        "relax": [_relaxed(relaxation) for relaxation in answer["relax"]],
        "command": [section["command"]] if section["command"] else [],
    }
    return [{"kind": kind, "text": text} for kind, texts in kinds.items() for text in texts]


def _rejected(section: Record) -> list[Record]:
    """Documents of earlier versions tell no cloud of these."""
    return [{"cloud": None, **one} for one in section["recommendation"]["rejected"]]


def _relaxed(relaxation: Record) -> str:
    """'--max-price 1.014: g5.xlarge in us-east-1': what to ask instead, and what that gives."""
    changes = [
        f"{change['option']} {change['to']}" if change["to"] else f"no {change['option']}"
        for change in relaxation["changes"]
    ]
    gives = relaxation["gives"]
    return f"{' '.join(changes)}: {gives['instance_type']} in {gives['region']}"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for at, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{at}")
    else:
        yield name, value
