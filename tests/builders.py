"""Records with defaults: a test shows only what matters to it."""

from contextlib import closing
from datetime import date

from advisor.domain import (
    Candidate,
    CloseCall,
    CloseCallKind,
    Cpu,
    Disk,
    DiskChoice,
    DiskRate,
    InstanceType,
    Market,
    MemoryFormat,
    Offer,
    Precision,
    Prediction,
    Price,
    Provenance,
    Recommendation,
    Rejected,
    Spec,
    Stage,
    Task,
    Workload,
)
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.store.measurements import open_store

PRICED = date(2026, 7, 20)


def network_question(**fields):
    """A question settled for one region of AWS: sure bounds, no time to start, fp32 as PyTorch runs it."""
    plain = {"start_minutes": 0.0, "precision": Precision.FP32, "memory_format": MemoryFormat.CONTIGUOUS}
    return NetworkQuestion(**_sure(fields), **{**plain, **fields})


def serving_question(**fields):
    return ServingQuestion(**_sure(fields), **fields)


def tuning_question(**fields):
    return TuningQuestion(**_sure(fields), **{"start_minutes": 0.0, **fields})


def _sure(fields):
    usual = {"region": "us-east-1", "required_confidence": fields.get("confidence", 0.9)}
    return {name: value for name, value in usual.items() if name not in fields}


def instance(name="g4dn.xlarge", **changes):
    values = {
        "cloud": "aws",
        "name": name,
        "vcpus": 4,
        "physical_cores": 2,
        "memory_mib": 16384,
        "cpu": Cpu(model="Xeon", architecture="x86_64"),
        "gpu_name": "T4",
        "gpu_vendor": "NVIDIA",
        "gpu_count": 1,
        "gpu_memory_mib": 15360,
        "as_of": PRICED,
        "source": "a table",
    }
    return InstanceType(**{**values, **changes})


def price(usd_per_hour=0.526, source="a price list"):
    return Price(usd_per_hour=usd_per_hour, kind="list", as_of=PRICED, source=source)


def prediction(lower=505.0, median=612.3, upper=741.0, **changes):
    rates = {Stage.ACCELERATOR: 1980.0, Stage.HOST: 640.0, Stage.STORAGE: 1190.0}
    values = {
        "lower": lower,
        "median": median,
        "upper": upper,
        "confidence": 0.9,
        "stage_rates": rates,
        "bottleneck": Stage.HOST,
        "provenance": Provenance.MODELLED,
    }
    return Prediction(**{**values, **changes})


def candidate(name="g4dn.xlarge", usd_per_hour=0.526, batch_size=32, **changes):
    disk = Disk(
        rate=DiskRate(type="gp3", read_mib_per_second=125.0, read_iops=3000.0),
        choice=DiskChoice(type="gp3", size_gib=158),
        size_gib=158,
        binding_limit="volume",
        price=price(0.0173, "a disk price list"),
    )
    offer = Offer(
        instance=instance(name), region="us-east-1", market=Market.ON_DEMAND, price=price(usd_per_hour)
    )
    return Candidate(
        spec=Spec(offer=offer, disk=disk),
        workload=Workload(network="googlenet", task=Task.INFERENCE, batch_size=batch_size),
        prediction=changes.pop("prediction", prediction()),
        **changes,
    )


def close_call(**changes):
    cheaper = candidate("g4dn.large", 0.263, prediction=prediction(450.0, 510.0, 560.0))
    values = {
        "kind": CloseCallKind.CHEAPER_MAY_REACH,
        "candidate": cheaper,
        "instead": candidate(),
        "probability": 0.59,
        "saves_usd_per_hour": 0.263,
        "trial_minutes": 10.0,
        "trial_usd": 0.0467,
        "worth_usd": 113.27,
    }
    return CloseCall(**{**values, **changes})


def rejected(instance_type="g4ad.xlarge", usd_per_hour=0.379, **changes):
    values = {"reason": "unsupported", "detail": "no maintained PyTorch build runs on its AMD card"}
    same = {"cloud": "aws", "instance_type": instance_type, "usd_per_hour": usd_per_hour}
    return Rejected(**{**same, **values, **changes})


def recommendation(**changes):
    values = {
        "request": network_question(network="googlenet", task=Task.INFERENCE, target_throughput=500.0),
        "ranked": (candidate(), candidate("g6.xlarge", 0.8048, notes=("mind the gap",))),
        "nearest": None,
        "rejected": (rejected(), rejected("p2.xlarge", None, reason="no_price", detail="unknown")),
        "offers_considered": 61,
        "assumptions": ("imagenet", "PyTorch eager, fp32"),
        "warnings": ("the instance price is 124 days old (2026-07-20)",),
        "today": date(2026, 11, 21),
    }
    return Recommendation(**{**values, **changes})


def keep(*rows):
    """Store measurements where commands and the service look for them."""
    with closing(open_store()) as store:
        store.append_all(rows)
