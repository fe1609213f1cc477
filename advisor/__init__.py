"""Sizes cloud instances for neural networks: the cheapest instance and disk that really reach a throughput.

    import advisor

    answer = advisor.recommend(task="training", model="resnet50", target_throughput=500)
    answer.recommendation.instance_type, answer.to_dict(), answer.to_frame()

The functions take the options of the command line as arguments, by the same names, in the same units and with
the same defaults. They are in `advisor.api`, and `docs/how-to/python.md` lists them. Public names are loaded
on first use, so importing this package imports nothing else."""

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
    """The object with a public name, imported on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'advisor' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names of this module, including public names that are not imported yet."""
    return sorted({*globals(), *_HOME_OF})
