"""What tests of the engine ask: googlenet's inference on the shipped catalogue, by the plain model."""

from datetime import date

from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import IMAGENET, Task
from advisor.engine import Preparations, recommend
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
