"""Sizes cloud instances for neural networks: the cheapest instance and disk that really reach a throughput.

    import advisor

    answer = advisor.recommend(task="training", model="resnet50", target_throughput=500)
    answer.recommendation.instance_type, answer.to_dict(), answer.to_frame()

The functions take the fields of the command line's questions by the same names, in the same units and with
the same defaults; `advisor.api` has them, and `docs/how-to/python.md` lists them. A name is imported when it
is used: importing this package imports nothing else.
"""

_HOMES = {
    "advisor.api.functions": (
        "recommend",
        "predict",
        "compare",
        "memory",
        "gpus",
        "networks",
        "offers",
        "objective",
        "Objective",
    ),
    "advisor.api.modules": ("network",),
    "advisor.api.measuring": ("anchor", "measure", "Measuring"),
    "advisor.api.answers": (
        "Answer",
        "Recommendation",
        "Prediction",
        "Comparison",
        "Memory",
        "Listing",
        "Record",
    ),
    "advisor.errors": (
        "AdvisorError",
        "UsageError",
        "NoOfferError",
        "NoIntervalError",
        "StalePriceError",
        "DataError",
        "MeasuringError",
        "LiveError",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    """A public name, imported now (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'advisor' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """With the names that were not used yet."""
    return sorted({*globals(), *_HOME_OF})
