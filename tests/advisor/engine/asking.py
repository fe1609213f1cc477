"""What tests of the engine ask: googlenet's inference on the shipped catalogue, by the plain model."""

from datetime import date

from msgspec.structs import replace

from advisor.catalog import load_catalog, resources_of
from advisor.domain import IMAGENET, CacheState, Task
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import Runnable, attached, disks_for, on_nodes, query_of, runnable
from advisor.engine.tasks.network import NetworkTask
from tests.builders import network_question

from .plain_model import PlainModel

TODAY = date(2026, 7, 21)
CATALOG = load_catalog()
SMALL = replace(IMAGENET, name="small", samples=50_000)


def question(**changes):
    return network_question(**{"network": "googlenet", "task": Task.INFERENCE, **changes})


def answered(request, model=None, today=TODAY):
    return recommend(request, Preparations(CATALOG, model or PlainModel()), today=today)


def task(model=None):
    return NetworkTask(Preparations(CATALOG, model or PlainModel()))


def names(candidates):
    return [candidate.spec.offer.instance.name for candidate in candidates]


def hourly(candidates):
    return [candidate.spec.total_usd_per_hour for candidate in candidates]


def reasons(answer):
    """Why each type was turned down."""
    return {rejected.instance_type: rejected.reason for rejected in answer.rejected}


def every_spec(request, model):
    """(USD an hour, lower bound, that of a first epoch) of each offer, number of nodes, disk and batch that
    runs."""
    sold = [attached(request, CATALOG, offer) for offer in CATALOG.offers(query_of(request))]
    for verdict in runnable(request, CATALOG, model, sold):
        for option in on_nodes(request, verdict) if isinstance(verdict, Runnable) else ():
            for disk in disks_for(request, CATALOG, option.offer.instance):
                has = resources_of(CATALOG, option.offer, disk, None, option.nodes)
                pairs = [(workload, has) for workload in option.workloads]
                usd = option.nodes * (option.offer.price.usd_per_hour + disk.usd_per_hour)
                warm = model.predict(pairs, confidence=0.9)
                cold = model.predict(pairs, confidence=0.9, cache=CacheState.COLD)
                for usual, first in zip(warm, cold, strict=True):
                    yield usd, option.nodes * usual.lower, option.nodes * first.lower
