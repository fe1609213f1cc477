"""How limits are drawn and tightened; random numbers come from hypothesis, which shrinks them."""

import math

from advisor.domain import Task


def between(random, low, high):
    """A number between two, evenly in its logarithm."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def sometimes(share, field, low, high):
    """A number between two in so many of the requests."""

    def draw(random, request, world):
        return {field: between(random, low, high)} if random.random() < share else {}

    return draw


def one_of(share, field, values):
    """One of the values in so many of the requests."""

    def draw(random, request, world):
        return {field: random.choice(values)} if random.random() < share else {}

    return draw


def times(field, low, high, start=None):
    """What is limited, limited more; what is free, held to `start` times a factor."""

    def tighten(random, request, world):
        value = getattr(request, field)
        value = start if value is None else value
        return None if value is None else {field: value * between(random, low, high)}

    return tighten


def no_more(field, start):
    """A whole number that is no larger, `start` at most."""

    def tighten(random, request, world):
        return {field: random.randint(1, getattr(request, field) or start)}

    return tighten


def only_for_inference(change):
    def changes(random, request, world):
        return change(random, request, world) if request.task is Task.INFERENCE else {}

    return changes


def but_for_training(change):
    def changes(random, request, world):
        return {} if request.task is Task.TRAINING else change(random, request, world)

    return changes


def only_with_a_run(change):
    def changes(random, request, world):
        return change(random, request, world) if request.run_samples else {}

    return changes
